//! The files of a root, as an analysis reads them.

use rustix::fs::OFlags;
use std::cell::RefCell;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt as _;
use tote_builder::open_straight;
use tote_needs::Contents;

/// Files of a root, read in pieces for an analysis.
pub(crate) struct Contained<'a> {
    root: BorrowedFd<'a>,
    /// The file that was read last: files are read in many pieces.
    open: RefCell<Option<(Vec<u8>, File)>>,
}

impl<'a> Contained<'a> {
    pub(crate) fn new(root: BorrowedFd<'a>) -> Self {
        Self {
            root,
            open: RefCell::new(None),
        }
    }
}

impl Contents for Contained<'_> {
    fn read(&self, path: &[u8], offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let mut open = self.open.borrow_mut();
        let file = match open.take() {
            Some((held, file)) if held == path => file,
            _ => File::from(open_straight(self.root, path, OFlags::RDONLY | OFlags::NONBLOCK)?),
        };
        let rest = usize::try_from(file.metadata()?.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(rest)];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        *open = Some((path.to_vec(), file));
        Ok(bytes)
    }
}

/// Files of an analysis, with the first failure of a read that says nothing about the file. An analysis passes over what it
/// cannot read, so its result is whole only if [`Self::check`] says so.
pub(crate) struct Watched<C> {
    files: C,
    failure: RefCell<Option<Failure>>,
}

/// Failed read of a file.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The file's path, with a leading slash.
    pub(crate) path: String,
    /// Reason of the failure.
    pub(crate) source: Error,
}

impl<C> Watched<C> {
    pub(crate) fn new(files: C) -> Self {
        Self {
            files,
            failure: RefCell::new(None),
        }
    }

    /// Ends with the first failure of a read, except those which say that the file is absent or closed to this process.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.failure.borrow_mut().take().map_or(Ok(()), Err)
    }
}

impl<C: Contents> Contents for Watched<C> {
    fn read(&self, path: &[u8], offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let read = tote_sys::visible(self.files.read(path, offset, length));
        let absent = || Error::from(ErrorKind::NotFound);
        read.and_then(|bytes| bytes.ok_or_else(absent))
            .inspect_err(|error| self.note(path, error))
    }
}

impl<C> Watched<C> {
    fn note(&self, path: &[u8], error: &Error) {
        if error.kind() == ErrorKind::NotFound {
            return;
        }
        self.failure.borrow_mut().get_or_insert_with(|| Failure {
            path: format!("/{}", String::from_utf8_lossy(path)),
            source: match error.raw_os_error() {
                Some(number) => Error::from_raw_os_error(number),
                None => error.kind().into(),
            },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    /// Fails with the number that is the path.
    struct Failing;

    impl Contents for Failing {
        fn read(&self, path: &[u8], _: u64, _: usize) -> std::io::Result<Vec<u8>> {
            let number = std::str::from_utf8(path).unwrap().parse().unwrap();
            Err(Error::from_raw_os_error(number))
        }
    }

    #[test]
    fn the_first_failure_is_told() {
        let watched = Watched::new(Failing);
        let read = |errno: Errno| watched.read(errno.raw_os_error().to_string().as_bytes(), 0, 1);
        for absent in [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::ACCESS] {
            assert!(read(absent).is_err());
            watched.check().unwrap();
        }
        for failure in [Errno::MFILE, Errno::IO] {
            assert!(read(failure).is_err());
        }
        let first = watched.check().unwrap_err();
        assert_eq!(first.source.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }
}
