//! Rights that a session has and its container has not: those that the operator gives it by options.
//!
//! The container is an enemy then: whatever it can have the session run, it runs with rights that it lacks. So such a session takes
//! nothing of the container's that is run, and shares no layer of tools with a session that the container's processes can reach into.

use super::{DebugError, DebugRequest};
use tote_bundle::Capability;
use tote_life::exec::Target;
use tote_sandbox::ALL_CAPABILITIES;
use tote_spec::NamespaceType;

/// Rights beyond those of the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rights {
    privileged: bool,
    /// Added capabilities, as bits.
    capabilities: u64,
    no_cgroup: bool,
}

impl Rights {
    /// Finds what a request adds. A capability counts even if the container has it: the container's first process may have dropped it.
    pub(super) fn of(request: &DebugRequest) -> Self {
        let privileged = request.exec.privileged;
        let bits = request.exec.cap_add.iter().map(|capability| match capability {
            Capability::All => u64::MAX >> (64 - ALL_CAPABILITIES.len()),
            Capability::One(name) => {
                let known = ALL_CAPABILITIES.iter();
                let mut known = known.map(|known| name.strip_prefix("CAP_") == Some(known));
                known.position(|is_it| is_it).map_or(0, |number| 1_u64 << number)
            }
        });
        Self {
            privileged,
            capabilities: if privileged {
                0
            } else {
                bits.fold(0, |all, bit| all | bit)
            },
            no_cgroup: request.no_cgroup,
        }
    }

    /// True if there are any.
    pub(super) fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Returns the part of the name of a kept layer that keeps it apart from those of sessions with other rights.
    pub(super) fn suffix(&self) -> String {
        let mut suffix = String::new();
        if self.privileged {
            suffix.push_str("+privileged");
        }
        if self.capabilities != 0 {
            suffix.push_str(&format!("+caps-{:x}", self.capabilities));
        }
        if self.no_cgroup {
            suffix.push_str("+no-cgroup");
        }
        suffix
    }

    /// Returns the options that give them.
    pub(super) fn options(&self) -> String {
        let names = ALL_CAPABILITIES.iter().enumerate();
        let names = names.filter(|(number, _)| self.capabilities & (1 << number) != 0);
        let names: Vec<&str> = names.map(|(_, name)| *name).collect();
        let all = self.capabilities.count_ones() as usize == ALL_CAPABILITIES.len();
        let added = if all { "ALL".to_owned() } else { names.join(",") };
        let options = [
            self.privileged.then(|| "--privileged".to_owned()),
            (self.capabilities != 0).then(|| format!("--cap-add {added}")),
            self.no_cgroup.then(|| "--no-cgroup".to_owned()),
        ];
        options.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Refuses what would run the container's code with these rights.
    ///
    /// # Errors
    /// [`DebugError::MoreRights`].
    pub(super) fn check(&self, request: &DebugRequest) -> Result<(), DebugError> {
        let refused = [
            (
                request.env_of_container,
                "--env-of-container",
                "variables such as LD_PRELOAD",
            ),
            (
                request.target_view,
                "--view target",
                "its programs, libraries and settings",
            ),
        ];
        match refused.into_iter().find(|(wanted, ..)| *wanted && self.is_any()) {
            None => Ok(()),
            Some((_, option, by)) => Err(DebugError::MoreRights {
                option,
                rights: self.options(),
                by,
            }),
        }
    }

    /// Returns the capability that a session with more rights has and the container lacks, with any of these rights and any user; `None`
    /// if there is no such capability, or none is needed.
    ///
    /// The kernel lets a process look into another one if it has all capabilities of that one (ptrace(2)). Other rights than capabilities, such
    /// as those of another cgroup, are nothing that it compares, and a user other than root has no capabilities.
    pub(super) fn mark(&self, target: &Target) -> Option<&'static str> {
        let available = if target.has(NamespaceType::User) {
            u64::MAX
        } else {
            tote_sys::bounding_capabilities()
        };
        self.mark_beside(bounding(target), available)
    }

    fn mark_beside(&self, bounding: &[String], available: u64) -> Option<&'static str> {
        let is_available = |name: &str| {
            let place = ALL_CAPABILITIES.iter().position(|known| *known == name);
            place.is_some_and(|place| available & (1 << place) != 0)
        };
        let mut marks = MARKS.into_iter().filter(|_| self.is_any());
        marks.find(|mark| {
            let name = mark.trim_start_matches("CAP_");
            is_available(name) && !holds(bounding, name)
        })
    }

    /// Returns a warning if the container's processes can take the session over all the same.
    pub(super) fn warning(&self, target: &Target) -> Option<String> {
        let reason = self.open_by(bounding(target), self.mark(target))?;
        Some(format!(
            "processes of {} can take this session over with its rights ({}): {reason}",
            target.display(),
            self.options()
        ))
    }

    /// Returns the reason why a container with these capabilities can take over a session that has this mark; `None` if the kernel refuses that, or
    /// if the session has nothing that the container lacks.
    fn open_by(&self, bounding: &[String], mark: Option<&str>) -> Option<&'static str> {
        if !self.gains(bounding) {
            return None;
        }
        match mark {
            // With it a process needs no capability of the traced one.
            _ if holds(bounding, "SYS_PTRACE") => Some("the container has the capability SYS_PTRACE"),
            None => {
                Some("no capability that the container lacks can be given to the session to keep them out")
            }
            Some(_) => None,
        }
    }

    /// True if a session has something that the container's processes lack.
    fn gains(&self, bounding: &[String]) -> bool {
        let is_added = |number: usize| self.privileged || self.capabilities & (1 << number) != 0;
        let mut names = ALL_CAPABILITIES.iter().enumerate();
        self.no_cgroup || names.any(|(number, name)| is_added(number) && !holds(bounding, name))
    }
}

