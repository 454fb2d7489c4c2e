//! Entries and contents as a tar stream.

use crate::entry::{Change, Entry, Kind};
use crate::header::BLOCK;
use crate::numbers::{Field, put_number};
use crate::path::shown;
use crate::reader::padding;
use crate::sparse::Extent;
use std::io::{self, Error, ErrorKind, Write};

/// A writer of tar streams: ustar, with pax headers for values that ustar cannot hold. The same entries give the
/// same bytes.
///
/// After each [`Writer::entry`] the caller writes the announced number of bytes of content through [`Write`]. No
/// names of users and groups are written, nor any time except the mtime.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    whole_seconds: bool,
    name: Vec<u8>,
    /// Bytes of content that are still to come.
    left: u64,
    padding: u64,
}

/// Why an archive cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output failed.
    #[error("cannot write {path:?} to the archive")]
    Output {
        /// The entry.
        path: String,
        /// The cause.
        #[source]
        source: Error,
    },
    /// The content is shorter than the entry's size.
    #[error("the content of {path:?} is {missing} bytes shorter than its size")]
    Short {
        /// The entry.
        path: String,
        /// Number of missing bytes.
        missing: u64,
    },
    /// The name of an attribute cannot be written to a pax header.
    #[error("the extended attribute {name:?} of {path:?} has a name that no archive can hold")]
    Attribute {
        /// The entry.
        path: String,
        /// The attribute.
        name: String,
    },
    /// The extents of a sparse file are not sorted, or not within the file.
    #[error("the extents of {path:?} are not sorted and within the file")]
    Extents {
        /// The file.
        path: String,
    },
}

impl<W: Write> Writer<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W) -> Self {
        Self {
            out,
            whole_seconds: false,
            name: Vec::new(),
            left: 0,
            padding: 0,
        }
    }

    /// Cuts off fractions of seconds, as docker does: a fraction costs two blocks for each entry.
    #[must_use]
    pub fn whole_seconds(mut self) -> Self {
        self.whole_seconds = true;
        self
    }

    /// Begins an entry. For a file, content of the given size must follow.
    ///
    /// # Errors
    /// The content before is incomplete, the output fails, or an attribute cannot be written.
    pub fn entry(&mut self, entry: &Entry) -> Result<(), WriteError> {
        let mut name = entry.path.as_bytes().to_vec();
        if name.is_empty() {
            name.push(b'.');
        }
        if entry.kind == Kind::Directory {
            name.push(b'/');
        }
        let size = match entry.kind {
            Kind::File { size } => size,
            _ => 0,
        };
        let records = self.records(entry)?;
        self.member(&name, entry, size, records)
    }

    /// Begins a file with holes: a GNU sparse file of version 1.0. The content of the extents must follow, without
    /// holes.
    ///
    /// # Errors
    /// Those of [`Self::entry`]; and the extents are not sorted or not within the file's size.
    pub fn sparse_entry(&mut self, entry: &Entry, extents: &[Extent]) -> Result<(), WriteError> {
        let Kind::File { size } = entry.kind else {
            return self.entry(entry);
        };
        let mut stored = 0;
        let mut end = 0;
        for extent in extents {
            let next = extent
                .offset
                .checked_add(extent.len)
                .filter(|next| *next <= size && extent.offset >= end);
            end = next.ok_or_else(|| WriteError::Extents {
                path: shown(entry.path.as_bytes()),
            })?;
            stored += extent.len;
        }
        let map = sparse_map(extents, size);
        let mut records = self.records(entry)?;
        put_record(&mut records, b"GNU.sparse.major", b"1");
        put_record(&mut records, b"GNU.sparse.minor", b"0");
        put_record(&mut records, b"GNU.sparse.name", entry.path.as_bytes());
        put_record(&mut records, b"GNU.sparse.realsize", size.to_string().as_bytes());
        let base = entry.path.file_name().unwrap_or_default();
        let name = [b"GNUSparseFile.0/", base].concat();
        self.member(&name, entry, map.len() as u64 + stored, records)?;
        self.write_all(&map).map_err(|source| self.failed(source))
    }

    /// Writes a change: an entry, whose content must follow, or the file that stands for a whiteout.
    ///
    /// # Errors
    /// Those of [`Self::entry`].
    pub fn change(&mut self, change: &Change) -> Result<(), WriteError> {
        if let Change::Add(entry) = change {
            return self.entry(entry);
        }
        let mut entry = Entry::new(change.path().clone(), Kind::File { size: 0 });
        // docker's mode for whiteouts.
        entry.mode = 0;
        self.member(&change.name_in_layer(), &entry, 0, Vec::new())
    }

    /// Ends the archive and hands back the output, unflushed.
    ///
    /// # Errors
    /// The content before is incomplete, or the output fails.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.end_content()?;
        self.out
            .write_all(&[0; 2 * BLOCK])
            .map_err(|source| self.failed(source))?;
        Ok(self.out)
    }

    /// Builds the pax records for everything except names and the size.
    fn records(&self, entry: &Entry) -> Result<Vec<u8>, WriteError> {
        let mut records = Vec::new();
        let nanos = if self.whole_seconds { 0 } else { entry.mtime.nanos };
        if nanos != 0 || !Field::MTIME.holds(entry.mtime.secs) {
            put_record(
                &mut records,
                b"mtime",
                seconds(entry.mtime.secs, nanos).as_bytes(),
            );
        }
        for (key, field, number) in [("uid", Field::UID, entry.uid), ("gid", Field::GID, entry.gid)] {
            if !field.holds(i64::from(number)) {
                put_record(&mut records, key.as_bytes(), number.to_string().as_bytes());
            }
        }
        for (name, value) in &entry.xattrs {
            if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
                return Err(WriteError::Attribute {
                    path: shown(entry.path.as_bytes()),
                    name: shown(name),
                });
            }
            put_record(&mut records, &[b"SCHILY.xattr.", &name[..]].concat(), value);
        }
        Ok(records)
    }

    /// Writes the headers of a member.
    fn member(
        &mut self,
        name: &[u8],
        entry: &Entry,
        stored: u64,
        mut records: Vec<u8>,
    ) -> Result<(), WriteError> {
        self.end_content()?;
        self.name = name.to_vec();
        let split = split_name(name);
        if split.is_none() {
            put_record(&mut records, b"path", name);
        }
        let link = match &entry.kind {
            Kind::Symlink { target } => target,
            Kind::Hardlink { target } => target.as_bytes(),
            _ => &[],
        };
        if link.len() > 100 {
            put_record(&mut records, b"linkpath", link);
        }
        if i64::try_from(stored).map_or(true, |size| !Field::SIZE.holds(size)) {
            put_record(&mut records, b"size", stored.to_string().as_bytes());
        }
        let base = name
            .strip_suffix(b"/")
            .unwrap_or(name)
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default();
        let mut bytes = Vec::new();
        if !records.is_empty() {
            let name = [b"PaxHeaders.0/", base].concat();
            bytes.extend_from_slice(&extended_header(&name, records.len() as u64));
            bytes.extend_from_slice(&records);
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        let short = (&b""[..], &base[..base.len().min(100)]);
        bytes.extend_from_slice(&header(split.unwrap_or(short), entry, stored, link));
        self.out.write_all(&bytes).map_err(|source| self.failed(source))?;
        (self.left, self.padding) = (stored, padding(stored));
        Ok(())
    }

    fn end_content(&mut self) -> Result<(), WriteError> {
        if self.left > 0 {
            return Err(WriteError::Short {
                path: shown(&self.name),
                missing: self.left,
            });
        }
        let padding = usize::try_from(std::mem::take(&mut self.padding)).unwrap_or_default();
        self.out
            .write_all(&[0; BLOCK][..padding])
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: Error) -> WriteError {
        WriteError::Output {
            path: shown(&self.name),
            source,
        }
    }
}

