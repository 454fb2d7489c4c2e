//! Rights of a process that waits to become its program: those that the program will have, as far as the wait allows it.
//!
//! A process that may trace another one has its rights. One that waits is seen for as long as its maker likes: by a
//! neighbour in its PID namespace, and by the program of an `exec` that has joined its container. So it gives its rights
//! away first. What comes after the wait is what the kernel allows no earlier: a filter that forbids the wait.

use crate::capability::{self, SYS_ADMIN};
use crate::privilege::{convert, instructions, lets_through};
use tote_sys::{Capabilities, Privilege};

/// Calls of [`tote_sys::Op::AwaitStart`].
pub(crate) const START: [(&str, u32); 5] = [
    ("prctl", PR_SET_DUMPABLE),
    ("sendto", 0),
    ("accept4", 0),
    ("close", 0),
    ("exit_group", 0),
];

/// Calls of [`tote_sys::Op::Park`], and of the change of ids and capabilities after it.
pub(crate) const PARK: [(&str, u32); 34] = [
    ("prctl", 0),
    ("mmap", 0),
    ("getsockopt", 0),
    ("sendto", 0),
    ("sendmsg", 0),
    ("accept4", 0),
    ("recvmsg", 0),
    ("recvfrom", 0),
    ("close", 0),
    ("dup3", 0),
    ("fcntl", 0),
    ("ioctl", 0),
    ("openat", 0),
    ("openat2", 0),
    ("mkdirat", 0),
    ("symlinkat", 0),
    ("readlinkat", 0),
    ("newfstatat", 0),
    ("fstat", 0),
    ("statx", 0),
    ("fchown", 0),
    ("chdir", 0),
    ("fchdir", 0),
    ("getcwd", 0),
    ("setgroups", 0),
    ("setresgid", 0),
    ("setresuid", 0),
    ("capget", 0),
    ("capset", 0),
    ("poll", 0),
    ("ppoll", 0),
    ("fstatfs", 0),
    ("write", 0),
    ("exit_group", 0),
];

/// Calls that give up what is left after the wait.
const GIVE_UP: [&str; 3] = ["seccomp", "capset", "prctl"];

/// Operation of prctl(2), linux/prctl.h.
const PR_SET_DUMPABLE: u32 = 4;

/// SECCOMP_FILTER_FLAG_SPEC_ALLOW, linux/seccomp.h.
const SPEC_ALLOW: u32 = 1 << 2;

/// Capabilities with which the root of a container makes a directory and a terminal for another user, and becomes that user.
const FOR_ANOTHER: [&str; 4] = ["CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_DAC_OVERRIDE"];

/// Splits a change of rights into the part before a wait that makes these calls, and the part after it.
pub(crate) fn ahead_of(mut whole: Privilege, calls: &[(&str, u32)]) -> (Privilege, Option<Privilege>) {
    if lets_through(&whole, calls) {
        return (whole, None);
    }
    let Some(sets) = whole.capabilities else {
        return (whole, None);
    };
    let after = Privilege {
        credentials: None,
        capabilities: None,
        no_new_privs: whole.no_new_privs,
        filter: whole.filter.take(),
    };
    if may_load(&whole) {
        return (whole, Some(after));
    }
    // A process without no_new_privs loads a filter only with CAP_SYS_ADMIN. Until it has done so it has no calls beyond
    // those of its filter, and those of the wait.
    whole.filter = after.filter.as_ref().map(|(filter, flags)| {
        let more = calls.iter().map(|(call, _)| *call).chain(GIVE_UP);
        let wider = tote_seccomp::widened(&instructions(filter), more);
        (convert(&wider), flags & SPEC_ALLOW)
    });
    whole.capabilities = Some(Capabilities {
        permitted: sets.permitted | SYS_ADMIN,
        effective: sets.effective | SYS_ADMIN,
        ..sets
    });
    let capabilities = Some(last(sets));
    (
        whole,
        Some(Privilege {
            capabilities,
            ..after
        }),
    )
}

/// Splits a change of rights into the part before the wait for a program, and the part after it: the ids, where the container's
/// root may still have to make a directory or a terminal for the program's user, and may become that user.
pub(crate) fn ahead_of_program(mut whole: Privilege, known: bool) -> (Privilege, Option<Privilege>) {
    let mut later = None;
    if let Some(sets) = whole.capabilities {
        let held = sets.bounding | sets.permitted;
        let needed = FOR_ANOTHER.iter().filter_map(|name| capability::by_name(name));
        if needed.into_iter().all(|number| held & (1 << number) != 0) {
            later = Some((whole.credentials.take(), last(sets)));
            whole.capabilities = Some(Capabilities {
                bounding: sets.bounding,
                permitted: held,
                effective: held,
                ..Capabilities::default()
            });
        }
    }
    let (whole, after) = if known {
        (whole, None)
    } else {
        ahead_of(whole, &PARK)
    };
    let Some((credentials, sets)) = later else {
        return (whole, after);
    };
    let (no_new_privs, filter) = after.map_or((false, None), |after| (after.no_new_privs, after.filter));
    let after = Privilege {
        credentials,
        capabilities: Some(sets),
        no_new_privs,
        filter,
    };
    (whole, Some(after))
}

