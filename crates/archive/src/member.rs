//! From headers to an entry: merges the headers that describe a member, and checks the result.

use crate::entry::{Change, Entry, Kind, Meaning, Timestamp};
use crate::error::{LinkError, ReadError};
use crate::framing::Framing;
use crate::header::{BLOCK, Format, Header, SparseBlock};
use crate::limits::LimitError;
use crate::path::{EntryPath, shown};
use crate::pax::{Pax, decimal};
use crate::reader::{Reader, padding};
use crate::sparse::{SparseError, SparseMap, pairs};
use std::borrow::Cow;
use std::io::Read;

/// Statements of the headers before a member about it.
#[derive(Default)]
struct Before {
    pax: Pax,
    /// Name in a GNU long name header.
    name: Option<Vec<u8>>,
    /// Target in a GNU long link header.
    link: Option<Vec<u8>>,
    any: bool,
}

impl<R: Read, F: Framing> Reader<R, F> {
    /// Reads headers up to the next member that is a change.
    pub(crate) fn next_member(&mut self) -> Result<Option<Change>, ReadError> {
        let mut before = Before::default();
        loop {
            let position = self.source.position();
            let Some(block) = self.block("a header")? else {
                // The stream may end without end blocks, as docker accepts it; but not between an extended header
                // and its member.
                if before.any {
                    return Err(ReadError::Truncated {
                        position,
                        within: "an extended header".to_owned(),
                    });
                }
                return Ok(None);
            };
            let header = Header(&block);
            if header.is_zero() {
                self.end()?;
                return Ok(None);
            }
            if !header.checksum_matches() {
                return Err(ReadError::Header {
                    position,
                    reason: "wrong checksum",
                });
            }
            self.headers += 1;
            self.limit("its number of headers", self.headers, self.limits.entries)?;
            if !self.is_special(&header, &mut before)? {
                match self.member(&header, std::mem::take(&mut before))? {
                    Some(change) => return Ok(Some(change)),
                    None => continue,
                }
            }
        }
    }

    /// Checks the end after a zero block: another zero block or the end of the stream must follow.
    fn end(&mut self) -> Result<(), ReadError> {
        let position = self.source.position();
        match self.block("the end blocks")? {
            Some(block) if !Header(&block).is_zero() => Err(ReadError::Header {
                position,
                reason: "it follows a single zero block",
            }),
            _ => self.drain(),
        }
    }

    /// Reads a header that only describes other members or the archive; returns whether it was one.
    fn is_special(&mut self, header: &Header<'_>, before: &mut Before) -> Result<bool, ReadError> {
        let flag = header.typeflag();
        if !matches!(flag, b'x' | b'g' | b'L' | b'K' | b'V') {
            return Ok(false);
        }
        let size = self.checked(header.size())?;
        match flag {
            b'x' => {
                let bytes = self.special(size, "an extended header")?;
                let pax = Pax::parse(&bytes, self.limits.xattr_bytes, self.limits.sparse_extents);
                before.pax = pax.map_err(|source| ReadError::Pax {
                    position: self.source.position(),
                    source,
                })?;
                before.any = true;
            }
            b'L' => {
                before.name = Some(c_string(self.special(size, "a long name")?));
                before.any = true;
            }
            b'K' => {
                before.link = Some(c_string(self.special(size, "a long link name")?));
                before.any = true;
            }
            _ => {
                self.limit(
                    "its length",
                    self.source.position().saturating_add(size),
                    self.limits.total_bytes,
                )?;
                self.skip_inline(size, "a global header")?;
                self.skip_inline(padding(size), "a global header")?;
            }
        }
        Ok(true)
    }

    /// Builds the change of a member from all of its headers; `None` for members that are ignored.
    fn member(&mut self, header: &Header<'_>, before: Before) -> Result<Option<Change>, ReadError> {
        let Before {
            mut pax, name, link, ..
        } = before;
        let stored = match pax.size {
            Some(size) => size,
            None => self.checked(header.size())?,
        };
        let sparse_name = pax.sparse.name.take().filter(|_| is_file(header.typeflag()));
        let name = sparse_name
            .or(name)
            .or(pax.path.take())
            .map_or_else(|| header.name(), Cow::Owned);
        let path = self.path(&name)?;
        let link = link
            .or(pax.link_path.take())
            .map_or_else(|| header.link_name().into(), Cow::Owned);
        let mut kind = self.kind(header, &name, &path, link)?;
        let (map, stored) = match &mut kind {
            Kind::File { size } => {
                let (map, stored) = self.sparse_map(header, &pax, stored, &name)?;
                *size = map.size;
                (map, stored)
            }
            _ => (SparseMap::default(), 0),
        };
        self.limit_file(&path, map.size, stored)?;
        let meaning = if self.whiteouts {
            Meaning::of(&path).map_err(|source| self.bad_path(source))?
        } else {
            Meaning::Add
        };
        let change = match meaning {
            Meaning::Add => {
                let entry = self.entry_of(header, path, kind, pax)?;
                return self.begin(Change::Add(entry), map, stored).map(Some);
            }
            Meaning::Aufs => None,
            Meaning::Whiteout(path) => Some(Change::Whiteout(path)),
            Meaning::Opaque(path) => Some(Change::Opaque(path)),
        };
        // The content of whiteouts is not used, so it belongs to the framing.
        self.skip_inline(stored, "a whiteout")?;
        self.skip_inline(padding(stored), "a whiteout")?;
        change
            .map(|change| self.begin(change, SparseMap::default(), 0))
            .transpose()
    }