/// Writes the content of the entry that was begun last.
impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(bytes.len(), |left| bytes.len().min(left));
        if most == 0 && !bytes.is_empty() {
            let message = format!("the content of {:?} is longer than its size", shown(&self.name));
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let count = self.out.write(&bytes[..most])?;
        self.left -= count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Splits a name into prefix and name of a ustar header; `None` if it does not fit.
fn split_name(name: &[u8]) -> Option<(&[u8], &[u8])> {
    if name.len() <= 100 {
        return Some((b"", name));
    }
    // The name may end in the slash of a directory, but must not be empty before it.
    let first = name.len() - 101;
    let slash = name[..name.len() - 1]
        .iter()
        .enumerate()
        .position(|(at, byte)| at >= first && *byte == b'/')?;
    (1..=155)
        .contains(&slash)
        .then(|| (&name[..slash], &name[slash + 1..]))
}

fn header((prefix, name): (&[u8], &[u8]), entry: &Entry, stored: u64, link: &[u8]) -> [u8; BLOCK] {
    let (flag, major, minor) = match entry.kind {
        Kind::File { .. } => (b'0', 0, 0),
        Kind::Hardlink { .. } => (b'1', 0, 0),
        Kind::Symlink { .. } => (b'2', 0, 0),
        Kind::Character { major, minor } => (b'3', major, minor),
        Kind::Block { major, minor } => (b'4', major, minor),
        Kind::Directory => (b'5', 0, 0),
        Kind::Fifo => (b'6', 0, 0),
    };
    let mut block = [0; BLOCK];
    put(&mut block, 0, name);
    put_number(&mut block, Field::MODE, i128::from(entry.mode & 0o7777));
    put_number(&mut block, Field::UID, i128::from(entry.uid));
    put_number(&mut block, Field::GID, i128::from(entry.gid));
    put_number(&mut block, Field::SIZE, i128::from(stored));
    put_number(&mut block, Field::MTIME, i128::from(entry.mtime.secs));
    block[156] = flag;
    put(&mut block, 157, &link[..link.len().min(100)]);
    if matches!(flag, b'3' | b'4') {
        put_number(&mut block, Field::MAJOR, i128::from(major));
        put_number(&mut block, Field::MINOR, i128::from(minor));
    }
    put(&mut block, 345, prefix);
    sealed(block)
}

fn extended_header(name: &[u8], size: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    put(&mut block, 0, &name[..name.len().min(100)]);
    put_number(&mut block, Field::MODE, 0o644);
    put_number(&mut block, Field::UID, 0);
    put_number(&mut block, Field::GID, 0);
    put_number(&mut block, Field::SIZE, i128::from(size));
    put_number(&mut block, Field::MTIME, 0);
    block[156] = b'x';
    sealed(block)
}

/// Adds magic, version and checksum to a header.
fn sealed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
    put(&mut block, 257, b"ustar\x0000");
    put(&mut block, 148, b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    put(&mut block, 148, format!("{sum:06o}\0 ").as_bytes());
    block
}

fn put(block: &mut [u8; BLOCK], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Appends `LENGTH KEY=VALUE\n`, where the length counts its own digits.
fn put_record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let digits = |number: usize| number.to_string().len();
    let mut len = rest + digits(rest);
    len = rest + digits(len);
    records.extend_from_slice(len.to_string().as_bytes());
    for part in [b" ", key, b"=", value, b"\n"] {
        records.extend_from_slice(part);
    }
}

/// Formats a time as decimal seconds, as short as it is exact.
fn seconds(secs: i64, nanos: u32) -> String {
    let (sign, whole, nanos) = match (secs < 0, nanos) {
        (true, 1..) => ("-", secs.unsigned_abs() - 1, 1_000_000_000 - nanos),
        (true, 0) => ("-", secs.unsigned_abs(), 0),
        (false, _) => ("", secs.unsigned_abs(), nanos),
    };
    if nanos == 0 {
        return format!("{sign}{whole}");
    }
    let fraction = format!("{nanos:09}");
    format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
}

/// Builds the map before the data, padded to whole blocks.
fn sparse_map(extents: &[Extent], size: u64) -> Vec<u8> {
    let ends_in_hole = extents.last().is_none_or(|last| last.offset + last.len < size);
    let end = ends_in_hole.then_some(Extent { offset: size, len: 0 });
    let all: Vec<_> = extents.iter().copied().chain(end).collect();
    let mut map = format!("{}\n", all.len());
    for extent in all {
        map.push_str(&format!("{}\n{}\n", extent.offset, extent.len));
    }
    let mut map = map.into_bytes();
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_themselves() {
        for value in 0..1200 {
            let mut record = Vec::new();
            put_record(&mut record, b"k", &vec![b'v'; value]);
            let digits = record.iter().position(|byte| *byte == b' ').unwrap();
            let len: usize = str::from_utf8(&record[..digits]).unwrap().parse().unwrap();
            assert_eq!(len, record.len());
        }
    }

    #[test]
    fn names_are_split_at_a_slash() {
        let long = |parts: &[usize]| {
            parts
                .iter()
                .map(|len| "n".repeat(*len))
                .collect::<Vec<_>>()
                .join("/")
        };
        for (parts, prefix) in [
            (&[100][..], Some(0)),
            (&[101], None),
            (&[50, 60], Some(50)),
            (&[155, 100], Some(155)),
            (&[156, 100], None),
            (&[155, 101], None),
            (&[60, 60, 60], Some(121)),
        ] {
            let name = long(parts);
            let split = split_name(name.as_bytes());
            assert_eq!(split.map(|(prefix, _)| prefix.len()), prefix, "{parts:?}");
        }
        let directory = long(&[10, 99]) + "/";
        assert_eq!(split_name(directory.as_bytes()).unwrap().1.len(), 100);
        let directory = long(&[10, 100]) + "/";
        assert_eq!(split_name(directory.as_bytes()), None);
    }

    #[test]
    fn times() {
        for (secs, nanos, text) in [
            (0, 0, "0"),
            (1, 500_000_000, "1.5"),
            (1, 1, "1.000000001"),
            (-1, 0, "-1"),
            (-1, 500_000_000, "-0.5"),
            (-2, 750_000_000, "-1.25"),
            (i64::MIN, 900_000_000, "-9223372036854775807.1"),
        ] {
            assert_eq!(seconds(secs, nanos), text);
        }
    }
}