/// True if a process with these rights may load a filter.
pub(crate) fn may_load(privilege: &Privilege) -> bool {
    let has = |sets: Capabilities| sets.effective & SYS_ADMIN != 0;
    privilege.no_new_privs || privilege.capabilities.is_none_or(has)
}

/// Sets that a process takes on after its bounding set has been limited already, which only a holder of CAP_SETPCAP may do again.
fn last(sets: Capabilities) -> Capabilities {
    Capabilities {
        bounding: u64::MAX,
        ..sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_sys::Credentials;

    const ALLOW: &str = r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#;
    const NO_ACCEPT: &str = r#"{"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["accept4", "mount"], "action": "SCMP_ACT_ERRNO"}]}"#;

    /// Rights of root's program in a container with these capabilities, in each set but the last two.
    fn rights(seccomp: Option<&str>, capabilities: u64, no_new_privs: bool) -> Privilege {
        let filter = seccomp.map(|text| {
            let spec = format!(r#"{{"ociVersion": "1.0.2", "linux": {{"seccomp": {text}}}}}"#);
            let profile = tote_spec::Spec::parse(&spec)
                .unwrap()
                .linux
                .unwrap()
                .seccomp
                .unwrap();
            let filter = tote_seccomp::compile(&profile, tote_seccomp::Arch::NATIVE).unwrap();
            (convert(&filter.instructions), 0)
        });
        Privilege {
            credentials: Some(Credentials {
                uid: 7,
                gid: 8,
                groups: None,
            }),
            capabilities: Some(Capabilities {
                bounding: capabilities,
                permitted: capabilities,
                effective: capabilities,
                ..Capabilities::default()
            }),
            no_new_privs,
            filter,
        }
    }

    #[test]
    fn a_filter_that_allows_the_wait_is_in_force_before_it() {
        for seccomp in [None, Some(ALLOW)] {
            let (before, after) = ahead_of(rights(seccomp, 1, false), &START);
            assert!(after.is_none() && before.credentials.is_some());
            assert_eq!(before.filter.is_some(), seccomp.is_some());
        }
    }

    #[test]
    fn a_filter_that_forbids_the_wait_is_all_that_comes_after_it() {
        for (capabilities, no_new_privs) in [(1, true), (1 | SYS_ADMIN, false)] {
            let (before, after) = ahead_of(rights(Some(NO_ACCEPT), capabilities, no_new_privs), &START);
            let after = after.unwrap();
            assert!(after.credentials.is_none() && after.capabilities.is_none() && after.filter.is_some());
            assert_eq!(before.no_new_privs, no_new_privs);
            assert_eq!(before.capabilities.unwrap().permitted, capabilities);
            assert!(before.filter.is_none());
        }
    }

    #[test]
    fn the_right_to_load_it_is_worth_only_what_a_wider_filter_allows() {
        let (before, after) = ahead_of(rights(Some(NO_ACCEPT), 1, false), &START);
        let (sets, after) = (before.capabilities.unwrap(), after.unwrap());
        assert_eq!((sets.permitted, sets.bounding), (1 | SYS_ADMIN, 1));
        assert!(lets_through(&before, &START) && lets_through(&before, &[("seccomp", 0)]));
        assert!(!lets_through(&before, &[("mount", 0)]) && !lets_through(&after, &[("accept4", 0)]));
        assert_eq!(after.capabilities.unwrap().permitted, 1);
        assert_eq!(after.capabilities.unwrap().bounding, u64::MAX);
    }

    #[test]
    fn who_is_parked_has_no_more_than_the_containers_root() {
        let root = capability::mask(&FOR_ANOTHER.map(str::to_owned));
        let (before, after) = ahead_of_program(rights(Some(ALLOW), root, true), true);
        let after = after.unwrap();
        assert!(before.credentials.is_none() && before.filter.is_some() && before.no_new_privs);
        assert_eq!(before.capabilities.unwrap().permitted, root);
        assert!(after.credentials.is_some() && after.filter.is_none());
        let (before, after) = ahead_of_program(rights(None, root & !(1 << 7), false), true);
        assert!(
            before.credentials.is_some() && after.is_none(),
            "it could not become another user later"
        );
        let (before, after) = ahead_of_program(rights(Some(NO_ACCEPT), root, true), false);
        assert!(before.filter.is_none() && before.no_new_privs && after.unwrap().filter.is_some());
    }
}
