//! The files of a root, as an analysis reads them.

use rustix::fs::OFlags;
use std::cell::RefCell;
use std::fs::File;
use std::io::ErrorKind;
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
