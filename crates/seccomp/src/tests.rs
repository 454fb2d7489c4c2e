//! Effects of programs, seen from the kernel's side.

mod default_profile;
mod interpreter;
mod limits;
mod oracle;
mod random;
mod semantics;

use crate::{Arch, Instruction, compile};
use interpreter::{Call, check, run};
use tote_spec::{Action, Arg, Operator, Seccomp, SyscallRule};

/// Makes a profile with nothing but a default action.
fn profile(default_action: Action) -> Seccomp {
    Seccomp {
        default_action,
        default_errno_ret: None,
        architectures: Vec::new(),
        flags: Some(Vec::new()),
        listener_path: None,
        listener_metadata: None,
        syscalls: Vec::new(),
    }
}

/// Makes a rule without errno.
fn rule(names: &[&str], action: Action, args: &[Arg]) -> SyscallRule {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    SyscallRule {
        names,
        action,
        errno_ret: None,
        args: args.to_vec(),
    }
}

/// Makes a condition.
fn arg(index: u32, op: Operator, value: u64) -> Arg {
    Arg {
        index,
        value,
        value_two: 0,
        op,
    }
}

/// Compiles the program of a profile on x86_64, checked as by the kernel.
fn program(profile: &Seccomp) -> Vec<Instruction> {
    program_on(profile, Arch::X86_64)
}

fn program_on(profile: &Seccomp, native: Arch) -> Vec<Instruction> {
    let instructions = compile(profile, native).unwrap().instructions;
    check(&instructions);
    instructions
}

/// Returns a program's answer to a call, by its name.
fn answer(program: &[Instruction], arch: Arch, name: &str, args: [u64; 6]) -> u32 {
    answer_number(program, arch, arch.number(name).unwrap(), args)
}

fn answer_number(program: &[Instruction], arch: Arch, number: u32, args: [u64; 6]) -> u32 {
    run(
        program,
        &Call {
            arch: arch.audit(),
            number,
            args,
        },
    )
    .0
}

/// Answers before a profile is compiled are those of its filter, and the errors are the same.
#[test]
fn profiles_notify_as_their_filters_do() {
    let with = |action, names: &[&str], args: &[Arg]| Seccomp {
        syscalls: vec![rule(names, action, args)],
        ..profile(Action::Allow)
    };
    let unknown = |text: &str| Some(vec![text.to_owned()]);
    for (profile, notifies) in [
        (profile(Action::Allow), Some(false)),
        (with(Action::Errno, &["chmod"], &[]), Some(false)),
        (with(Action::Notify, &["chmod"], &[]), Some(true)),
        (with(Action::Notify, &[], &[]), Some(false)),
        (with(Action::Notify, &["write"], &[]), None),
        (profile(Action::Notify), None),
        (
            with(Action::Errno, &["chmod"], &[arg(6, Operator::Equal, 0)]),
            None,
        ),
        (
            Seccomp {
                flags: unknown("SECCOMP_FILTER_FLAG_X"),
                ..profile(Action::Allow)
            },
            None,
        ),
        (
            Seccomp {
                architectures: unknown("SCMP_ARCH_X").unwrap_or_default(),
                ..profile(Action::Allow)
            },
            None,
        ),
    ] {
        let compiled = compile(&profile, Arch::X86_64).map(|filter| filter.notify);
        assert_eq!(
            crate::notifies(&profile, Arch::X86_64).ok(),
            notifies,
            "{profile:?}"
        );
        assert_eq!(compiled.ok(), notifies, "{profile:?}");
    }
}
