//! Latest new tmpfs of the container, in which no other process has created anything.
//!
//! A name in a tmpfs that is a moment old is either missing or was created by an operation of this list. So there is
//! nothing to look up, component by component, and no link to be wary of: a file or mount point is created right
//! there. Every case that is not that simple is left to [`crate::root`], which takes nothing for granted.

use crate::Errno;
use crate::attach::at_name;
use crate::root::{Last, make_one, touch};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::Mode;
use std::ffi::CStr;

/// The longest path that is remembered, in bytes; `/sys/fs/cgroup` has 14.
const LONGEST: usize = 64;

/// New tmpfs of the container, and its place.
pub(crate) struct Fresh {
    path: [u8; LONGEST],
    length: usize,
    dir: OwnedFd,
}

impl Fresh {
    /// Remembers a tmpfs, except one whose set-group-ID bit would give new files another group than their creator's.
    pub(crate) fn new(path: &CStr, dir: OwnedFd) -> Option<Self> {
        let path = relative(path.to_bytes());
        let mut own = [0; LONGEST];
        own.get_mut(..path.len())?.copy_from_slice(path);
        let set_gid = Mode::from_raw_mode(rustix::fs::fstat(&dir).ok()?.st_mode).contains(Mode::SGID);
        (!set_gid && !path.is_empty()).then_some(Self {
            path: own,
            length: path.len(),
            dir,
        })
    }

    /// Returns the name of a path in it, if the path is a direct entry.
    pub(crate) fn name<'p>(&self, path: &'p CStr) -> Option<&'p CStr> {
        let bytes = path.to_bytes_with_nul();
        let start = bytes.iter().take_while(|&&byte| byte == b'/').count();
        let name = bytes[start..]
            .strip_prefix(&self.path[..self.length])?
            .strip_prefix(b"/")?;
        let name = CStr::from_bytes_with_nul(name).ok()?;
        let plain = !matches!(name.to_bytes(), b"" | b"." | b"..") && !name.to_bytes().contains(&b'/');
        plain.then_some(name)
    }
}

fn relative(path: &[u8]) -> &[u8] {
    let start = path.iter().take_while(|&&byte| byte == b'/').count();
    &path[start..]
}

/// Creates a mount point; `false` if it does not lie directly in the tmpfs, or exists already.
pub(crate) fn make(fresh: Option<&Fresh>, path: &CStr, last: Last) -> Result<bool, Errno> {
    let Some((fresh, name)) = place(fresh, path) else {
        return Ok(false);
    };
    let made = match last {
        Last::Dir(mode) => make_one(fresh, name, mode),
        Last::File(mode) => touch(fresh, name, mode),
    };
    match made {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Mounts at a place that [`make`] has created.
pub(crate) fn attach(fresh: Option<&Fresh>, path: &CStr, mount: BorrowedFd<'_>) -> Result<(), Errno> {
    let (fresh, name) = place(fresh, path).ok_or(Errno::BADF)?;
    at_name(mount, fresh, name)
}

/// Makes a symbolic link; `false` if it does not lie directly in the tmpfs, or if something exists there already.
pub(crate) fn symlink(fresh: Option<&Fresh>, text: &CStr, path: &CStr) -> Result<bool, Errno> {
    let Some((fresh, name)) = place(fresh, path) else {
        return Ok(false);
    };
    match rustix::fs::symlinkat(text, fresh, name) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Splits a path that lies directly in the tmpfs into the directory and the name.
pub(crate) fn place<'f, 'p>(fresh: Option<&'f Fresh>, path: &'p CStr) -> Option<(BorrowedFd<'f>, &'p CStr)> {
    let fresh = fresh?;
    Some((fresh.dir.as_fd(), fresh.name(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_it() {
        let dir = || OwnedFd::from(std::fs::File::open("/").unwrap());
        let fresh = Fresh::new(c"/dev", dir()).unwrap();
        for (path, name) in [
            (c"/dev/null", Some(c"null")),
            (c"dev/null", Some(c"null")),
            (c"/dev", None),
            (c"/dev/", None),
            (c"/dev/..", None),
            (c"/dev/.", None),
            (c"/dev/net/tun", None),
            (c"/dev//null", None),
            (c"/device/null", None),
            (c"/etc/dev/null", None),
        ] {
            assert_eq!(fresh.name(path), name, "{path:?}");
        }
        assert!(
            Fresh::new(c"/", dir()).is_none(),
            "the root has others' files in it"
        );
    }
}
