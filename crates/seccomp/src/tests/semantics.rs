use super::{answer, answer_number, arg, profile, program, program_on, rule};
use crate::{Arch, Error, compile};
use tote_spec::{Action, Arg, Operator};

const KILL: u32 = 0;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const ALLOW: u32 = 0x7fff_0000;

#[test]
fn every_action_has_its_value() {
    for (action, errno, expected) in [
        (Action::KillThread, None, 0),
        (Action::KillProcess, None, 0x8000_0000),
        (Action::Trap, None, 0x0003_0000),
        (Action::Errno, None, 0x0005_0001),
        (Action::Errno, Some(0), 0x0005_0000),
        (Action::Errno, Some(95), 0x0005_005f),
        (Action::Notify, None, 0x7fc0_0000),
        (Action::Trace, None, 0x7ff0_0001),
        (Action::Trace, Some(0xffff), 0x7ff0_ffff),
        (Action::Log, None, 0x7ffc_0000),
        (Action::Allow, Some(7), 0x7fff_0000), // an errno has no effect on this action
    ] {
        let mut wanted = profile(if action == Action::Allow {
            Action::Errno
        } else {
            Action::Allow
        });
        wanted.syscalls.push(rule(&["mkdir"], action, &[]));
        wanted.syscalls[0].errno_ret = errno;
        let program = program(&wanted);
        assert_eq!(
            answer(&program, Arch::X86_64, "mkdir", [0; 6]),
            expected,
            "{action:?}"
        );
        let other = if action == Action::Allow { EPERM } else { ALLOW };
        assert_eq!(
            answer(&program, Arch::X86_64, "chmod", [0; 6]),
            if other == EPERM { ENOSYS } else { other }
        );
        assert_eq!(
            answer(&program, Arch::X86_64, "read", [0; 6]),
            other,
            "{action:?}"
        );
    }
}

#[test]
fn the_default_action_has_its_own_errno() {
    let mut wanted = profile(Action::Errno);
    wanted.default_errno_ret = Some(95);
    wanted.syscalls.push(rule(&["chmod"], Action::Errno, &[]));
    let program = program(&wanted);
    assert_eq!(answer(&program, Arch::X86_64, "read", [0; 6]), 0x0005_005f);
    assert_eq!(answer(&program, Arch::X86_64, "chmod", [0; 6]), EPERM);
}

