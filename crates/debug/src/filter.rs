//! Filter of system calls of a session.
//!
//! The kernel shows a process's filter only to another process that stops it. But engines leave the profile in the spec that they gave a
//! runtime, and from the same profile comes the same filter. Only files that an engine's own files lead to are read: a process could
//! name a spec of its own making, which forbids nothing, and then work through the session.

use crate::exec::Inside;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use serde::Deserialize;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tote_bundle::ExecOptions;
use tote_seccomp::{Arch, notifies};
use tote_spec::Seccomp;

/// Size of the longest spec that is read, in bytes.
const LONGEST: u64 = 4 << 20;

/// Chooses the filter: none for a privileged session, else the container's own. tote's default one takes its place where the
/// container's is not known, or forbids what an added capability is for.
pub(super) fn choose(inside: &mut Inside, specs: &[PathBuf], exec: &ExecOptions) {
    if exec.privileged {
        // As for a container that is run so: the filter would forbid what the capabilities allow, such as mounts.
        (inside.default_filter, inside.linux.seccomp) = (false, None);
    } else if inside.default_filter
        && exec.cap_add.is_empty()
        && let Some(profile) = specs.iter().find_map(|path| profile_in(path))
    {
        (inside.default_filter, inside.linux.seccomp) = (false, Some(profile));
    }
}

/// Reads the profile in a spec; `None` without one that a session can have.
fn profile_in(path: &Path) -> Option<Seccomp> {
    #[derive(Deserialize)]
    struct Spec {
        linux: Linux,
    }
    #[derive(Deserialize)]
    struct Linux {
        seccomp: Seccomp,
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).ok()?;
    let found = fstat(&file).ok()?;
    let is_regular = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    let is_trusted = found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw();
    if !is_regular || !is_trusted {
        return None;
    }
    let mut text = Vec::new();
    File::from(file).take(LONGEST).read_to_end(&mut text).ok()?;
    let profile = serde_json::from_slice::<Spec>(&text).ok()?.linux.seccomp;
    // A profile that asks another process is for the engine, which answers only its own containers.
    let notifies = notifies(&profile, Arch::NATIVE).ok()?;
    (!notifies).then_some(profile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_spec::Action;

    #[test]
    fn a_session_has_the_containers_own_profile() {
        let dir = tempfile::tempdir().unwrap();
        let spec = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (missing, none) = (dir.path().join("missing"), spec("none", r#"{"linux": {}}"#));
        let own = spec(
            "own",
            r#"{"ociVersion": "1.0.2", "linux": {"seccomp": {"defaultAction": "SCMP_ACT_ALLOW",
               "syscalls": [{"names": ["chmod"], "action": "SCMP_ACT_ERRNO"}]}}}"#,
        );
        let asks = spec(
            "asks",
            r#"{"linux": {"seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/x",
               "syscalls": [{"names": ["chmod"], "action": "SCMP_ACT_NOTIFY"}]}}}"#,
        );
        let filtered = Inside {
            default_filter: true,
            ..Inside::default()
        };
        let chosen = |specs: &[PathBuf], exec: &ExecOptions, inside: &Inside| {
            let mut inside = inside.clone();
            choose(&mut inside, specs, exec);
            let action = inside.linux.seccomp.map(|profile| profile.default_action);
            (inside.default_filter, action)
        };
        let plain = ExecOptions::default();
        let with = |name: &str, value: &str| {
            let mut exec = ExecOptions::default();
            exec.set(name, value).unwrap();
            exec
        };
        let found = [missing.clone(), own.clone()];
        assert_eq!(chosen(&found, &plain, &filtered), (false, Some(Action::Allow)));
        for unknown in [missing, none, asks, dir.path().to_owned()] {
            assert_eq!(chosen(&[unknown], &plain, &filtered), (true, None));
        }
        assert_eq!(
            chosen(std::slice::from_ref(&own), &plain, &Inside::default()),
            (false, None)
        );
        let added = with("cap-add", "SYS_ADMIN");
        assert_eq!(
            chosen(std::slice::from_ref(&own), &added, &filtered),
            (true, None)
        );
        let everything = with("privileged", "true");
        assert_eq!(
            chosen(std::slice::from_ref(&own), &everything, &filtered),
            (false, None)
        );
        let mut with_own = Inside::default();
        with_own.linux.seccomp = profile_in(&own);
        assert_eq!(chosen(&[], &everything, &with_own), (false, None));
        assert_eq!(chosen(&[], &plain, &with_own), (false, Some(Action::Allow)));
    }
}
