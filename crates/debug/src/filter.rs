//! Filter of system calls of a session.
//!
//! The kernel shows a process's filter only to another process that stops it. But engines leave the profile in the spec that they gave a
//! runtime, and from the same profile comes the same filter. Only files that an engine's own files lead to are read: a process could
//! name a spec of its own making, which forbids nothing, and then work through the session.

use crate::exec::Inside;
use crate::{Home, filters};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tote_bundle::ExecOptions;
use tote_seccomp::{Arch, Filter, compile};
use tote_spec::Seccomp;

/// Size of the longest spec that is read, in bytes.
const LONGEST: u64 = 4 << 20;

/// Chooses the filter: none for a privileged session, else the container's own. tote's default one takes its place where the
/// container's is not known, or forbids what an added capability is for. Returns the compiled one of another engine's container.
pub(super) fn choose(
    home: &Home,
    inside: &mut Inside,
    specs: &[PathBuf],
    exec: &ExecOptions,
) -> Option<Filter> {
    if exec.privileged {
        // As for a container that is run so: the filter would forbid what the capabilities allow, such as mounts.
        (inside.default_filter, inside.linux.seccomp) = (false, None);
        return None;
    }
    if !inside.default_filter || !exec.cap_add.is_empty() {
        return None;
    }
    let filter = specs.iter().find_map(|path| filter_of(home, path))?;
    inside.default_filter = false;
    Some(filter)
}

/// Returns the filter of the profile in a spec; `None` without one that a session can have.
fn filter_of(home: &Home, path: &Path) -> Option<Filter> {
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        linux: Linux<'a>,
    }
    #[derive(Deserialize)]
    struct Linux<'a> {
        #[serde(borrow)]
        seccomp: &'a RawValue,
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // absence: the session has the default filter, which allows less
    let file = open(path, flags, Mode::empty()).ok()?;
    let found = fstat(&file).ok()?;
    let is_regular = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    let is_trusted = found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw();
    if !is_regular || !is_trusted {
        return None;
    }
    // Without room for all of it, the first read would be of 32 bytes, and each further one of as many as all before.
    let length = u64::try_from(found.st_size).unwrap_or_default().min(LONGEST);
    let mut text = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + 1);
    File::from(file).take(LONGEST).read_to_end(&mut text).ok()?;
    let spec: Spec<'_> = serde_json::from_slice(&text).ok()?;
    let profile = spec.linux.seccomp.get();
    filters::compiled(home, profile, || {
        let profile: Seccomp = serde_json::from_str(profile).ok()?;
        let filter = compile(&profile, Arch::NATIVE).ok()?;
        // A profile that asks another process is for the engine, which answers only its own containers.
        (!filter.notify).then_some(filter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_seccomp::lets_through;

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
        let home = Home::open(Some(&dir.path().join("state"))).unwrap();
        // Whether the default filter is used; the compiled one's answers to chmod and chown; whether the spec has a profile.
        let chosen = |specs: &[PathBuf], exec: &ExecOptions, inside: &Inside| {
            let mut inside = inside.clone();
            let filter = choose(&home, &mut inside, specs, exec);
            let answers = filter
                .map(|filter| ["chmod", "chown"].map(|call| lets_through(&filter.instructions, call, 0)));
            (inside.default_filter, answers, inside.linux.seccomp.is_some())
        };
        let unknown_one = (true, None, false);
        let unfiltered = (false, None, false);
        let plain = ExecOptions::default();
        let with = |name: &str, value: &str| {
            let mut exec = ExecOptions::default();
            exec.set(name, value).unwrap();
            exec
        };
        let found = [missing.clone(), own.clone()];
        // The second time it has been kept.
        for _ in 0..2 {
            assert_eq!(
                chosen(&found, &plain, &filtered),
                (false, Some([false, true]), false)
            );
        }
        for unknown in [missing, none, asks, dir.path().to_owned()] {
            assert_eq!(chosen(&[unknown], &plain, &filtered), unknown_one);
        }
        assert_eq!(
            chosen(std::slice::from_ref(&own), &plain, &Inside::default()),
            unfiltered
        );
        let added = with("cap-add", "SYS_ADMIN");
        assert_eq!(chosen(std::slice::from_ref(&own), &added, &filtered), unknown_one);
        let everything = with("privileged", "true");
        assert_eq!(
            chosen(std::slice::from_ref(&own), &everything, &filtered),
            unfiltered
        );
        let mut with_own = Inside::default();
        with_own.linux.seccomp = serde_json::from_str(r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#).unwrap();
        assert_eq!(chosen(&[], &everything, &with_own), unfiltered);
        assert_eq!(chosen(&[], &plain, &with_own), (false, None, true));
    }
}
