//! The archive as a sequence of changes, each followed by its content.

use crate::entry::Change;
use crate::error::ReadError;
use crate::framing::{Content, Framing};
use crate::header::BLOCK;
use crate::limits::{LimitError, Limits};
use crate::path::shown_below_root;
use crate::read_ahead::{Piece, ReadAhead};
use crate::source::Source;
use crate::sparse::{Extent, SparseMap};
use std::io::{self, Read};

/// A reader of tar streams: v7, ustar, pax, GNU and star, with sparse files of every GNU kind.
///
/// [`Reader::next_change`] returns an entry. Then its content can be read, as a whole through [`Read`] (holes are
/// zeros) or piece by piece through [`Reader::next_chunk`] (holes are left out). Content that the caller leaves is
/// skipped.
///
/// Where readers differ, this one follows Go's `archive/tar`, since that made and checked the images: links,
/// devices and directories have no content whatever their size field says; global extended headers change nothing;
/// the archive may end with two zero blocks, with one, or with the stream; and bytes after the end are ignored.
/// Several entries of one name are several changes; the caller must let the last one win.
#[derive(Debug)]
pub struct Reader<R, F = ()> {
    pub(crate) source: Source<R>,
    pub(crate) framing: F,
    pub(crate) limits: Limits,
    pub(crate) whiteouts: bool,
    /// False if the input lacks the contents of files.
    contents: bool,
    /// Number of headers so far.
    pub(crate) headers: u64,
    /// Bytes of files so far, with holes.
    pub(crate) file_bytes: u64,
    /// Number of changes returned so far.
    changes: u64,
    pub(crate) current: Current,
    ended: bool,
}

/// State of reading the content of the present entry.
#[derive(Debug, Default)]
pub(crate) struct Current {
    /// Path of the entry, in memory that is used again for the next.
    path: Vec<u8>,
    pub(crate) map: SparseMap,
    /// Index of the present extent; those before it are done.
    extent: usize,
    /// Bytes done of that extent.
    within: u64,
    /// Position of [`Read`] in the file.
    position: u64,
    /// Bytes that pad the content to whole blocks.
    padding: u64,
}

impl Current {
    fn extent(&self) -> Option<Extent> {
        self.map.extents.get(self.extent).copied()
    }

    /// Records that `count` more bytes of the present extent are done.
    fn advance(&mut self, extent: Extent, count: u64) {
        self.within += count;
        if self.within == extent.len {
            self.extent += 1;
            self.within = 0;
        }
    }
}

impl<R: Read> Reader<R> {
    /// Reads `input`, which should be decompressed already.
    pub fn new(input: R, limits: Limits) -> Self {
        Self::with_framing(input, limits, ())
    }
}

impl<R: Read, F: Framing> Reader<R, F> {
    /// Reads `input` as [`Self::new`] does, and reports the archive's segments to `framing`.
    pub fn with_framing(input: R, limits: Limits, framing: F) -> Self {
        Self::of(Source::new(input), limits, framing)
    }

    fn of(source: Source<R>, limits: Limits, framing: F) -> Self {
        Self {
            source,
            framing,
            limits,
            whiteouts: true,
            contents: true,
            headers: 0,
            file_bytes: 0,
            changes: 0,
            current: Current::default(),
            ended: false,
        }
    }

    /// Treats `.wh.` files as ordinary files, for archives that are not layers (`ADD`, `import`, `cp`): every
    /// change is an [`Change::Add`].
    #[must_use]
    pub fn without_whiteouts(mut self) -> Self {
        self.whiteouts = false;
        self
    }

    /// Reads an input from which the stretches of [`Content`] were left out, as an iterator over [`crate::Segment`]s
    /// can do it: every file's content is a hole of the file's size.
    #[must_use]
    pub fn without_contents(mut self) -> Self {
        self.contents = false;
        self
    }