    fn path(&self, name: &[u8]) -> Result<EntryPath, ReadError> {
        let limit = |what, value: usize, limit: usize| {
            LimitError::check(|| shown(name), what, value as u64, limit as u64).map_err(ReadError::Limit)
        };
        limit("the length of the path", name.len(), self.limits.path_length)?;
        let path = EntryPath::parse(name).map_err(|source| self.bad_path(source))?;
        limit(
            "the depth of the path",
            path.components().count(),
            self.limits.path_depth,
        )?;
        Ok(path)
    }

    fn kind(
        &self,
        header: &Header<'_>,
        name: &[u8],
        path: &EntryPath,
        link: Cow<'_, [u8]>,
    ) -> Result<Kind, ReadError> {
        let bad_link = |source| ReadError::Link {
            path: shown(path.as_bytes()),
            source,
        };
        let device = || self.checked(header.device());
        Ok(match header.typeflag() {
            // BSD's v7 marks directories only by a slash at the end of the name.
            0 if name.ends_with(b"/") => Kind::Directory,
            flag if is_file(flag) => Kind::File { size: 0 },
            b'1' | b'2' if link.is_empty() => return Err(bad_link(LinkError::Empty)),
            b'1' | b'2' if link.len() > self.limits.link_length => {
                self.limit(
                    "the length of a link",
                    link.len() as u64,
                    self.limits.link_length as u64,
                )?;
                return Err(bad_link(LinkError::Empty));
            }
            b'1' => {
                let target = EntryPath::parse(&link).map_err(|error| bad_link(error.into()))?;
                if target.is_root() {
                    return Err(bad_link(LinkError::Empty));
                }
                Kind::Hardlink { target }
            }
            b'2' => Kind::Symlink {
                target: link.into_owned(),
            },
            b'3' => device().map(|(major, minor)| Kind::Character { major, minor })?,
            b'4' => device().map(|(major, minor)| Kind::Block { major, minor })?,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            flag => {
                return Err(ReadError::Type {
                    path: shown(name),
                    typeflag: char::from(flag),
                });
            }
        })
    }

    /// Determines which parts of the file follow, and their size in bytes.
    fn sparse_map(
        &mut self,
        header: &Header<'_>,
        pax: &Pax,
        stored: u64,
        name: &[u8],
    ) -> Result<(SparseMap, u64), ReadError> {
        let bad = |source| ReadError::Sparse {
            path: shown(name),
            source,
        };
        let sparse = &pax.sparse;
        if header.typeflag() == b'S' && header.format() == Format::Gnu {
            let (list, size) = self.old_sparse(header, name)?;
            return Ok((SparseMap::new(list, size, stored).map_err(bad)?, stored));
        }
        if sparse.is_version_1() {
            let size = sparse.real_size.ok_or(SparseError::Malformed).map_err(bad)?;
            let (list, used) = self.stored_map(stored, name)?;
            let stored = stored - used;
            return Ok((SparseMap::new(list, size, stored).map_err(bad)?, stored));
        }
        let known_version = sparse.major.unwrap_or(0) == 0 && sparse.minor.unwrap_or(0) <= 1;
        match sparse.real_size {
            Some(size) if known_version && (sparse.has_map() || stored == 0) => {
                let map = pairs(&sparse.map).and_then(|pairs| SparseMap::new(pairs, size, stored));
                Ok((map.map_err(bad)?, stored))
            }
            _ => {
                let map = std::mem::take(&mut self.current.map).into_whole(stored);
                Ok((map, stored))
            }
        }
    }

