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

    /// Returns a warning if the container's processes can take the session over all the same: with SYS_PTRACE they need no capability of the
    /// traced process, except where the container's user namespace holds the session as well.
    pub(super) fn warning(&self, target: &Target) -> Option<String> {
        let sets = target.own().process.capabilities.as_ref();
        let held = |name: &str| sets.is_some_and(|sets| sets.bounding.iter().any(|held| held == name));
        let number = |name: &str| ALL_CAPABILITIES.iter().position(|known| *known == name);
        let lacks = if self.privileged {
            ALL_CAPABILITIES.iter().any(|name| !held(&format!("CAP_{name}")))
        } else {
            let added = ALL_CAPABILITIES
                .iter()
                .filter(|name| number(name).is_some_and(|number| self.capabilities & (1 << number) != 0));
            added.into_iter().any(|name| !held(&format!("CAP_{name}")))
        };
        let traces = held("CAP_SYS_PTRACE") && !target.has(NamespaceType::User);
        (lacks && traces).then(|| {
            format!(
                "processes of {} can take this session over with its rights ({}): the container has the capability SYS_PTRACE",
                target.display(),
                self.options()
            )
        })
    }
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
