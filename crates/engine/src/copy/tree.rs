//! Paths in the root of a container or of this machine.
//!
//! Paths of a container are resolved by openat2(2) as its own processes resolve them, from its root and never out of
//! it. The result is a descriptor, so a concurrent exchange of names has no effect.

use super::place::{There, Wanted};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use tote_sys::Errno;

/// Limit of links on a path, the kernel's.
const LINKS: usize = 40;

/// Root of paths.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a> {
    pub(super) root: BorrowedFd<'a>,
    /// True if no path may lead out of the root.
    pub(super) foreign: bool,
}

/// Destination of a copy.
pub(super) struct Spot {
    /// Target directory, or the directory that holds the name.
    pub(super) dir: OwnedFd,
    /// Name to make or replace; empty for the directory itself.
    pub(super) name: Vec<u8>,
    pub(super) there: There,
    /// True for an entry that is neither file nor directory.
    pub(super) special: bool,
}

impl Tree<'_> {
    fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = match path.strip_prefix(b"/").unwrap_or(path) {
            b"" => b".",
            path => path,
        };
        let resolve = if self.foreign {
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS
        } else {
            ResolveFlags::empty()
        };
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        tote_sys::openat2(self.root, path, flags, Mode::empty(), resolve)
    }

    /// Opens a source; with `follow` a link stands for its target.
    pub(super) fn source(&self, wanted: &Wanted, follow: bool) -> Result<(OwnedFd, Stat), Errno> {
        let found = if wanted.directory {
            self.open(&wanted.path, OFlags::DIRECTORY)?
        } else if follow {
            self.open(&wanted.path, OFlags::empty())?
        } else {
            self.open(&wanted.path, OFlags::NOFOLLOW)?
        };
        let stat = rustix::fs::fstat(&found)?;
        Ok((found, stat))
    }

    /// Finds the destination: links are followed, even to a missing target. `ENOENT` means that the
    /// parent directory is missing.
    pub(super) fn destination(&self, wanted: &Wanted) -> Result<Spot, Errno> {
        let mut path = wanted.path.clone();
        for _ in 0..LINKS {
            let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
                Some(slash) => (&path[..slash], &path[slash + 1..]),
                None => (&b""[..], &path[..]),
            };
            if matches!(name, b"" | b"." | b"..") {
                return Ok(Spot::directory(self.open(&path, OFlags::DIRECTORY)?));
            }
            let dir = self.open(above, OFlags::DIRECTORY)?;
            let kind = match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
                Err(Errno::NOENT) => None,
                Err(errno) => return Err(errno),
            };
            let there = match kind {
                None => There::Nothing,
                Some(FileType::Directory) => {
                    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let opened = rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty());
                    return Ok(Spot::directory(opened?));
                }
                Some(FileType::Symlink) => {
                    let target = rustix::fs::readlinkat(&dir, name, Vec::new())?.into_bytes();
                    path = match target.starts_with(b"/") {
                        true => target,
                        false => [above, b"/", &target].concat(),
                    };
                    while path.len() > 1 && path.ends_with(b"/") {
                        path.pop();
                    }
                    continue;
                }
                Some(_) => There::File,
            };
            return Ok(Spot {
                name: name.to_vec(),
                dir,
                there,
                special: there == There::File && kind != Some(FileType::RegularFile),
            });
        }
        Err(Errno::LOOP)
    }
}

impl Spot {
    fn directory(dir: OwnedFd) -> Self {
        Self {
            dir,
            name: Vec::new(),
            there: There::Directory,
            special: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn root(dir: &std::path::Path) -> OwnedFd {
        rustix::fs::openat(CWD, dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn nothing_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("etc")).unwrap();
        fs::write(dir.path().join("etc/passwd"), "inside").unwrap();
        for (name, target) in [
            ("absolute", "/etc/passwd"),
            ("dots", "../../../../etc/passwd"),
            ("dir", "/etc"),
            ("new", "/etc/new"),
            ("out", "/../../nowhere/new"),
            ("loop", "loop"),
            ("slash", "/etc/"),
        ] {
            symlink(target, dir.path().join(name)).unwrap();
        }
        let fd = root(dir.path());
        let tree = Tree {
            root: fd.as_fd(),
            foreign: true,
        };
        let wanted = |path: &str| Wanted::new(b"", path.as_bytes());
        let inside = rustix::fs::stat(dir.path().join("etc/passwd")).unwrap();
        for path in ["absolute", "dots", "dir/passwd"] {
            let (_, stat) = tree.source(&wanted(path), true).unwrap();
            assert_eq!(stat.st_ino, inside.st_ino, "{path}");
        }
        let etc = rustix::fs::stat(dir.path().join("etc")).unwrap();
        for (path, name, there) in [
            ("absolute", "passwd", There::File),
            ("dots", "passwd", There::File),
            ("dir/other", "other", There::Nothing),
            ("new", "new", There::Nothing),
            ("slash", "", There::Directory),
            ("dir", "", There::Directory),
        ] {
            let spot = tree.destination(&wanted(path)).unwrap();
            let found = rustix::fs::fstat(&spot.dir).unwrap();
            let expected = (name.as_bytes(), there, etc.st_ino);
            assert_eq!(
                (spot.name.as_slice(), spot.there, found.st_ino),
                expected,
                "{path}"
            );
        }
        assert_eq!(tree.destination(&wanted("out")).err(), Some(Errno::NOENT));
        assert_eq!(tree.destination(&wanted("loop")).err(), Some(Errno::LOOP));
    }
}