/// The values lie on both sides of every word's edge; the comparison in Rust is the reference.
#[test]
fn comparisons_are_those_of_64_bits() {
    let values = [
        0,
        1,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        1 << 32,
        (1 << 32) + 1,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    for (op, holds) in [
        (Operator::NotEqual, (|a, b| a != b) as fn(u64, u64) -> bool),
        (Operator::LessThan, |a, b| a < b),
        (Operator::LessEqual, |a, b| a <= b),
        (Operator::Equal, |a, b| a == b),
        (Operator::GreaterEqual, |a, b| a >= b),
        (Operator::GreaterThan, |a, b| a > b),
    ] {
        for value in values {
            let mut wanted = profile(Action::Errno);
            wanted
                .syscalls
                .push(rule(&["mkdir"], Action::Allow, &[arg(5, op, value)]));
            let program = program(&wanted);
            for actual in values {
                let answer = answer(&program, Arch::X86_64, "mkdir", [0, 0, 0, 0, 0, actual]);
                let expected = if holds(actual, value) { ALLOW } else { EPERM };
                assert_eq!(answer, expected, "{actual:#x} {op:?} {value:#x}");
            }
        }
    }
}

#[test]
fn masks_cover_both_words() {
    for (mask, value, actual, holds) in [
        (0x7e02_0000, 0, 0x11, true),
        (0x7e02_0000, 0, 0x1000_0011, false),
        (0x7e02_0000, 0, 0xffff_ffff_0000_0011, true),
        (1 << 40, 1 << 40, u64::MAX, true),
        (1 << 40, 1 << 40, !(1 << 40), false),
        (0xff_0000_00ff, 0x12_0000_0034, 0xab12_1111_1134, true),
        (0xff_0000_00ff, 0x12_0000_0034, 0xab13_1111_1134, false),
        (0xff_0000_00ff, 0x12_0000_0034, 0xab12_1111_1135, false),
        (u64::MAX, 5, 5, true),
        (u64::MAX, 5, 5 | 1 << 32, false),
        (0xf0, 0x3f, 0x30, true), // bits of the value that the mask hides do not count
        (0, 0, 77, true),
        (0, 1, 77, true),
    ] {
        let condition = Arg {
            index: 2,
            value: mask,
            value_two: value,
            op: Operator::MaskedEqual,
        };
        let mut wanted = profile(Action::Errno);
        wanted
            .syscalls
            .push(rule(&["mkdir"], Action::Allow, &[condition]));
        let answer = answer(&program(&wanted), Arch::X86_64, "mkdir", [0, 0, actual, 0, 0, 0]);
        assert_eq!(answer == ALLOW, holds, "{actual:#x} & {mask:#x} == {value:#x}");
    }
}

#[test]
fn arguments_of_narrow_architectures_have_one_word() {
    let mut wanted = profile(Action::Errno);
    wanted.architectures.push("SCMP_ARCH_X86".into());
    wanted
        .syscalls
        .push(rule(&["mkdir"], Action::Allow, &[arg(0, Operator::NotEqual, 40)]));
    wanted.syscalls.push(rule(
        &["chmod"],
        Action::Allow,
        &[arg(0, Operator::Equal, 0xffff_ffff_0000_0007)],
    ));
    let program = program(&wanted);
    // A 64-bit process that uses int 0x80 can leave this in the upper half.
    let junk = 0xdead_0000_0000_0000;
    assert_eq!(
        answer(&program, Arch::X86, "mkdir", [40 | junk, 0, 0, 0, 0, 0]),
        EPERM
    );
    assert_eq!(
        answer(&program, Arch::X86_64, "mkdir", [40 | junk, 0, 0, 0, 0, 0]),
        ALLOW
    );
    assert_eq!(answer(&program, Arch::X86, "chmod", [7, 0, 0, 0, 0, 0]), ALLOW);
}

#[test]
fn conditions_on_different_arguments_must_all_hold() {
    let mut wanted = profile(Action::Errno);
    let conditions = [arg(0, Operator::Equal, 1), arg(1, Operator::GreaterThan, 1 << 40)];
    wanted.syscalls.push(rule(&["mkdir"], Action::Allow, &conditions));
    let program = program(&wanted);
    for (first, second, expected) in [
        (1, u64::MAX, ALLOW),
        (1, 1 << 40, EPERM),
        (2, u64::MAX, EPERM),
        (2, 0, EPERM),
    ] {
        assert_eq!(
            answer(&program, Arch::X86_64, "mkdir", [first, second, 0, 0, 0, 0]),
            expected
        );
    }
}

#[test]
fn conditions_on_one_argument_are_alternatives_and_so_are_all_others_of_the_rule() {
    let mut wanted = profile(Action::Errno);
    let conditions = [
        arg(0, Operator::Equal, 1),
        arg(0, Operator::Equal, 2),
        arg(3, Operator::Equal, 9),
    ];
    wanted.syscalls.push(rule(&["mkdir"], Action::Allow, &conditions));
    let program = program(&wanted);
    for (args, expected) in [
        ([1, 0, 0, 0, 0, 0], ALLOW),
        ([2, 0, 0, 0, 0, 0], ALLOW),
        ([3, 0, 0, 9, 0, 0], ALLOW),
        ([3, 0, 0, 0, 0, 0], EPERM),
    ] {
        assert_eq!(
            answer(&program, Arch::X86_64, "mkdir", args),
            expected,
            "{args:?}"
        );
    }
}

#[test]
fn rules_for_one_call() {
    let one = || arg(0, Operator::Equal, 1);
    let at_least_one = || arg(0, Operator::GreaterEqual, 1);
    let errno = |errno, args: &[Arg]| {
        let mut rule = rule(&["mkdir"], Action::Errno, args);
        rule.errno_ret = Some(errno);
        rule
    };
    let allow = |args: &[Arg]| rule(&["mkdir"], Action::Allow, args);
    for (case, rules, answers) in [
        (
            "the first that holds",
            vec![errno(2, &[one()]), errno(3, &[at_least_one()])],
            [EPERM, 0x5_0002, 0x5_0003],
        ),
        (
            "in the other order",
            vec![errno(3, &[at_least_one()]), errno(2, &[one()])],
            [EPERM, 0x5_0003, 0x5_0003],
        ),
        (
            "without conditions, later",
            vec![errno(2, &[one()]), allow(&[])],
            [ALLOW; 3],
        ),
        (
            "without conditions, first",
            vec![allow(&[]), errno(2, &[one()])],
            [ALLOW; 3],
        ),
        (
            "two without conditions",
            vec![allow(&[]), errno(2, &[])],
            [ALLOW; 3],
        ),
        (
            "the default's own action",
            vec![errno(1, &[]), allow(&[one()])],
            [EPERM, ALLOW, EPERM],
        ),
    ] {
        let mut wanted = profile(Action::Errno);
        wanted.syscalls = rules;
        let program = program(&wanted);
        for (first, expected) in (0..).zip(answers) {
            assert_eq!(
                answer(&program, Arch::X86_64, "mkdir", [first, 0, 0, 0, 0, 0]),
                expected,
                "{case}: {first}"
            );
        }
    }
}

#[test]
fn architectures_not_listed_end_the_thread() {
    let mut wanted = profile(Action::Allow);
    wanted.syscalls.push(rule(&["mkdir"], Action::Errno, &[]));
    let alone = program(&wanted);
    assert_eq!(answer(&alone, Arch::X86_64, "mkdir", [0; 6]), EPERM);
    assert_eq!(answer(&alone, Arch::X86, "read", [0; 6]), KILL);
    assert_eq!(answer(&alone, Arch::X32, "read", [0; 6]), KILL);
    assert_eq!(answer_number(&alone, Arch::X86_64, 0x3fff_ffff, [0; 6]), ALLOW);
    assert_eq!(answer_number(&alone, Arch::X86_64, 0xffff_fffe, [0; 6]), KILL);
    // A tracer that cancels a call sets its number to -1.
    assert_eq!(answer_number(&alone, Arch::X86_64, 0xffff_ffff, [0; 6]), ALLOW);

    wanted.architectures = [
        "SCMP_ARCH_X86",
        "SCMP_ARCH_X32",
        "SCMP_ARCH_X86",
        "SCMP_ARCH_S390X",
        "SCMP_ARCH_ARM",
    ]
    .map(String::from)
    .to_vec();
    let listed = program(&wanted);
    for arch in [Arch::X86_64, Arch::X86, Arch::X32] {
        assert_eq!(answer(&listed, arch, "mkdir", [0; 6]), EPERM, "{arch:?}");
        assert_eq!(answer(&listed, arch, "read", [0; 6]), ALLOW, "{arch:?}");
    }
    assert_eq!(
        answer_number(&listed, Arch::X32, 83, [0; 6]),
        EPERM,
        "without the bit it is x86_64's"
    );
    assert_eq!(
        answer(&listed, Arch::Arm, "read", [0; 6]),
        KILL,
        "another machine's"
    );

    let arm = program_on(&wanted, Arch::Aarch64);
    assert_eq!(answer(&arm, Arch::Arm, "mkdir", [0; 6]), EPERM);
    assert_eq!(answer(&arm, Arch::Aarch64, "mkdirat", [0; 6]), ALLOW);
    assert_eq!(answer(&arm, Arch::X86_64, "read", [0; 6]), KILL);
}

#[test]
fn calls_newer_than_the_newest_named_do_not_exist() {
    let newest = Arch::X86_64.number("openat2").unwrap();
    for (default, newer) in [
        (Action::Errno, ENOSYS),
        (Action::KillThread, ENOSYS),
        (Action::KillProcess, ENOSYS),
        (Action::Trap, ENOSYS),
        (Action::Allow, ALLOW),
        (Action::Log, 0x7ffc_0000),
        (Action::Trace, 0x7ff0_0001),
    ] {
        let mut wanted = profile(default);
        wanted.architectures.push("SCMP_ARCH_X32".into());
        wanted
            .syscalls
            .push(rule(&["read", "openat2", "unknown"], Action::Allow, &[]));
        let program = program(&wanted);
        let default = answer(&program, Arch::X86_64, "write", [0; 6]);
        for (arch, base) in [(Arch::X86_64, 0), (Arch::X32, 0x4000_0000)] {
            assert_eq!(answer_number(&program, arch, base + newest, [0; 6]), ALLOW);
            assert_eq!(
                answer_number(&program, arch, base + newest + 1, [0; 6]),
                newer,
                "{default:?}"
            );
            assert_eq!(
                answer_number(&program, arch, base + 0x3fff_ffff, [0; 6]),
                newer,
                "{default:?}"
            );
            assert_eq!(
                answer_number(&program, arch, base + newest - 1, [0; 6]),
                default,
                "{default:?}"
            );
        }
    }
}

#[test]
fn a_rule_that_only_repeats_the_default_still_says_how_new_the_profile_is() {
    let mut wanted = profile(Action::Errno);
    wanted.syscalls.push(rule(&["mseal"], Action::Errno, &[]));
    let program = program(&wanted);
    assert_eq!(answer(&program, Arch::X86_64, "mseal", [0; 6]), EPERM);
    assert_eq!(answer(&program, Arch::X86_64, "setxattrat", [0; 6]), ENOSYS);
}

#[test]
fn where_no_call_is_named_nothing_is_newer() {
    let wanted = profile(Action::Errno);
    assert_eq!(
        answer_number(&program(&wanted), Arch::X86_64, 5000, [0; 6]),
        EPERM
    );
}

#[test]
fn private_calls_of_arm_are_not_newer_than_others() {
    let mut wanted = profile(Action::Errno);
    wanted
        .syscalls
        .push(rule(&["openat2", "set_tls"], Action::Allow, &[]));
    let program = program_on(&wanted, Arch::Arm);
    for (number, expected) in [
        (437, ALLOW),
        (438, ENOSYS),
        (0xe_ffff, ENOSYS),
        (0xf_0001, EPERM),
        (0xf_0005, ALLOW),
        (0xf_0006, EPERM),
    ] {
        assert_eq!(
            answer_number(&program, Arch::Arm, number, [0; 6]),
            expected,
            "{number:#x}"
        );
    }
}

#[test]
fn flags_are_the_kernels_bits() {
    let notify = || rule(&["chmod"], Action::Notify, &[]);
    for (flags, rules, expected) in [
        (vec![], vec![], Ok(0)),
        (vec!["TSYNC"], vec![], Ok(0)),
        (vec!["LOG", "SPEC_ALLOW", "LOG"], vec![], Ok(6)),
        (vec!["WAIT_KILLABLE_RECV"], vec![notify()], Ok(32)),
        (vec!["TSYNC"], vec![notify()], Ok(0)),
        (
            vec!["NEW_LISTENER"],
            vec![notify()],
            Err(Error::Flag("SECCOMP_FILTER_FLAG_NEW_LISTENER".into())),
        ),
        (
            vec!["WAIT_KILLABLE_RECV"],
            vec![],
            Err(Error::FlagWithoutNotify(
                "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV".into(),
            )),
        ),
    ] {
        let mut wanted = profile(Action::Allow);
        let names = flags.iter().map(|flag| format!("SECCOMP_FILTER_FLAG_{flag}"));
        wanted.flags = Some(names.collect());
        let notifies = !rules.is_empty();
        wanted.syscalls = rules;
        let filter = compile(&wanted, Arch::X86_64);
        assert_eq!(
            filter.as_ref().map(|filter| filter.flags),
            expected.as_ref().copied(),
            "{flags:?}"
        );
        assert!(filter.is_err() || filter.is_ok_and(|filter| filter.notify == notifies));
    }
    let mut silent = profile(Action::Allow);
    silent.flags = None;
    assert_eq!(compile(&silent, Arch::X86_64).unwrap().flags, 4, "SPEC_ALLOW");
}
