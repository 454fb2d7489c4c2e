//! Files that the engine writes for a container, below directories of an image whose owners have no id in its user
//! namespace.
//!
//! No capability applies to a directory whose owner has no id in the user namespace: creating a file there is
//! refused (`EACCES`), and even in a directory that all users may write to, overlayfs cannot copy it up with that
//! owner (`EOVERFLOW`). An unprivileged user meets this with any tree that root has unpacked. Entries that exist in
//! the upper layer are not copied up, and their owner counts. So the parent directories of such files are created
//! there before the overlay is mounted. They belong to the owner of the container, as the upper layer itself does.

use crate::PrepareError;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use std::path::Path;
use tote_spec::IdMapping;
use tote_sys::Errno;

/// Files that are written for a container, and the ids of its user namespace.
#[derive(Clone, Copy, Debug)]
pub struct OwnFiles<'a> {
    /// Paths relative to the root.
    pub paths: &'a [&'a str],
    /// User ids of the user namespace.
    pub uids: &'a [IdMapping],
    /// Group ids of the user namespace.
    pub gids: &'a [IdMapping],
}

impl OwnFiles<'_> {
    /// Creates the parents of each file in the upper layer where overlayfs could not copy them up. The layers are
    /// given with the topmost first. Entries that the container has changed are left alone.
    pub(crate) fn make_way(&self, lowers: &[impl AsRef<Path>], upper: &Path) -> Result<(), PrepareError> {
        for path in self.paths {
            let failed = |source| PrepareError::Look {
                path: path.into(),
                source,
            };
            for lower in lowers {
                let found = self.look(lower.as_ref(), path).map_err(failed)?;
                if found.iter().any(|stat| !self.holds(stat)) {
                    make(upper, path, &found).map_err(|source| PrepareError::State {
                        attempt: "make the way to a file of the container's own",
                        path: upper.join(path),
                        source: source.into(),
                    })?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Looks up the entries of a layer on the way to the file, links not followed, and the file itself.
    fn look(&self, lower: &Path, path: &str) -> Result<Vec<Stat>, Errno> {
        let mut dir = directory(CWD, lower, OFlags::empty())?;
        let mut found = Vec::with_capacity(2);
        for name in path.split('/') {
            let stat = match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT | Errno::ACCESS) => break,
                stat => stat?,
            };
            found.push(stat);
            // A file, or a link. A link is left to the container, and its target is not examined.
            if !is_directory(&stat) {
                break;
            }
            dir = match directory(&dir, Path::new(name), OFlags::PATH) {
                Err(Errno::ACCESS) => break,
                dir => dir?,
            };
        }
        Ok(found)
    }

    fn holds(&self, stat: &Stat) -> bool {
        let has = |maps, id| IdMapping::inside(maps, id).is_some();
        has(self.uids, stat.st_uid) && has(self.gids, stat.st_gid)
    }
}

/// Creates directories with the modes that were found, and an empty file in the place of a file or a link.
fn make(upper: &Path, path: &str, found: &[Stat]) -> Result<(), Errno> {
    let mut dir = directory(CWD, upper, OFlags::empty())?;
    for (name, stat) in path.split('/').zip(found) {
        let is_last = path.rsplit('/').next() == Some(name);
        if is_last && !is_directory(stat) {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
            return made(rustix::fs::openat(&dir, name, flags, Mode::from_raw_mode(0o644)).map(drop));
        }
        if is_last || !is_directory(stat) {
            return Ok(());
        }
        // The owner needs all permissions, to create the next entry in it.
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777 | 0o700);
        let new = rustix::fs::mkdirat(&dir, name, mode);
        let is_new = new.is_ok();
        made(new)?;
        // The container may have put another entry there, even a link to somewhere else.
        dir = match directory(&dir, Path::new(name), OFlags::NOFOLLOW) {
            Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(()),
            dir => dir?,
        };
        if is_new {
            // mkdir(2) applies the umask, so set the mode explicitly.
            rustix::fs::fchmod(&dir, mode)?;
        }
    }
    Ok(())
}

fn directory(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, path, flags, Mode::empty())
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Accepts an existing entry: an earlier attempt may have created it.
fn made(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    const FILES: [&str; 3] = ["etc/hostname", "etc/hosts", "etc/resolv.conf"];

    fn tree() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (lower, upper) = (dir.path().join("lower"), dir.path().join("upper"));
        fs::create_dir_all(lower.join("etc")).unwrap();
        let etc = fs::File::open(lower.join("etc")).unwrap();
        etc.set_permissions(PermissionsExt::from_mode(0o751)).unwrap();
        fs::write(lower.join("etc/hosts"), "of the image\n").unwrap();
        symlink("../run/resolv.conf", lower.join("etc/resolv.conf")).unwrap();
        fs::create_dir(&upper).unwrap();
        (dir, lower, upper)
    }

    fn mapped(all: bool) -> Vec<IdMapping> {
        let own = rustix::process::geteuid().as_raw();
        match all {
            true => vec![IdMapping::new(0, 0, u32::MAX)],
            false => vec![IdMapping::new(0, own + 1, 1000)],
        }
    }

    fn make_way(lower: &Path, upper: &Path, all: bool) {
        let lines = mapped(all);
        let files = OwnFiles {
            paths: &FILES,
            uids: &lines,
            gids: &mapped(true),
        };
        files.make_way(&[lower], upper).unwrap();
    }

    #[test]
    fn the_way_is_made_where_the_image_is_foreign() {
        let (_dir, lower, upper) = tree();
        make_way(&lower, &upper, true);
        assert_eq!(fs::read_dir(&upper).unwrap().count(), 0, "its owner is inside");
        for _ in 0..2 {
            make_way(&lower, &upper, false);
            let mode = fs::metadata(upper.join("etc")).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o751);
            let found = |name| fs::symlink_metadata(upper.join(name));
            assert!(found(FILES[0]).is_err(), "nothing of it is in the image");
            assert!(found(FILES[1]).unwrap().is_file() && found(FILES[2]).unwrap().is_file());
            fs::write(upper.join(FILES[1]), "of the container\n").unwrap();
        }
        assert_eq!(fs::read(upper.join(FILES[1])).unwrap(), b"of the container\n");
    }

    #[test]
    fn what_the_container_put_there_leads_nowhere() {
        let (dir, lower, upper) = tree();
        let secret = dir.path().join("secret");
        fs::create_dir(&secret).unwrap();
        symlink(&secret, upper.join("etc")).unwrap();
        make_way(&lower, &upper, false);
        assert_eq!(fs::read_dir(&secret).unwrap().count(), 0);
        fs::remove_file(upper.join("etc")).unwrap();
        fs::write(upper.join("etc"), "a file").unwrap();
        make_way(&lower, &upper, false);
        assert_eq!(fs::read(upper.join("etc")).unwrap(), b"a file");
    }
}
