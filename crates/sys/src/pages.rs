//! Anonymous memory whose pages can be returned to the kernel while the mapping stays: mmap(2), madvise(2).

use crate::Errno;
use crate::outcome::best_effort;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Zeroed bytes in a mapping of their own: a page takes memory from its first write until [`Pages::discard`].
#[derive(Debug)]
pub struct Pages {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, as a `Box<[u8]>`'s memory does.
unsafe impl Send for Pages {}
// SAFETY: the mapping belongs to this value alone; a shared reference only reads it.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps this many bytes, at least one.
    ///
    /// # Errors
    /// mmap(2)'s.
    pub fn new(length: usize) -> Result<Self, Errno> {
        let length = length.max(1);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: with a null address the kernel chooses a place where nothing is mapped.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        Ok(Self { start, length })
    }

    /// Gives the memory back; every byte is 0 afterwards.
    pub fn discard(&mut self) {
        // SAFETY: the range is the whole of this mapping, which is private, anonymous and borrowed exclusively. A
        // kernel that refuses leaves the bytes as they are, which are initialised as well.
        best_effort(unsafe { madvise(self.start.as_ptr(), self.length, Advice::LinuxDontNeed) });
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `length` bytes long, initialised by the kernel, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.length) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `length` initialised bytes that live as long as `self`, which is borrowed
        // exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.length) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this length, and nothing borrows it any more.
        best_effort(unsafe { munmap(self.start.as_ptr(), self.length) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_until_they_are_discarded() {
        let mut pages = Pages::new(10_000).unwrap();
        assert_eq!(pages.len(), 10_000);
        assert!(pages.iter().all(|byte| *byte == 0));
        pages.fill(7);
        assert!(pages.iter().all(|byte| *byte == 7));
        pages.discard();
        assert!(pages.iter().all(|byte| *byte == 0), "usable after that");
        assert_eq!(Pages::new(0).unwrap().len(), 1);
    }
}
