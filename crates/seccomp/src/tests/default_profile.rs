use super::interpreter::{Call, check, run};
use super::{answer, answer_number, oracle::evaluate, program_on};
use crate::{Arch, CapSet, DEFAULT, Instruction, compile, default_filter, default_profile};
use std::borrow::Cow;

const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const ALLOW: u32 = 0x7fff_0000;

fn docker_on(arch: Arch) -> Vec<Instruction> {
    program_on(&default_profile(CapSet::DOCKER, arch), arch)
}

#[test]
fn what_the_build_compiled_is_what_the_library_compiles() {
    let native = Arch::NATIVE;
    for capabilities in [
        CapSet::DOCKER,
        CapSet::DOCKER.union(CapSet::SYS_ADMIN),
        CapSet::DOCKER.union(CapSet::SYS_PTRACE),
        CapSet::ALL,
        CapSet::from_bits((1 << 41) - 1),
        CapSet::EMPTY,
        CapSet::CHOWN,
    ] {
        let Cow::Borrowed(built) = default_filter(capabilities) else {
            panic!("{capabilities:?} is not built in")
        };
        check(built);
        assert_eq!(
            built,
            compile(&default_profile(capabilities, native), native)
                .unwrap()
                .instructions
        );
    }
    assert_eq!(default_filter(CapSet::DOCKER), DEFAULT);

    let unusual = CapSet::DOCKER.union(CapSet::BPF);
    assert!(matches!(default_filter(unusual), Cow::Owned(_)));
    assert_eq!(
        default_filter(unusual),
        compile(&default_profile(unusual, native), native)
            .unwrap()
            .instructions
    );
}

#[test]
fn names_in_the_profile_exist() {
    for arch in [Arch::X86_64, Arch::Aarch64] {
        for name in default_profile(CapSet::ALL, arch)
            .syscalls
            .iter()
            .flat_map(|rule| &rule.names)
        {
            assert!(crate::arch::row(name).is_some(), "{name}");
        }
    }
}

#[test]
fn dangerous_calls_are_forbidden_to_docker_and_some_to_all() {
    let program = docker_on(Arch::X86_64);
    let all = program_on(&default_profile(CapSet::ALL, Arch::X86_64), Arch::X86_64);
    for name in [
        "add_key",
        "io_uring_enter",
        "io_uring_register",
        "io_uring_setup",
        "kexec_file_load",
        "kexec_load",
        "keyctl",
        "migrate_pages",
        "move_pages",
        "nfsservctl",
        "pivot_root",
        "request_key",
        "swapoff",
        "swapon",
        "uselib",
        "userfaultfd",
        "ustat",
    ] {
        assert_eq!(answer(&program, Arch::X86_64, name, [0; 6]), EPERM, "{name}");
        assert_eq!(answer(&all, Arch::X86_64, name, [0; 6]), EPERM, "{name}");
    }
    for name in [
        "acct",
        "bpf",
        "clock_settime",
        "delete_module",
        "finit_module",
        "fsopen",
        "init_module",
        "ioperm",
        "iopl",
        "kcmp",
        "lookup_dcookie",
        "mbind",
        "mount",
        "move_mount",
        "open_by_handle_at",
        "perf_event_open",
        "reboot",
        "setns",
        "settimeofday",
        "set_mempolicy_home_node",
        "syslog",
        "umount2",
        "unshare",
        "vhangup",
    ] {
        assert_eq!(answer(&program, Arch::X86_64, name, [0; 6]), EPERM, "{name}");
        assert_eq!(answer(&all, Arch::X86_64, name, [0; 6]), ALLOW, "{name}");
    }
    for arch in [Arch::X86_64, Arch::X86, Arch::X32] {
        for name in [
            "read",
            "execve",
            "openat",
            "futex",
            "ptrace",
            "process_vm_readv",
            "chroot",
            "prctl",
            "mknod",
        ] {
            assert_eq!(answer(&program, arch, name, [0; 6]), ALLOW, "{arch:?} {name}");
        }
    }
}

#[test]
fn capabilities_open_their_calls_and_no_others() {
    for (capability, name) in [
        (CapSet::SYS_PACCT, "acct"),
        (CapSet::BPF, "bpf"),
        (CapSet::SYS_CHROOT, "chroot"),
        (CapSet::SYS_TIME, "clock_settime"),
        (CapSet::SYS_MODULE, "init_module"),
        (CapSet::SYS_RAWIO, "iopl"),
        (CapSet::SYS_PTRACE, "kcmp"),
        (CapSet::SYS_NICE, "mbind"),
        (CapSet::SYS_ADMIN, "mount"),
        (CapSet::DAC_READ_SEARCH, "open_by_handle_at"),
        (CapSet::PERFMON, "perf_event_open"),
        (CapSet::SYS_BOOT, "reboot"),
        (CapSet::SYSLOG, "syslog"),
        (CapSet::SYS_TTY_CONFIG, "vhangup"),
    ] {
        let with = program_on(&default_profile(capability, Arch::X86_64), Arch::X86_64);
        assert_eq!(answer(&with, Arch::X86_64, name, [0; 6]), ALLOW, "{name}");
        let others = CapSet::from_bits(!capability.union(CapSet::SYS_ADMIN).bits());
        let without = program_on(&default_profile(others, Arch::X86_64), Arch::X86_64);
        assert_eq!(answer(&without, Arch::X86_64, name, [0; 6]), EPERM, "{name}");
    }
}

