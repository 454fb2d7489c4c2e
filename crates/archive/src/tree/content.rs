//! The source of a new file's content: an archive, or another file.

use super::error::ExtractError;
use crate::entry::Entry;
use crate::framing::Framing;
use crate::reader::Reader;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

/// A source of content for new files.
pub(crate) trait Contents {
    /// Fills the new, empty file of an entry; returns the number of bytes written, holes not counted.
    fn fill(&mut self, file: &OwnedFd, entry: &Entry, size: u64) -> Result<u64, ExtractError>;
}

impl<R: Read, F: Framing> Contents for Reader<R, F> {
    fn fill(&mut self, file: &OwnedFd, entry: &Entry, size: u64) -> Result<u64, ExtractError> {
        let failed = write_failed(entry);
        let (mut end, mut bytes) = (0, 0);
        while let Some((offset, chunk)) = self.next_chunk().map_err(ExtractError::Read)? {
            write_at(file, chunk, offset).map_err(&failed)?;
            end = offset + chunk.len() as u64;
            bytes += chunk.len() as u64;
        }
        if end < size {
            rustix::fs::ftruncate(file, size).map_err(&failed)?;
        }
        Ok(bytes)
    }
}

/// Maximum bytes copied between two reports of progress.
const PORTION: usize = 4 << 20;

/// Size of the buffer in bytes where the kernel cannot copy by itself.
const BUFFER: usize = 256 << 10;

/// Another file, of which the new one becomes a copy. Holes are kept, and blocks are shared if the file system can.
pub(crate) struct Original<'a> {
    pub(crate) file: Option<File>,
    /// Callback for progress: the number of bytes copied since the last call.
    pub(crate) told: &'a mut dyn FnMut(u64),
    /// True while copy_file_range(2) works between the two file systems.
    pub(crate) by_kernel: &'a mut bool,
    pub(crate) buffer: &'a mut Vec<u8>,
}

impl Contents for Original<'_> {
    /// Copies the file. A file that grows meanwhile is copied up to its former size, one that shrinks up to its
    /// end.
    fn fill(&mut self, file: &OwnedFd, entry: &Entry, size: u64) -> Result<u64, ExtractError> {
        let Some(from) = self.file.take() else {
            return Ok(0);
        };
        let read_failed = |source| ExtractError::Original {
            path: entry.path.clone(),
            source,
        };
        let stat = rustix::fs::fstat(&from).map_err(read_failed)?;
        let has_holes = stat.st_blocks.unsigned_abs().saturating_mul(512) < size;
        let (mut at, mut bytes, mut ended) = (0, 0, false);
        while at < size && !ended {
            let (start, end) = match has_holes {
                true => match next_data(&from, at, size).map_err(read_failed)? {
                    Some(data) => data,
                    None => break,
                },
                false => (0, size),
            };
            let copied = self.copy(&from, file, entry, (start, end))?;
            ended = copied < end - start;
            bytes += copied;
            at = end;
        }
        if has_holes && !ended {
            rustix::fs::ftruncate(file, size).map_err(write_failed(entry))?;
        }
        Ok(bytes)
    }
}

impl Original<'_> {
    /// Copies the available bytes of a part; returns their number.
    fn copy(
        &mut self,
        from: &File,
        to: &OwnedFd,
        entry: &Entry,
        (start, end): (u64, u64),
    ) -> Result<u64, ExtractError> {
        let mut at = start;
        while at < end {
            let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(PORTION);
            let copied = if *self.by_kernel {
                let (mut input, mut output) = (at, at);
                match rustix::fs::copy_file_range(from, Some(&mut input), to, Some(&mut output), most) {
                    // copy_file_range(2) copies nothing from files of procfs and its kin, whose content is
                    // generated when it is read.
                    Ok(0) | Err(_) => {
                        *self.by_kernel = false;
                        continue;
                    }
                    Ok(copied) => copied,
                }
            } else {
                self.buffer.resize(BUFFER, 0);
                let part = &mut self.buffer[..most.min(BUFFER)];
                let read = match rustix::io::pread(from, &mut *part, at) {
                    Err(Errno::INTR) => continue,
                    other => other.map_err(|source| ExtractError::Original {
                        path: entry.path.clone(),
                        source,
                    })?,
                };
                write_at(to, &part[..read], at).map_err(write_failed(entry))?;
                read
            };
            if copied == 0 {
                break;
            }
            at += copied as u64;
            (self.told)(copied as u64);
        }
        Ok(at - start)
    }
}

/// Returns start and end of the next data in a file with holes; `None` if only a hole follows.
fn next_data(file: &File, at: u64, size: u64) -> Result<Option<(u64, u64)>, Errno> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return Ok(None),
        // Not every file system supports SEEK_DATA.
        Err(Errno::INVAL) => return Ok(Some((at, size))),
        other => other?,
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some((start, end.min(size))).filter(|(start, end)| start < end))
}

fn write_failed(entry: &Entry) -> impl Fn(Errno) -> ExtractError + use<> {
    let path = entry.path.clone();
    move |source| ExtractError::Write {
        path: path.clone(),
        source,
    }
}

fn write_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
