//! Process of the PID namespace that a bundle names, from which its container gets `/proc`.
//!
//! The container's own process enters that namespace at last, when it has nothing left that its neighbours lack. So it cannot mount a
//! procfs of that namespace itself.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::path::Path;
use tote_spec::{NamespaceType, Spec};

/// Returns a pidfd of a process in the PID namespace to join, in whose root a procfs of that namespace is mounted. `None` where the
/// container's process has to be born in the namespace: there is no such process, another procfs than `/proc` is to be mounted, or a user
/// namespace is involved, from inside of which the PID namespace may not be joinable.
pub(crate) fn of(spec: &Spec, joins: &[(NamespaceType, OwnedFd)]) -> Option<OwnedFd> {
    let (_, namespace) = joins.iter().find(|(kind, _)| *kind == NamespaceType::Pid)?;
    let is_proc = |mount: &&tote_spec::Mount| mount.kind.as_deref() == Some("proc");
    let mut procs = spec.mounts.iter().filter(is_proc);
    let elsewhere = procs.next().is_some_and(|mount| mount.destination != "/proc") || procs.next().is_some();
    let own = is_namespace_of(namespace.as_fd(), Path::new("/proc/self"));
    if elsewhere || own || spec.namespace(NamespaceType::User).is_some() {
        return None;
    }
    let path = spec.namespace(NamespaceType::Pid)?.path.as_deref()?;
    let named = path
        .strip_prefix("/proc/")
        .and_then(|rest| rest.split('/').next()?.parse().ok());
    let named = named.and_then(|pid| open(pid, namespace.as_fd()));
    // A namespace that is bound to a file belongs to processes all the same.
    named.or_else(|| {
        // absence: the container's process is born in the namespace, as where no process shows it
        let entries = std::fs::read_dir("/proc").ok()?.flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.find_map(|pid| open(pid, namespace.as_fd()))
    })
}

/// Opens a process if it is in the namespace and shows it.
fn open(pid: i32, namespace: BorrowedFd<'_>) -> Option<OwnedFd> {
    let dir = Path::new("/proc").join(pid.to_string());
    // Most processes are in another one.
    let fits = || is_namespace_of(namespace, &dir) && is_namespace_of(namespace, &dir.join("root/proc/1"));
    if !fits() {
        return None;
    }
    let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    // It was opened by number.
    fits().then_some(pidfd)
}

/// True if that is the PID namespace of the process with this directory of a procfs.
fn is_namespace_of(namespace: BorrowedFd<'_>, process: &Path) -> bool {
    let there = rustix::fs::stat(process.join("ns/pid"));
    let wanted = rustix::fs::fstat(namespace);
    let same = |one: rustix::fs::Stat, other: rustix::fs::Stat| {
        (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
    };
    there.is_ok_and(|there| wanted.is_ok_and(|wanted| same(there, wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_namespace() {
        let own = || OwnedFd::from(std::fs::File::open("/proc/self/ns/pid").unwrap());
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(is_namespace_of(own().as_fd(), Path::new("/proc/self")));
        assert!(open(i32::MAX, own().as_fd()).is_none());
        let other = OwnedFd::from(std::fs::File::open("/proc/self/ns/mnt").unwrap());
        assert!(open(pid, other.as_fd()).is_none());
        let spec = |path: &str| {
            let text = format!(
                r#"{{"ociVersion": "1.2.0", "linux": {{"namespaces": [{{"type": "pid", "path": "{path}"}}]}}}}"#
            );
            Spec::parse(&text).unwrap()
        };
        let joined = [(NamespaceType::Pid, own())];
        assert!(
            of(&spec("/proc/self/ns/pid"), &joined).is_none(),
            "it is the caller's own"
        );
        assert!(of(&spec("/proc/self/ns/pid"), &[]).is_none());
    }
}