    /// Reads the map of an old GNU sparse file from the header and the blocks that follow it.
    fn old_sparse(&mut self, header: &Header<'_>, name: &[u8]) -> Result<(Vec<(u64, u64)>, u64), ReadError> {
        let bad = |source| ReadError::Sparse {
            path: shown(name),
            source,
        };
        let (first, size) = self.checked(header.sparse())?;
        let mut continues = first.continues;
        let mut list = first
            .pairs()
            .collect::<Result<Vec<_>, _>>()
            .or_else(|error| self.checked(Err(error)))?;
        while continues {
            let position = self.source.position();
            let Some(block) = self.block("the map of a sparse file")? else {
                return Err(ReadError::Truncated {
                    position,
                    within: shown(name),
                });
            };
            let block = SparseBlock::of(&block);
            for pair in block.pairs() {
                list.push(self.checked(pair)?);
            }
            SparseMap::check_count(list.len(), self.limits.sparse_extents).map_err(bad)?;
            // A chain of empty blocks would never reach the limit on extents.
            self.headers += 1;
            self.limit("its number of headers", self.headers, self.limits.entries)?;
            continues = block.continues;
        }
        Ok((list, size))
    }

    /// Reads the map before the data of a 1.0 sparse file: lines of decimals, padded to whole blocks. Also returns
    /// how many of the stored bytes the map took.
    fn stored_map(&mut self, stored: u64, name: &[u8]) -> Result<(Vec<(u64, u64)>, u64), ReadError> {
        /// Length of two numbers of at most 20 digits, each with a newline.
        const PAIR: usize = 42;
        let bad = |source| ReadError::Sparse {
            path: shown(name),
            source,
        };
        let most = PAIR.saturating_mul(self.limits.sparse_extents.saturating_add(1));
        let (mut text, mut used, mut numbers) = (Vec::new(), 0_u64, Vec::new());
        let (mut parsed, mut wanted) = (0, 1_usize);
        while numbers.len() < wanted {
            if text.len() > most || used + BLOCK as u64 > stored {
                return Err(bad(SparseError::Malformed));
            }
            let position = self.source.position();
            let Some(block) = self.block("the map of a sparse file")? else {
                return Err(ReadError::Truncated {
                    position,
                    within: shown(name),
                });
            };
            used += BLOCK as u64;
            text.extend_from_slice(&block);
            while numbers.len() < wanted
                && let Some(len) = text[parsed..].iter().position(|byte| *byte == b'\n')
            {
                let number: u64 = decimal(&text[parsed..parsed + len]).ok_or(bad(SparseError::Malformed))?;
                parsed += len + 1;
                if numbers.is_empty() {
                    let count = usize::try_from(number).unwrap_or(usize::MAX);
                    SparseMap::check_count(count, self.limits.sparse_extents).map_err(bad)?;
                    wanted = 1 + count.saturating_mul(2);
                }
                numbers.push(number);
            }
        }
        let list = pairs(&numbers[1..]).map_err(bad)?.collect();
        Ok((list, used))
    }

    fn limit_file(&mut self, path: &EntryPath, size: u64, stored: u64) -> Result<(), ReadError> {
        LimitError::check(|| path.to_string(), "the size", size, self.limits.file_size)
            .map_err(ReadError::Limit)?;
        self.file_bytes = self.file_bytes.saturating_add(size);
        let end = self.source.position().saturating_add(stored);
        self.limit("its length", self.file_bytes.max(end), self.limits.total_bytes)
    }

    fn entry_of(
        &self,
        header: &Header<'_>,
        path: EntryPath,
        kind: Kind,
        pax: Pax,
    ) -> Result<Entry, ReadError> {
        let or = |given: Option<u32>, field| given.map_or_else(|| self.checked(field), Ok);
        Ok(Entry {
            path,
            kind,
            mode: self.checked(header.mode())?,
            uid: or(pax.uid, header.uid())?,
            gid: or(pax.gid, header.gid())?,
            mtime: match pax.mtime {
                Some(mtime) => mtime,
                None => Timestamp {
                    secs: self.checked(header.mtime())?,
                    nanos: 0,
                },
            },
            xattrs: pax.xattrs,
        })
    }

    fn limit(&self, what: &'static str, value: u64, limit: u64) -> Result<(), ReadError> {
        LimitError::check(|| "the archive".to_owned(), what, value, limit).map_err(ReadError::Limit)
    }

    fn bad_path(&self, source: crate::path::PathError) -> ReadError {
        ReadError::Path {
            position: self.source.position(),
            source,
        }
    }

    /// Adds the position of the header that was read last to an error in it.
    fn checked<T>(&self, value: Result<T, crate::header::BadNumber>) -> Result<T, ReadError> {
        let position = self.source.position().saturating_sub(BLOCK as u64);
        value.map_err(|bad| ReadError::Number {
            position,
            field: bad.0,
        })
    }
}

/// True for old and new files, contiguous ones, and GNU's sparse ones.
fn is_file(flag: u8) -> bool {
    matches!(flag, 0 | b'0' | b'7' | b'S')
}

/// Cuts the bytes off at the first NUL.
fn c_string(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    bytes
}