/// Capabilities by one of which a session differs from its container. By them a process may wake the machine, or keep it awake, and nothing else.
const MARKS: [&str; 2] = ["CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND"];

/// Returns the capabilities that a process of the container can have at most.
fn bounding(target: &Target) -> &[String] {
    let sets = target.own().process.capabilities.as_ref();
    sets.map_or(&[], |sets| &sets.bounding)
}

/// True if the capability of this name, without `CAP_`, is among these.
fn holds(bounding: &[String], name: &str) -> bool {
    bounding
        .iter()
        .any(|held| held.strip_prefix("CAP_") == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DebugForwards, DebugTools};
    use tote_bundle::{ExecOptions, Image};

    fn request(options: &[(&str, &str)], no_cgroup: bool) -> DebugRequest {
        let mut exec = ExecOptions::default();
        for (name, value) in options {
            exec.set(name, value).unwrap();
        }
        DebugRequest {
            tools: DebugTools::Image(Image::Host),
            exec,
            shell: None,
            script: None,
            no_cgroup,
            env_of_container: false,
            target_view: false,
            forwards: DebugForwards::default(),
            packages: Vec::new(),
            effective_user: None,
            keep: false,
        }
    }

    #[test]
    fn each_set_of_rights_has_a_name() {
        let all = u64::MAX >> (64 - ALL_CAPABILITIES.len());
        for (options, no_cgroup, suffix, shown) in [
            (&[][..], false, "", ""),
            (&[("user", "0")], false, "", ""),
            (&[("privileged", "true")], false, "+privileged", "--privileged"),
            (
                &[("privileged", "true"), ("cap-add", "NET_ADMIN")],
                true,
                "+privileged+no-cgroup",
                "--privileged --no-cgroup",
            ),
            (
                &[("cap-add", "NET_ADMIN")],
                false,
                "+caps-1000",
                "--cap-add NET_ADMIN",
            ),
            (
                &[("cap-add", "kill"), ("cap-add", "CAP_CHOWN")],
                false,
                "+caps-21",
                "--cap-add CHOWN,KILL",
            ),
            (
                &[("cap-add", "ALL")],
                false,
                &format!("+caps-{all:x}"),
                "--cap-add ALL",
            ),
            (&[], true, "+no-cgroup", "--no-cgroup"),
        ] {
            let rights = Rights::of(&request(options, no_cgroup));
            assert_eq!((&*rights.suffix(), &*rights.options()), (suffix, shown));
            assert_eq!(rights.is_any(), !suffix.is_empty());
        }
    }

    /// Each single right, in containers of all kinds: either the kernel keeps the container's processes out, or a warning tells that it does not.
    #[test]
    fn a_session_with_more_rights_is_closed_or_a_warning_says_that_it_is_not() {
        let all: Vec<&str> = ALL_CAPABILITIES.to_vec();
        let but_marks = |name: &&str| !MARKS.contains(&&*format!("CAP_{name}"));
        let no_marks: Vec<&str> = all.iter().copied().filter(but_marks).collect();
        let containers: [(&[&str], bool); 6] = [
            (&[], false),
            (&["CHOWN", "KILL", "MKNOD", "SYS_CHROOT"], false),
            (&["CHOWN", "WAKE_ALARM"], false),
            (&["WAKE_ALARM", "BLOCK_SUSPEND"], true),
            (&["CHOWN", "SYS_PTRACE"], true),
            (&no_marks, true),
        ];
        let names = all.iter().map(|name| (vec![("cap-add", *name)], false));
        let others = [(vec![("privileged", "true")], false), (vec![], true)];
        for (options, no_cgroup) in names.chain(others) {
            let rights = Rights::of(&request(&options, no_cgroup));
            for (held, is_open) in containers {
                let bounding: Vec<String> = held.iter().map(|name| format!("CAP_{name}")).collect();
                let mark = rights.mark_beside(&bounding, u64::MAX);
                let text = format!("{} in a container with {held:?}", rights.options());
                let gains = no_cgroup || options.iter().any(|(_, name)| !held.contains(name));
                assert_eq!(rights.gains(&bounding), gains, "{text}");
                assert_eq!(
                    rights.open_by(&bounding, mark).is_some(),
                    gains && is_open,
                    "{text}"
                );
                // What the kernel compares: a capability that no process of the container can have.
                let differs = mark.is_some_and(|mark| !bounding.iter().any(|held| held == mark));
                assert!(differs || is_open || !gains, "{text}");
                assert!(rights.mark_beside(&bounding, 0).is_none(), "the caller lacks it");
                assert_eq!(rights.open_by(&bounding, None).is_some(), gains, "{text}");
            }
        }
        let none = Rights::default();
        assert!(none.mark_beside(&[], u64::MAX).is_none() && none.open_by(&[], None).is_none());
    }

    #[test]
    fn with_more_rights_nothing_of_the_container_is_run() {
        for (options, no_cgroup, is_more) in [
            (&[][..], false, false),
            (&[("privileged", "true")], false, true),
            (&[("cap-add", "KILL")], false, true),
            (&[], true, true),
        ] {
            for (env_of_container, target_view) in [(true, false), (false, true), (false, false)] {
                let request = DebugRequest {
                    env_of_container,
                    target_view,
                    ..request(options, no_cgroup)
                };
                let refused = Rights::of(&request).check(&request).is_err();
                assert_eq!(
                    refused,
                    is_more && (env_of_container || target_view),
                    "{options:?}"
                );
            }
        }
    }
}
