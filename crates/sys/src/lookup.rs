//! openat2(2), as every path is resolved that an image, a container or its user has chosen.

use crate::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::path::Arg;

/// Maximum number of calls. One takes microseconds, and only what is renamed or mounted in that time makes it fail.
const TRIES: u32 = 128;

/// Calls openat2(2) again while it fails with EAGAIN: where a path has `..` on the way, the kernel cannot be sure that the lookup stays
/// in the directory if anything is renamed or mounted meanwhile, wherever on the machine that is.
///
/// # Errors
/// Those of openat2(2).
pub fn openat2(
    dir: impl AsFd,
    path: impl Arg + Copy,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        #[expect(clippy::disallowed_methods, reason = "called again when it has to be")]
        match rustix::fs::openat2(&dir, path, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries > 0 => {}
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_rename_elsewhere_makes_no_lookup_fail() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("root/a/b")).unwrap();
        std::fs::create_dir(at("one")).unwrap();
        let root = std::fs::File::open(at("root")).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let renaming = scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::fs::rename(at("one"), at("other")).unwrap();
                    std::fs::rename(at("other"), at("one")).unwrap();
                }
            });
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let opened = (0..10_000).find_map(|_| {
                let path = "a/b/../../a/b/..";
                openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT).err()
            });
            is_done.store(true, Ordering::Relaxed);
            renaming.join().unwrap();
            assert_eq!(opened, None);
        });
    }
}
