use super::{answer, arg, profile, program, rule};
use crate::{Arch, Error, MAX_INSTRUCTIONS, compile};
use tote_spec::{Action, Operator, Seccomp, SyscallRule};

/// Makes a profile with many rules for one call, each with its own errno.
fn long(rules: u32) -> Seccomp {
    let mut wanted = profile(Action::Allow);
    wanted.syscalls = (0..rules)
        .map(|number| SyscallRule {
            errno_ret: Some(number % 4096),
            ..rule(
                &["mkdir"],
                Action::Errno,
                &[arg(0, Operator::Equal, u64::from(number) << 32 | 7)],
            )
        })
        .collect();
    wanted
}

#[test]
fn long_jumps_reach_their_targets() {
    for rules in [1, 50, 63, 64, 65, 126, 127, 128, 129, 300, 800] {
        let program = program(&long(rules));
        for number in 0..rules {
            let answer = answer(
                &program,
                Arch::X86_64,
                "mkdir",
                [u64::from(number) << 32 | 7, 0, 0, 0, 0, 0],
            );
            assert_eq!(answer, 0x0005_0000 | number, "{rules}");
        }
        for (name, args) in [("mkdir", [8, 0, 0, 0, 0, 0]), ("read", [7; 6]), ("statx", [7; 6])] {
            assert_eq!(
                answer(&program, Arch::X86_64, name, args),
                0x7fff_0000,
                "{rules} {name}"
            );
        }
    }
}

#[test]
fn what_the_kernel_would_refuse_is_an_error() {
    let fits = (0..)
        .take_while(|&rules| compile(&long(rules), Arch::X86_64).is_ok())
        .last()
        .unwrap();
    let longest = program(&long(fits));
    assert!(longest.len() > MAX_INSTRUCTIONS - 8, "{}", longest.len());
    assert_eq!(compile(&long(fits + 1), Arch::X86_64), Err(Error::TooLong));
    assert_eq!(compile(&long(100_000), Arch::X86_64), Err(Error::TooLong));
}

/// If each name were compiled by itself, this would be a hundred million conditions.
#[test]
fn repeated_names_cost_nothing() {
    let mut wanted = profile(Action::Allow);
    let conditions: Vec<_> = (0..1000).map(|value| arg(0, Operator::Equal, value)).collect();
    wanted
        .syscalls
        .push(rule(&["mkdir"; 100_000], Action::Errno, &conditions));
    let program = program(&wanted);
    assert_eq!(
        answer(&program, Arch::X86_64, "mkdir", [999, 0, 0, 0, 0, 0]),
        0x0005_0001
    );
    assert_eq!(
        answer(&program, Arch::X86_64, "mkdir", [1000, 0, 0, 0, 0, 0]),
        0x7fff_0000
    );
}

#[test]
fn what_does_not_exist_is_an_error() {
    type Spoil = fn(&mut Seccomp);
    let cases: [(Spoil, Error, &str); 6] = [
        (
            |wanted| wanted.architectures.push("SCMP_ARCH_VAX".into()),
            Error::Architecture("SCMP_ARCH_VAX".into()),
            r#"unknown architecture "SCMP_ARCH_VAX""#,
        ),
        (
            |wanted| wanted.flags = Some(vec!["SECCOMP".into()]),
            Error::Flag("SECCOMP".into()),
            r#"unknown flag "SECCOMP""#,
        ),
        (
            |wanted| wanted.default_action = Action::Notify,
            Error::DefaultNotify,
            "SCMP_ACT_NOTIFY cannot be used as default action",
        ),
        (
            |wanted| {
                wanted
                    .syscalls
                    .push(rule(&["chmod", "write"], Action::Notify, &[]))
            },
            Error::NotifyWrite,
            "SCMP_ACT_NOTIFY cannot be used for the write syscall",
        ),
        (
            |wanted| {
                wanted
                    .syscalls
                    .push(rule(&["mkdir"], Action::Allow, &[arg(6, Operator::Equal, 0)]))
            },
            Error::Argument {
                call: "mkdir".into(),
                index: 6,
            },
            r#"rule for "mkdir": argument 6 does not exist: give 0 to 5"#,
        ),
        (
            |wanted| {
                wanted.default_action = Action::Errno;
                wanted.default_errno_ret = Some(0x1_0000);
            },
            Error::Errno(0x1_0000),
            "errno 65536 does not fit into 16 bits",
        ),
    ];
    for (spoil, expected, message) in cases {
        let mut wanted = profile(Action::Allow);
        spoil(&mut wanted);
        let error = compile(&wanted, Arch::X86_64).unwrap_err();
        assert_eq!(error, expected);
        assert_eq!(
            error.to_string(),
            format!("cannot compile the seccomp profile: {message}")
        );
    }
    assert_eq!(
        Error::TooLong.to_string(),
        "cannot compile the seccomp profile: it needs more than 4096 instructions"
    );
}
