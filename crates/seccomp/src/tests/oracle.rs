//! Meaning of a profile, computed call by call, without any of the compiler's parts but the table of numbers.

use super::interpreter::Call;
use crate::Arch;
use tote_spec::{Action, Arg, Operator, Seccomp, SyscallRule};

const KILL: u32 = 0;
const ENOSYS: u32 = 0x0005_0026;
const X32: u32 = 0x4000_0000;

/// Returns the answer that the profile's filter must give.
pub(super) fn evaluate(profile: &Seccomp, native: Arch, call: &Call) -> u32 {
    let default = value(profile.default_action, profile.default_errno_ret);
    let is_x32 = call.arch == Arch::X86_64.audit() && call.number >= X32;
    let listed = |arch: Arch| {
        let named = profile.architectures.iter().any(|name| name == arch.name());
        arch == native || named && !is_foreign(arch, native)
    };
    let arch = match call.arch {
        0xc000_003e if is_x32 && listed(Arch::X32) => Arch::X32,
        0xc000_003e if is_x32 && call.number == u32::MAX && listed(Arch::X86_64) => return default,
        0xc000_003e if !is_x32 && listed(Arch::X86_64) => Arch::X86_64,
        0x4000_0003 if listed(Arch::X86) => Arch::X86,
        0xc000_00b7 if listed(Arch::Aarch64) => Arch::Aarch64,
        0x4000_0028 if listed(Arch::Arm) => Arch::Arm,
        _ => return KILL,
    };

    let forbids = !matches!(
        profile.default_action,
        Action::Allow | Action::Log | Action::Trace
    );
    let is_private = |number: u32| arch == Arch::Arm && number >= 0xf_0000;
    let numbers = profile
        .syscalls
        .iter()
        .flat_map(|rule| &rule.names)
        .filter_map(|name| arch.number(name));
    let newest = numbers.filter(|&number| !is_private(number)).max();
    if forbids && !is_private(call.number) && newest.is_some_and(|newest| call.number > newest) {
        return ENOSYS;
    }

    let narrow = matches!(arch, Arch::X86 | Arch::Arm);
    let rules = || {
        let named = profile.syscalls.iter().filter(|rule| {
            rule.names
                .iter()
                .any(|name| arch.number(name) == Some(call.number))
        });
        named.filter(|rule| value(rule.action, rule.errno_ret) != default)
    };
    let unconditional = rules().find(|rule| rule.args.is_empty());
    let deciding = unconditional.or_else(|| rules().find(|rule| holds(rule, narrow, call)));
    deciding.map_or(default, |rule| value(rule.action, rule.errno_ret))
}

fn is_foreign(arch: Arch, native: Arch) -> bool {
    let is_arm = |arch| matches!(arch, Arch::Aarch64 | Arch::Arm);
    is_arm(arch) != is_arm(native)
}

fn holds(rule: &SyscallRule, narrow: bool, call: &Call) -> bool {
    let mut indexes: Vec<u32> = rule.args.iter().map(|arg| arg.index).collect();
    indexes.sort_unstable();
    let repeats = indexes.windows(2).any(|pair| pair[0] == pair[1]);
    let mut conditions = rule.args.iter().map(|arg| condition(arg, narrow, call));
    if repeats {
        conditions.any(|holds| holds)
    } else {
        conditions.all(|holds| holds)
    }
}

fn condition(arg: &Arg, narrow: bool, call: &Call) -> bool {
    let cut = |value: u64| if narrow { value & 0xffff_ffff } else { value };
    let actual = cut(call.args[arg.index as usize]);
    let (value, value_two) = (cut(arg.value), cut(arg.value_two));
    match arg.op {
        Operator::NotEqual => actual != value,
        Operator::LessThan => actual < value,
        Operator::LessEqual => actual <= value,
        Operator::Equal => actual == value,
        Operator::GreaterEqual => actual >= value,
        Operator::GreaterThan => actual > value,
        Operator::MaskedEqual => actual & value == value_two & value,
    }
}

fn value(action: Action, errno: Option<u32>) -> u32 {
    let errno = errno.unwrap_or(1);
    match action {
        Action::KillThread => 0,
        Action::KillProcess => 0x8000_0000,
        Action::Trap => 0x0003_0000,
        Action::Errno => 0x0005_0000 + errno,
        Action::Trace => 0x7ff0_0000 + errno,
        Action::Allow => 0x7fff_0000,
        Action::Log => 0x7ffc_0000,
        Action::Notify => 0x7fc0_0000,
    }
}