#[test]
fn namespaces_need_sys_admin() {
    let program = docker_on(Arch::X86_64);
    let admin = default_profile(CapSet::SYS_ADMIN, Arch::X86_64);
    let admin = program_on(&admin, Arch::X86_64);
    let thread = 0x003d_0f00;
    assert_eq!(
        answer(&program, Arch::X86_64, "clone", [thread, 0, 0, 0, 0, 0]),
        ALLOW
    );
    assert_eq!(answer(&program, Arch::X86_64, "clone3", [0; 6]), ENOSYS);
    assert_eq!(answer(&admin, Arch::X86_64, "clone3", [0; 6]), ALLOW);
    for flag in [
        0x0002_0000,
        0x0200_0000,
        0x0400_0000,
        0x0800_0000,
        0x1000_0000,
        0x2000_0000,
        0x4000_0000_u64,
    ] {
        for arch in [Arch::X86_64, Arch::X86, Arch::X32] {
            assert_eq!(
                answer(&program, arch, "clone", [thread | flag, 0, 0, 0, 0, 0]),
                EPERM,
                "{flag:#x}"
            );
            assert_eq!(
                answer(&program, arch, "clone", [flag | 1 << 40, 0, 0, 0, 0, 0]),
                EPERM,
                "{flag:#x}"
            );
            assert_eq!(
                answer(&admin, arch, "clone", [thread | flag, 0, 0, 0, 0, 0]),
                ALLOW,
                "{flag:#x}"
            );
        }
    }
}

#[test]
fn socket_families() {
    let program = docker_on(Arch::X86_64);
    for arch in [Arch::X86_64, Arch::X86, Arch::X32] {
        for family in 0..64 {
            let expected = if family == 38 || family == 40 {
                EPERM
            } else {
                ALLOW
            };
            assert_eq!(
                answer(&program, arch, "socket", [family, 1, 0, 0, 0, 0]),
                expected,
                "{family}"
            );
            let junk = family | 0xdead_beef << 32;
            assert_eq!(
                answer(&program, arch, "socket", [junk, 1, 0, 0, 0, 0]),
                expected,
                "{family}"
            );
        }
    }
}

#[test]
fn personalities() {
    let program = docker_on(Arch::X86_64);
    for (persona, expected) in [
        (0, ALLOW),
        (8, ALLOW),
        (0x2_0000, ALLOW),
        (0x2_0008, ALLOW),
        (0xffff_ffff, ALLOW),
        (0x004_0000, EPERM), // ADDR_NO_RANDOMIZE
        (0x40_0000, EPERM),  // READ_IMPLIES_EXEC
        (9, EPERM),
        (0xffff_fffe, EPERM),
    ] {
        assert_eq!(
            answer(&program, Arch::X86_64, "personality", [persona, 0, 0, 0, 0, 0]),
            expected,
            "{persona:#x}"
        );
    }
}

#[test]
fn newest_calls_fall_back() {
    for (arch, calls) in [(Arch::X86_64, [466, 467, 600]), (Arch::Arm, [466, 467, 600])] {
        let program = docker_on(arch);
        assert_eq!(
            calls.map(|number| answer_number(&program, arch, number, [0; 6])),
            [ALLOW, ENOSYS, ENOSYS]
        );
    }
    let arm = docker_on(Arch::Aarch64);
    assert_eq!(answer(&arm, Arch::Arm, "set_tls", [0; 6]), ALLOW);
    assert_eq!(answer(&arm, Arch::Aarch64, "openat", [0; 6]), ALLOW);
    assert_eq!(answer(&arm, Arch::Aarch64, "mount", [0; 6]), EPERM);
}

/// The test covers every existing number, on every architecture, with arguments that matter to some call.
#[test]
fn the_program_is_the_profile() {
    for native in [Arch::X86_64, Arch::Aarch64] {
        let profile = default_profile(CapSet::DOCKER, native);
        let program = program_on(&profile, native);
        for arch in [Arch::X86_64, Arch::X32, Arch::X86, Arch::Aarch64, Arch::Arm] {
            let base = if arch == Arch::X32 { 0x4000_0000 } else { 0 };
            for number in (base..base + 700).chain(0xf_0000..0xf_0010).chain([u32::MAX]) {
                for first in [0, 1, 8, 38, 39, 40, 0x1000_0000, 0xffff_ffff, 38 << 32, u64::MAX] {
                    let call = Call {
                        arch: arch.audit(),
                        number,
                        args: [first; 6],
                    };
                    assert_eq!(
                        run(&program, &call).0,
                        evaluate(&profile, native, &call),
                        "{call:x?} on {native:?}"
                    );
                }
            }
        }
    }
}

/// The test keeps the promise of short paths: it counts the instructions of a call, over all calls of the native
/// architecture.
#[test]
fn ways_are_short() {
    let program = docker_on(Arch::X86_64);
    let steps = |name: &str| {
        let number = Arch::X86_64.number(name).unwrap();
        run(
            &program,
            &Call {
                arch: Arch::X86_64.audit(),
                number,
                args: [0; 6],
            },
        )
        .1
    };
    let constant: Vec<usize> = crate::table::ROWS
        .iter()
        .map(|row| row.0)
        .filter(|name| Arch::X86_64.number(name).is_some())
        .filter(|name| !["clone", "socket", "personality"].contains(name))
        .map(steps)
        .collect();
    let (longest, sum) = (constant.iter().max().unwrap(), constant.iter().sum::<usize>());
    println!(
        "{} instructions; way of a call: {:.2} on average, {longest} at most",
        program.len(),
        sum as f64 / constant.len() as f64
    );
    assert!(
        *longest <= 13 && sum <= 11 * constant.len(),
        "{longest} {sum} / {}",
        constant.len()
    );
    assert!(program.len() < 300, "{}", program.len());
}
