//! Random profiles: the program and the oracle agree about every relevant call.

use super::interpreter::{Call, check, run};
use super::oracle::evaluate;
use super::profile;
use crate::{Arch, compile};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection::vec, option, proptest, sample::select};
use tote_spec::{Action, Arg, Operator, Seccomp, SyscallRule};

/// Calls with neighbouring and with distant numbers; the last name has no number anywhere.
const NAMES: &[&str] = &[
    "accept",
    "bind",
    "brk",
    "clone",
    "clone3",
    "close",
    "connect",
    "dup",
    "execve",
    "exit",
    "fstat",
    "ioctl",
    "lseek",
    "mkdir",
    "mkdirat",
    "mmap",
    "mmap2",
    "mprotect",
    "mseal",
    "munmap",
    "open",
    "openat",
    "openat2",
    "poll",
    "pread64",
    "read",
    "readv",
    "rt_sigaction",
    "set_tls",
    "cacheflush",
    "socket",
    "socketcall",
    "stat",
    "statx",
    "writev",
    "nothing",
];

const ARCHES: &[Arch] = &[Arch::X86_64, Arch::X32, Arch::X86, Arch::Aarch64, Arch::Arm];

/// Words are few, so that conditions hold now and then.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (select(&[0_u64, 1, 2, 0x8000_0000, 0xffff_ffff][..]), select(&[0_u64, 1, 2, 0xffff_ffff][..]))
            .prop_map(|(low, high)| high << 32 | low),
        4 => 0..4_u64,
        1 => any::<u64>(),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    select(
        &[
            Action::KillThread,
            Action::KillProcess,
            Action::Trap,
            Action::Errno,
            Action::Trace,
            Action::Allow,
            Action::Log,
        ][..],
    )
}

fn condition() -> impl Strategy<Value = Arg> {
    let operators = &[
        Operator::NotEqual,
        Operator::LessThan,
        Operator::LessEqual,
        Operator::Equal,
        Operator::GreaterEqual,
        Operator::GreaterThan,
        Operator::MaskedEqual,
    ][..];
    let index = prop_oneof![4 => 0..2_u32, 1 => 0..6_u32];
    (index, word(), word(), select(operators)).prop_map(|(index, value, value_two, op)| Arg {
        index,
        value,
        value_two,
        op,
    })
}

fn rule() -> impl Strategy<Value = SyscallRule> {
    let names = vec(select(NAMES).prop_map(str::to_owned), 1..6);
    let action = prop_oneof![9 => action(), 1 => Just(Action::Notify)];
    let args = prop_oneof![1 => Just(Vec::new()), 3 => vec(condition(), 1..4)];
    (names, action, option::of(0..4_u32), args).prop_map(|(names, action, errno_ret, args)| SyscallRule {
        names,
        action,
        errno_ret,
        args,
    })
}

fn any_profile() -> impl Strategy<Value = Seccomp> {
    let arches = vec(select(ARCHES).prop_map(|arch| arch.name().to_owned()), 0..5);
    (action(), option::of(0..4_u32), arches, vec(rule(), 0..40)).prop_map(
        |(default_action, default_errno_ret, architectures, syscalls)| Seccomp {
            default_errno_ret,
            architectures,
            syscalls,
            ..profile(default_action)
        },
    )
}

/// Returns every number of these names, their neighbours, and the ends of the space.
fn numbers(arch: Arch) -> Vec<u32> {
    let mut numbers: Vec<u32> = NAMES
        .iter()
        .filter_map(|name| arch.number(name))
        .flat_map(|number| [number.saturating_sub(1), number, number + 1])
        .chain([
            0,
            600,
            0xf_0000,
            0x3fff_ffff,
            0x4000_0000,
            0x4000_0258,
            0x7fff_ffff,
            u32::MAX - 1,
            u32::MAX,
        ])
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

proptest! {
    #[test]
    fn programs_mean_what_profiles_say(
        profile in any_profile(),
        native in select(ARCHES),
        args in vec([word(), word(), word(), word(), word(), word()], 1..8),
    ) {
        let program = compile(&profile, native).unwrap().instructions;
        check(&program);
        for &arch in ARCHES {
            for number in numbers(arch) {
                for &args in &args {
                    let call = Call { arch: arch.audit(), number, args };
                    let answer = run(&program, &call).0;
                    assert_eq!(answer, evaluate(&profile, native, &call), "{call:x?} on {native:?}");
                }
            }
        }
    }
}
