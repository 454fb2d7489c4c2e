//! Creation of directories in a tree whose links are followed.

use super::inside;
use super::place::{Ids, own};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Limit of followed links on one path, the kernel's.
const LINKS_MAX: usize = 40;

/// Opens a directory, and makes it and its parents if they are missing. Links are followed inside the root, and the
/// missing target of a link is made as well. Existing directories stay unchanged.
pub(crate) fn make_dirs(root: &OwnedFd, path: &[u8], owner: Ids, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    match inside::open(root, path, flags) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    let names = |path: &[u8]| -> Vec<Vec<u8>> {
        let names = path.split(|byte| *byte == b'/').rev();
        names
            .filter(|name| !matches!(*name, b"" | b"."))
            .map(<[u8]>::to_vec)
            .collect()
    };
    // The path is a stack: its first name is the last element.
    let mut ahead = names(path);
    let mut here: Vec<Vec<u8>> = Vec::new();
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == b".." {
            here.pop();
            continue;
        }
        let parent = inside::open_straight(root, &here.join(&b'/'), flags)?;
        match rustix::fs::statat(&parent, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {
                rustix::fs::mkdirat(&parent, &*name, Mode::RWXU)?;
                let made = inside::open_straight(&parent, &name, flags)?;
                own(&made, owner, Mode::from_raw_mode(mode))?;
            }
            found if FileType::from_raw_mode(found?.st_mode) == FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                let target = rustix::fs::readlinkat(&parent, &*name, Vec::new())?.into_bytes();
                if target.starts_with(b"/") {
                    here.clear();
                }
                ahead.extend(names(&target));
                continue;
            }
            _ => {}
        }
        here.push(name);
    }
    inside::open_straight(root, &here.join(&b'/'), flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn links_that_lead_nowhere_are_followed_inside() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir(root.join("there")).unwrap();
        for (name, target) in [
            ("there/up", "../../../../new/a"),
            ("absolute", "/other"),
            ("again", "there/up/b"),
            ("loop", "loop"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        let opened = rustix::fs::openat(CWD, root, OFlags::PATH, Mode::empty()).unwrap();
        let owner = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let make = |path: &str| make_dirs(&opened, path.as_bytes(), owner, 0o711).map(drop);
        for path in ["/there/up/x/", "absolute", "again/", "plain/./y/../z"] {
            make(path).unwrap();
        }
        for made in ["new/a/x", "other", "new/a/b", "plain/y", "plain/z"] {
            let mode = std::fs::symlink_metadata(root.join(made))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o7777, 0o711, "{made}");
        }
        assert_eq!(make("loop/x"), Err(Errno::LOOP));
        std::fs::write(root.join("file"), "").unwrap();
        assert_eq!(make("file/x"), Err(Errno::NOTDIR));
    }
}
