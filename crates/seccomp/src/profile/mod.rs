//! Profile of a container that was given none.

mod calls;

use crate::arch::Arch;
use crate::capability::CapSet;
use crate::instruction::{ENOSYS, EPERM};
use calls::{ALWAYS, ARM, MIGHT, X86};
use tote_spec::{Action, Arg, Operator, Seccomp, SyscallRule};

/// Flags of clone(2) that make a namespace: cgroup, mount, UTS, IPC, user, PID and network. The time namespace's bit
/// is part of the exit signal there.
const CLONE_NAMESPACES: u64 = 0x7e02_0000;

/// Mask of the low word: the part of an argument that remains if the call takes it as an `int`.
const INT: u64 = 0xffff_ffff;

/// Returns the default profile, with the same effect as docker's: <https://docs.docker.com/engine/security/seccomp/>.
///
/// Calls that a container needs are allowed, some of them only with the capability that makes them useful; others
/// fail with EPERM, and those newer than the newest named one with ENOSYS ([`compile`](crate::compile)).
#[must_use]
pub fn default_profile(capabilities: CapSet, arch: Arch) -> Seccomp {
    let mut syscalls = vec![allow(ALWAYS)];
    match arch {
        Arch::X86_64 | Arch::X32 | Arch::X86 => syscalls.push(allow(&[X86])),
        Arch::Aarch64 | Arch::Arm => syscalls.push(allow(&[ARM])),
    }
    let granted = MIGHT.iter().filter(|might| capabilities.intersects(might.0));
    syscalls.extend(granted.map(|might| allow(&[might.1])));
    if !capabilities.intersects(CapSet::SYS_ADMIN) {
        syscalls.push(allow_if("clone", CLONE_NAMESPACES, 0));
        // Its flags are in memory, out of a filter's sight. ENOSYS makes a C library fall back to clone.
        syscalls.push(SyscallRule {
            action: Action::Errno,
            errno_ret: Some(ENOSYS),
            ..allow(&["clone3"])
        });
    }
    // The values are PER_LINUX, PER_LINUX32, UNAME26 with either, and the query for the present one.
    syscalls.push(allow_if("personality", INT & !0x2_0008, 0));
    syscalls.push(allow_if("personality", INT, INT));
    syscalls.extend(
        SOCKET_FAMILIES
            .iter()
            .map(|&(mask, value)| allow_if("socket", mask, value)),
    );
    Seccomp {
        default_action: Action::Errno,
        default_errno_ret: Some(EPERM),
        architectures: architectures(arch)
            .iter()
            .map(|arch| arch.name().to_owned())
            .collect(),
        flags: Some(Vec::new()),
        listener_path: None,
        listener_metadata: None,
        syscalls,
    }
}

/// Address families 0 to 63 but AF_ALG (38) and AF_VSOCK (40), as masks and values; the kernel knows 46.
///
/// Masks are used because the family is an `int`: 38 with a bit set above the low word is more than 40 to a
/// comparison of the whole argument, and still AF_ALG to the kernel. On i386 socketcall(2) makes sockets too, and its
/// arguments are out of a filter's sight.
const SOCKET_FAMILIES: &[(u64, u64)] = &[
    (INT & !0x1f, 0), // 0 to 31, which include the families in daily use
    (INT & !0x0f, 48),
    (INT & !0x03, 32),
    (INT & !0x01, 36),
    (INT, 39),
    (INT, 41),
    (INT & !0x01, 42),
    (INT & !0x03, 44),
];

/// Returns the capabilities that make a difference to the default profile.
pub(crate) fn relevant(capabilities: CapSet) -> CapSet {
    let all = MIGHT
        .iter()
        .fold(CapSet::SYS_ADMIN, |all, might| all.union(might.0));
    capabilities.intersection(all)
}

/// Returns an architecture and those whose programs its kernel runs beside its own.
fn architectures(arch: Arch) -> &'static [Arch] {
    match arch {
        Arch::X86_64 | Arch::X32 => &[Arch::X86_64, Arch::X86, Arch::X32],
        Arch::Aarch64 => &[Arch::Aarch64, Arch::Arm],
        Arch::X86 => &[Arch::X86],
        Arch::Arm => &[Arch::Arm],
    }
}

/// Allows the calls in lists divided by white space.
fn allow(lists: &[&str]) -> SyscallRule {
    SyscallRule {
        names: lists
            .iter()
            .flat_map(|list| list.split_ascii_whitespace())
            .map(str::to_owned)
            .collect(),
        action: Action::Allow,
        errno_ret: None,
        args: Vec::new(),
    }
}

/// Allows the call if its first argument, under the mask, equals the value.
fn allow_if(name: &str, mask: u64, value: u64) -> SyscallRule {
    let arg = Arg {
        index: 0,
        value: mask,
        value_two: value,
        op: Operator::MaskedEqual,
    };
    SyscallRule {
        args: vec![arg],
        ..allow(&[name])
    }
}