    /// Returns the next change; `None` after the last. By then the input has been read to its end, also behind the
    /// end of the archive.
    ///
    /// # Errors
    /// See [`ReadError`]; nothing can be read after one.
    pub fn next_change(&mut self) -> Result<Option<Change>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let change = self.skip_content().and_then(|()| self.next_member());
        // Nothing after a broken place in an archive can be trusted.
        self.ended = !matches!(change, Ok(Some(_)));
        change
    }

    /// Returns the number of the change that was returned last, as [`Content::entry`] counts.
    #[must_use]
    pub fn entry(&self) -> u64 {
        self.changes.saturating_sub(1)
    }

    /// Returns the parts of the present file that are stored; the rest, up to the file's size, is holes.
    #[must_use]
    pub fn content_extents(&self) -> &[Extent] {
        &self.current.map.extents
    }

    /// Returns the next stored bytes of the present file, with their offset in the file; `None` at its end.
    ///
    /// # Errors
    /// The input fails or is truncated.
    pub fn next_chunk(&mut self) -> Result<Option<(u64, &[u8])>, ReadError> {
        let Some(extent) = self.current.extent() else {
            return Ok(None);
        };
        let position = self.source.position();
        let offset = extent.offset + self.current.within;
        let bytes = self
            .source
            .take(extent.len - self.current.within)
            .map_err(|source| ReadError::Input { position, source })?;
        if bytes.is_empty() {
            return Err(ReadError::Truncated {
                position,
                within: shown_below_root(&self.current.path),
            });
        }
        self.framing.stored(bytes);
        self.current.advance(extent, bytes.len() as u64);
        self.current.position = offset + bytes.len() as u64;
        Ok(Some((offset, bytes)))
    }

    /// Hands back the input and the receiver of the framing, after [`Self::next_change`] has returned `None`.
    pub fn into_parts(self) -> (R, F) {
        (self.source.into_input(), self.framing)
    }

    /// Begins the content of a change, for [`Read`] and [`Self::next_chunk`], and reports its framing.
    pub(crate) fn begin(
        &mut self,
        change: Change,
        mut map: SparseMap,
        stored: u64,
    ) -> Result<Change, ReadError> {
        let entry = self.changes;
        self.changes += 1;
        for Extent { offset, len } in &map.extents {
            let content = Content {
                entry,
                offset: *offset,
                len: *len,
            };
            let position = self.source.position();
            self.framing
                .content(content)
                .map_err(|source| ReadError::Framing { position, source })?;
        }
        if !self.contents {
            map.extents.clear();
        }
        let mut path = std::mem::take(&mut self.current.path);
        path.clear();
        path.extend_from_slice(change.path().as_bytes());
        self.current = Current {
            path,
            map,
            padding: padding(stored),
            ..Current::default()
        };
        Ok(change)
    }

    /// Skips the content that the caller has left, and the padding.
    fn skip_content(&mut self) -> Result<(), ReadError> {
        while self.next_chunk()?.is_some() {}
        let padding = std::mem::take(&mut self.current.padding);
        self.current.map.clear();
        self.skip_inline(padding, "the padding of a file")
    }

    /// Skips bytes outside of files' contents.
    pub(crate) fn skip_inline(&mut self, mut len: u64, within: &str) -> Result<(), ReadError> {
        while len > 0 {
            let position = self.source.position();
            let bytes = self
                .source
                .take(len)
                .map_err(|source| ReadError::Input { position, source })?;
            if bytes.is_empty() {
                return Err(ReadError::Truncated {
                    position,
                    within: within.to_owned(),
                });
            }
            len -= bytes.len() as u64;
            self.framing
                .inline(bytes)
                .map_err(|source| ReadError::Framing { position, source })?;
        }
        Ok(())
    }

    /// Reads a block outside of files' contents; `None` at the end of the input.
    pub(crate) fn block(&mut self, within: &str) -> Result<Option<[u8; BLOCK]>, ReadError> {
        let position = self.source.position();
        let shown = self
            .source
            .peek(BLOCK)
            .map_err(|source| ReadError::Input { position, source })?;
        let Some(block) = shown.first_chunk::<BLOCK>().copied() else {
            if shown.is_empty() {
                return Ok(None);
            }
            let position = position + shown.len() as u64;
            return Err(ReadError::Truncated {
                position,
                within: within.to_owned(),
            });
        };
        self.framing
            .inline(&block)
            .map_err(|source| ReadError::Framing { position, source })?;
        self.source.consume(BLOCK);
        Ok(Some(block))
    }

    /// Reads the data of a special member, with its padding.
    pub(crate) fn special(&mut self, len: u64, within: &'static str) -> Result<Vec<u8>, ReadError> {
        LimitError::check(|| within.to_owned(), "its length", len, self.limits.header_bytes)
            .map_err(ReadError::Limit)?;
        let mut bytes = Vec::new();
        let mut left = len;
        while left > 0 {
            let position = self.source.position();
            let some = self
                .source
                .take(left)
                .map_err(|source| ReadError::Input { position, source })?;
            if some.is_empty() {
                return Err(ReadError::Truncated {
                    position,
                    within: within.to_owned(),
                });
            }
            self.framing
                .inline(some)
                .map_err(|source| ReadError::Framing { position, source })?;
            bytes.extend_from_slice(some);
            left -= some.len() as u64;
        }
        self.skip_inline(padding(len), within)?;
        Ok(bytes)
    }

    /// Reads everything after the end blocks. Any content is accepted there; it belongs to the framing.
    pub(crate) fn drain(&mut self) -> Result<(), ReadError> {
        loop {
            let position = self.source.position();
            LimitError::check(
                || "the archive".to_owned(),
                "its length",
                position,
                self.limits.total_bytes,
            )
            .map_err(ReadError::Limit)?;
            let bytes = self
                .source
                .take(u64::MAX)
                .map_err(|source| ReadError::Input { position, source })?;
            if bytes.is_empty() {
                return Ok(());
            }
            self.framing
                .inline(bytes)
                .map_err(|source| ReadError::Framing { position, source })?;
        }
    }
}

