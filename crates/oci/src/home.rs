//! Home directories of users, from the container's own `/etc/passwd`.

use crate::bundle::Bundle;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags};

/// Most bytes of a passwd file that are read.
const LONGEST: usize = 1 << 20;

/// Finds a home directory before the container is made: in the file of its root, or in one that will be mounted
/// there.
pub(crate) fn in_bundle(bundle: &Bundle, uid: u32) -> Option<String> {
    let mounted = bundle
        .spec
        .mounts
        .iter()
        .rev()
        .find(|mount| mount.destination == "/etc/passwd");
    if let Some(source) = mounted.and_then(|mount| mount.source.as_deref()) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // absence: the home is `/`, as of a user without an account
        let root = rustix::fs::open("/", flags, Mode::empty()).ok()?;
        let source = bundle.dir.join(source);
        return read(root, source.to_str()?, uid);
    }
    read(&bundle.root, "etc/passwd", uid)
}

/// Finds a home directory in the container of the process with that pid and that pidfd.
pub(crate) fn of_process(pid: u32, pidfd: BorrowedFd<'_>, uid: u32) -> Option<String> {
    read(tote_runtime::root_of(pid, pidfd).ok()?, "etc/passwd", uid)
}

fn read(root: impl AsFd, path: &str, uid: u32) -> Option<String> {
    // A missing or strange file does not keep a process from running.
    let bytes = tote_rootfs::read_in_root(root, path, LONGEST).ok()??;
    find(&String::from_utf8_lossy(&bytes), uid)
}

fn find(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let matches = fields.next()?.parse() == Ok(uid);
        let home = fields.nth(2)?;
        (matches && home.starts_with('/') && !home.contains('\0')).then(|| home.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes() {
        let passwd = "bad\nroot:x:0:0:root:/root:/bin/sh\nx:x:5:5::relative:\nu:x:5:5::/home/u\n";
        assert_eq!(find(passwd, 0).as_deref(), Some("/root"));
        assert_eq!(find(passwd, 5).as_deref(), Some("/home/u"));
        assert_eq!(find(passwd, 6), None);
    }
}
