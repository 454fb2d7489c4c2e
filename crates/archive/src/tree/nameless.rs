//! A file that gets its name only when it is complete.

use super::content::{Contents as _, Original};
use super::dirs::{Dir, open_in_root};
use super::error::{ExtractError, made, metadata};
use super::node::Maker;
use super::options::ExtractOptions;
use crate::entry::{Entry, Kind};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

/// A file without a name (`O_TMPFILE`): if the process ends before [`Nameless::link`], nothing of the file is left.
#[derive(Debug)]
pub struct Nameless {
    file: OwnedFd,
    mode: Option<Mode>,
    owner: Option<(u32, u32)>,
    maker: Maker,
}

impl Nameless {
    /// Creates the file of an entry in the file system of `dir`. `None` if the file system does not support
    /// `O_TMPFILE`, or the entry is not a regular file.
    ///
    /// # Errors
    /// See [`ExtractError`].
    pub fn begin(
        entry: &Entry,
        dir: BorrowedFd<'_>,
        options: &ExtractOptions,
    ) -> Result<Option<Self>, ExtractError> {
        let Kind::File { .. } = entry.kind else {
            return Ok(None);
        };
        let dir = open_in_root(dir, b"")
            .and_then(Dir::of)
            .map_err(ExtractError::Root)?;
        let maker = Maker::new(dir.as_fd(), options.owner);
        let (create, mode) = maker.modes(entry);
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&dir, ".", flags, create) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => return Ok(None),
            file => file.map_err(|source| made("file", entry, source))?,
        };
        let owner = maker.owner_of(entry, dir.group);
        Ok(Some(Self {
            file,
            mode,
            owner,
            maker,
        }))
    }

    /// Fills the file with a copy of `from`; returns the number of bytes. `told` is called with the number of bytes
    /// copied since its last call.
    ///
    /// # Errors
    /// See [`ExtractError`].
    pub fn fill(
        &mut self,
        entry: &Entry,
        from: Option<File>,
        told: &mut dyn FnMut(u64),
    ) -> Result<u64, ExtractError> {
        let Kind::File { size } = entry.kind else {
            return Ok(0);
        };
        let mut original = Original {
            file: from,
            told,
            by_kernel: &mut true,
            buffer: &mut Vec::new(),
        };
        let bytes = original.fill(&self.file, entry, size)?;
        self.maker
            .finish(self.file.as_fd(), entry, self.owner, self.mode)
            .map_err(|failed| metadata(entry, failed))?;
        Ok(bytes)
    }

    /// Gives the file a name in that directory. It may have several names.
    ///
    /// # Errors
    /// Those of linkat(2): `EEXIST` if the name exists.
    pub fn link(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        // Linking by the descriptor itself (AT_EMPTY_PATH) needs a capability in the initial user namespace.
        let itself = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, itself, dir, name, AtFlags::SYMLINK_FOLLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::EntryPath;
    use crate::{Owner, entry_of};
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn it_is_there_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("from"), "content").unwrap();
        fs::create_dir(dir.path().join("to")).unwrap();
        let to = File::open(dir.path().join("to")).unwrap();
        let from = File::open(dir.path().join("from")).unwrap();
        from.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        let path = EntryPath::parse(b"to").unwrap();
        let (entry, from) = entry_of(from.as_fd(), path).unwrap().unwrap();
        let options = ExtractOptions::default();
        let Some(mut file) = Nameless::begin(&entry, to.as_fd(), &options).unwrap() else {
            println!("skipped: needs O_TMPFILE in the directory of temporary files");
            return;
        };
        let mut told = 0;
        let bytes = file.fill(&entry, from, &mut |bytes| told += bytes).unwrap();
        assert_eq!((bytes, told), (7, 7));
        assert_eq!(fs::read_dir(dir.path().join("to")).unwrap().count(), 0);
        file.link(to.as_fd(), b"name").unwrap();
        assert_eq!(file.link(to.as_fd(), b"name"), Err(Errno::EXIST));
        let made = dir.path().join("to/name");
        assert_eq!(fs::read(&made).unwrap(), b"content");
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o7777, 0o640);
    }

    #[test]
    fn the_callers_has_no_rights() {
        let dir = tempfile::tempdir().unwrap();
        let to = File::open(dir.path()).unwrap();
        let mut entry = Entry::new(EntryPath::parse(b"to").unwrap(), Kind::File { size: 0 });
        (entry.mode, entry.uid, entry.gid) = (0o6755, 1, 2);
        let options = ExtractOptions {
            owner: Owner::Caller,
            ..ExtractOptions::default()
        };
        let Some(mut file) = Nameless::begin(&entry, to.as_fd(), &options).unwrap() else {
            println!("skipped: needs O_TMPFILE in the directory of temporary files");
            return;
        };
        file.fill(&entry, None, &mut |_| {}).unwrap();
        file.link(to.as_fd(), b"name").unwrap();
        let mode = fs::metadata(dir.path().join("name")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o7777, 0o755);
    }
}