impl<R: Read, F: Framing> Reader<ReadAhead<R>, F> {
    /// Reads `input` as [`Self::with_framing`] does. Contents of files that are taken by [`Self::next_piece`] are not copied.
    pub fn lending(input: ReadAhead<R>, limits: Limits, framing: F) -> Self {
        Self::of(Source::with_capacity(input, BLOCK), limits, framing)
    }

    /// Returns the next stored bytes of the present file as [`Self::next_chunk`] does, shared with the input.
    ///
    /// # Errors
    /// The input fails or is truncated.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, ReadError> {
        let Some(extent) = self.current.extent() else {
            return Ok(None);
        };
        let position = self.source.position();
        let piece = self
            .source
            .lend(extent.len - self.current.within)
            .map_err(|source| ReadError::Input { position, source })?;
        if piece.is_empty() {
            let within = shown_below_root(&self.current.path);
            return Err(ReadError::Truncated { position, within });
        }
        self.framing.stored(&piece);
        self.current.position = extent.offset + self.current.within + piece.len() as u64;
        self.current.advance(extent, piece.len() as u64);
        Ok(Some(piece))
    }

    /// Returns the input, to ask it about what it has lent.
    pub fn input(&mut self) -> &mut ReadAhead<R> {
        self.source.input()
    }
}

/// Returns the number of bytes that pad `len` bytes to whole blocks.
pub(crate) fn padding(len: u64) -> u64 {
    len.wrapping_neg() % BLOCK as u64
}

/// Reads the content of the present file, with holes as zeros; empty for every other kind of entry.
impl<R: Read, F: Framing> Read for Reader<R, F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let fits = |len: u64| usize::try_from(len).map_or(out.len(), |len| out.len().min(len));
        let current = &mut self.current;
        let stored_at = current.extent().map(|extent| extent.offset + current.within);
        let hole_end = stored_at.unwrap_or(current.map.size);
        if current.position < hole_end {
            let count = fits(hole_end - current.position);
            out[..count].fill(0);
            current.position += count as u64;
            return Ok(count);
        }
        let Some(extent) = current.extent() else {
            return Ok(0);
        };
        let most = fits(extent.len - current.within);
        if most == 0 {
            return Ok(0);
        }
        let position = self.source.position();
        let count =
            (self.source.read(&mut out[..most])).map_err(|source| ReadError::Input { position, source })?;
        if count == 0 {
            return Err(ReadError::Truncated {
                position,
                within: shown_below_root(&current.path),
            }
            .into());
        }
        self.framing.stored(&out[..count]);
        current.advance(extent, count as u64);
        current.position += count as u64;
        Ok(count)
    }
}
