//! The rights that a program used: a system call filter and capabilities, for later runs.

use super::listen::{ALWAYS, Heard};
use super::{SlimError, SlimRequest};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use tote_bundle::{Capability, RunOptions, SeccompChoice};
use tote_seccomp::{Arch, CapSet, default_profile};
use tote_spec::{Action, Seccomp, SyscallRule};

/// Capabilities that decide over accesses to files, which no call tells apart: they are tried.
const UNSEEN: [&str; 3] = ["DAC_OVERRIDE", "FOWNER", "FSETID"];

/// Rights for runs of an image.
#[derive(Debug)]
pub(super) struct Rights {
    /// Profile in JSON, as `--security-opt seccomp=FILE` reads it.
    pub(super) profile: String,
    /// File with the profile, for this process's own runs.
    file: OwnedFd,
    /// Sets of capabilities by their short names, the smallest first.
    pub(super) attempts: Vec<BTreeSet<String>>,
}

impl Rights {
    /// Derives rights from everything that was heard of an image.
    ///
    /// # Errors
    /// [`SlimError::Profile`]: memory for the profile is lacking.
    pub(super) fn of(request: &SlimRequest, heard: &Heard) -> Result<Self, SlimError> {
        let options = &request.options;
        let allowed = allowed(options);
        let profile = profile(options, &allowed, &heard.calls);
        let text = serde_json::to_string_pretty(&profile).map_err(SlimError::Report)? + "\n";
        let file = memfd_create(c"seccomp", MemfdFlags::CLOEXEC).map_err(SlimError::Profile)?;
        let written = rustix::io::dup(&file).map(File::from);
        let mut written = written.map_err(SlimError::Profile)?;
        let failed = |error: std::io::Error| {
            SlimError::Profile(tote_sys::Errno::from_io_error(&error).unwrap_or(tote_sys::Errno::IO))
        };
        written.write_all(text.as_bytes()).map_err(failed)?;
        let used: BTreeSet<String> = heard.capabilities.intersection(&allowed).cloned().collect();
        let unseen = UNSEEN.iter().map(|&name| name.to_owned());
        let more = used.iter().cloned().chain(unseen).collect::<BTreeSet<_>>();
        let mut attempts = vec![used, more.intersection(&allowed).cloned().collect(), allowed];
        attempts.dedup();
        Ok(Self {
            profile: text,
            file,
            attempts,
        })
    }

    /// Gives a run these rights, with that set of capabilities.
    pub(super) fn give(&self, options: &mut RunOptions, capabilities: &BTreeSet<String>) {
        options.privileged = false;
        options.cap_drop = vec![Capability::All];
        let names = tote_sandbox::ALL_CAPABILITIES.iter();
        options.cap_add = names
            .filter(|name| capabilities.contains(**name))
            .filter_map(|name| format!("CAP_{name}").parse().ok())
            .collect();
        // Each reader of this path begins at the start of the file.
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd());
        options.security.seccomp = Some(SeccompChoice::File(path));
    }
}

/// Returns the capabilities that the runs had, by their short names.
fn allowed(options: &RunOptions) -> BTreeSet<String> {
    let all = || tote_sandbox::ALL_CAPABILITIES.iter().map(|&name| name.to_owned());
    if options.privileged {
        return all().collect();
    }
    let full = tote_bundle::capabilities_of(options);
    let short = full.iter().filter_map(|name| name.strip_prefix("CAP_"));
    short.map(ToOwned::to_owned).collect()
}

/// Returns the default profile without the calls that were not made. Runs without that profile had every call, so theirs has
/// the calls that were made, whatever their arguments.
fn profile(options: &RunOptions, capabilities: &BTreeSet<String>, calls: &BTreeSet<String>) -> Seccomp {
    let names = tote_sandbox::ALL_CAPABILITIES.iter().enumerate();
    let bits = names
        .filter(|(_, name)| capabilities.contains(**name))
        .fold(0, |bits, (number, _)| bits | 1_u64 << number);
    let mut profile = default_profile(CapSet::from_bits(bits), Arch::NATIVE);
    let is_used = |name: &String| calls.contains(name) || ALWAYS.binary_search(&name.as_str()).is_ok();
    for rule in &mut profile.syscalls {
        if rule.action == Action::Allow {
            rule.names.retain(is_used);
        }
    }
    profile.syscalls.retain(|rule| !rule.names.is_empty());
    if options.seccomp() != SeccompChoice::Default {
        let always = ALWAYS.iter().map(|&name| name.to_owned());
        let names: BTreeSet<String> = calls.iter().cloned().chain(always).collect();
        profile.syscalls = vec![SyscallRule {
            names: names.into_iter().collect(),
            action: Action::Allow,
            errno_ret: None,
            args: Vec::new(),
        }];
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn named(profile: &Seccomp, name: &str) -> bool {
        let mut allowed = profile
            .syscalls
            .iter()
            .filter(|rule| rule.action == Action::Allow);
        allowed.any(|rule| rule.names.iter().any(|known| known == name))
    }

    #[test]
    fn a_profile_has_the_calls_that_were_made_and_the_conditions_of_the_default_one() {
        let options = RunOptions::default();
        let found = profile(&options, &allowed(&options), &calls(&["bind", "mount"]));
        for (name, expected) in [
            ("read", true),
            ("bind", true),
            ("listen", false),
            // The default profile does not allow it.
            ("mount", false),
            ("clone", true),
        ] {
            assert_eq!(named(&found, name), expected, "{name}");
        }
        let clone3 = found.syscalls.iter().find(|rule| rule.names == ["clone3"]);
        assert_eq!(clone3.map(|rule| rule.action), Some(Action::Errno));
        let clone = found.syscalls.iter().find(|rule| rule.names == ["clone"]);
        assert!(clone.is_some_and(|rule| !rule.args.is_empty()));
        assert!(tote_seccomp::compile(&found, Arch::NATIVE).is_ok());
        let mut options = RunOptions::default();
        options.set("security-opt", "seccomp=unconfined").unwrap();
        let found = profile(&options, &allowed(&options), &calls(&["mount"]));
        assert!(named(&found, "mount") && named(&found, "read") && !named(&found, "bind"));
    }
}
