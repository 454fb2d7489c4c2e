//! All bytes of a tar besides its files' contents, kept so that exactly the same archive can be made again.
//!
//! A registry's digest covers every byte of a layer: paddings, the order of records, garbage after the end. A store
//! that keeps files apart from archives also keeps, for each archive, the sequence of [`Segment`]s that the
//! [`Reader`](crate::Reader) reported, and gets the archive back from [`Rebuild`]. (The idea is tar-split's.)

use std::io::{self, Error, ErrorKind, Read, Write};

/// A stretch of file content in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The file, as the number of its change in the order of the reader: counted from 0, whiteouts included.
    pub entry: u64,
    /// Offset in the file. A sparse file may have several stretches, an ordinary one has a single stretch from 0,
    /// an empty one has none.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub len: u64,
}

/// A stretch of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Bytes outside of files' contents: headers, padding, end blocks, and everything after them.
    Inline(Vec<u8>),
    /// Bytes of a file's content.
    Content(Content),
}

/// Receiver of a [`Reader`](crate::Reader)'s reports about the segments of an archive, in the archive's order and
/// without gaps.
pub trait Framing {
    /// Receives bytes outside of files' contents.
    ///
    /// # Errors
    /// An error ends the reading.
    fn inline(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Receives the position of a file's content, before the content is read.
    ///
    /// # Errors
    /// An error ends the reading.
    fn content(&mut self, content: Content) -> io::Result<()>;

    /// Receives bytes of a file's content once they are read, the holes of a sparse file excepted. Together with those of
    /// [`Self::inline`] they are all bytes of the archive, in its order.
    fn stored(&mut self, _: &[u8]) {}
}

/// Ignores the framing.
impl Framing for () {
    fn inline(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn content(&mut self, _: Content) -> io::Result<()> {
        Ok(())
    }
}

impl<F: Framing> Framing for &mut F {
    fn inline(&mut self, bytes: &[u8]) -> io::Result<()> {
        (**self).inline(bytes)
    }

    fn content(&mut self, content: Content) -> io::Result<()> {
        (**self).content(content)
    }

    fn stored(&mut self, bytes: &[u8]) {
        (**self).stored(bytes);
    }
}

impl Framing for Vec<Segment> {
    fn inline(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.last_mut() {
            Some(Segment::Inline(last)) => last.extend_from_slice(bytes),
            _ => self.push(Segment::Inline(bytes.to_vec())),
        }
        Ok(())
    }

    fn content(&mut self, content: Content) -> io::Result<()> {
        self.push(Segment::Content(content));
        Ok(())
    }
}

/// Maximum length of an inline record in bytes; bounds the allocations of [`FramingReader`].
const INLINE_MAX: usize = 64 << 10;
const INLINE: u8 = 0;
const CONTENT: u8 = 1;

/// A writer that stores segments in a file, in the order in which they come.
///
/// Format of a segment: a byte 0, a length and that number of bytes; or a byte 1 and entry, offset and length.
/// Numbers are LEB128. The caller should compress the file, because headers consist mostly of zeros.
#[derive(Debug)]
pub struct FramingWriter<W> {
    out: W,
    pending: Vec<u8>,
    /// The tag and the numbers of the last record, in memory that is used again for the next.
    head: Vec<u8>,
}

impl<W: Write> FramingWriter<W> {
    /// Writes to `out` in a few large pieces.
    pub fn new(out: W) -> Self {
        Self {
            out,
            pending: Vec::new(),
            head: Vec::new(),
        }
    }

    /// Writes the rest, and hands back the output, unflushed.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_pending()?;
        Ok(self.out)
    }

    fn write_pending(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.write_head(INLINE, &[self.pending.len() as u64])?;
            self.out.write_all(&self.pending)?;
            self.pending.clear();
        }
        Ok(())
    }

    fn write_head(&mut self, tag: u8, numbers: &[u64]) -> io::Result<()> {
        self.head.clear();
        self.head.push(tag);
        for number in numbers {
            put_number(&mut self.head, *number);
        }
        self.out.write_all(&self.head)
    }
}

impl<W: Write> Framing for FramingWriter<W> {
    fn inline(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(INLINE_MAX - self.pending.len()));
            self.pending.extend_from_slice(now);
            if self.pending.len() == INLINE_MAX {
                self.write_pending()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn content(&mut self, content: Content) -> io::Result<()> {
        self.write_pending()?;
        self.write_head(CONTENT, &[content.entry, content.offset, content.len])
    }
}

/// A reader of the segments that a [`FramingWriter`] wrote. It ends after the first error.
#[derive(Debug)]
pub struct FramingReader<R> {
    input: R,
    failed: bool,
}

impl<R: io::BufRead> FramingReader<R> {
    /// Reads `input` to its end.
    pub fn new(input: R) -> Self {
        Self { input, failed: false }
    }

    fn segment(&mut self) -> io::Result<Option<Segment>> {
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut tag = [0];
        self.input.read_exact(&mut tag)?;
        match tag {
            [INLINE] => {
                let len = usize::try_from(self.number()?).unwrap_or(usize::MAX);
                if len > INLINE_MAX {
                    return Err(invalid("framing: an inline record is too long"));
                }
                let mut bytes = vec![0; len];
                self.input.read_exact(&mut bytes)?;
                Ok(Some(Segment::Inline(bytes)))
            }
            [CONTENT] => {
                let (entry, offset, len) = (self.number()?, self.number()?, self.number()?);
                Ok(Some(Segment::Content(Content { entry, offset, len })))
            }
            _ => Err(invalid("framing: unknown record")),
        }
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.input.read_exact(&mut byte)?;
            let bits = u64::from(byte[0] & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(invalid("framing: a number is out of range"))
    }
}

impl<R: io::BufRead> Iterator for FramingReader<R> {
    type Item = io::Result<Segment>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let segment = self.segment().transpose();
        self.failed = matches!(segment, Some(Err(_)));
        segment
    }
}

fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}

/// A stream of exactly the bytes of the original archive.
///
/// `open` opens the content for a [`Content`]: exactly that stretch or more, beginning at its offset. Content that
/// is too short is an error, never a short archive.
#[derive(Debug)]
pub struct Rebuild<S, O, C> {
    segments: S,
    open: O,
    current: Current<C>,
}

#[derive(Debug)]
enum Current<C> {
    Inline { bytes: Vec<u8>, at: usize },
    Content { content: C, left: u64, entry: u64 },
}

impl<S, O, C> Rebuild<S, O, C>
where
    S: Iterator<Item = io::Result<Segment>>,
    O: FnMut(Content) -> io::Result<C>,
    C: Read,
{
    /// Takes the segments in the reported order, and a function that opens contents.
    pub fn new(segments: S, open: O) -> Self {
        Self {
            segments,
            open,
            current: Current::Inline {
                bytes: Vec::new(),
                at: 0,
            },
        }
    }
}

impl<S, O, C> Read for Rebuild<S, O, C>
where
    S: Iterator<Item = io::Result<Segment>>,
    O: FnMut(Content) -> io::Result<C>,
    C: Read,
{
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.current {
                _ if out.is_empty() => return Ok(0),
                Current::Inline { bytes, at } if *at < bytes.len() => {
                    let count = (&bytes[*at..]).read(out)?;
                    *at += count;
                    return Ok(count);
                }
                Current::Content { content, left, entry } if *left > 0 => {
                    let most = usize::try_from(*left).map_or(out.len(), |left| out.len().min(left));
                    let count = content.read(&mut out[..most])?;
                    if count == 0 {
                        let message = format!("the content of entry {entry} is {left} bytes too short");
                        return Err(Error::new(ErrorKind::UnexpectedEof, message));
                    }
                    *left -= count as u64;
                    return Ok(count);
                }
                _ => {}
            }
            self.current = match self.segments.next().transpose()? {
                None => return Ok(0),
                Some(Segment::Inline(bytes)) => Current::Inline { bytes, at: 0 },
                Some(Segment::Content(content)) => Current::Content {
                    content: (self.open)(content)?,
                    left: content.len,
                    entry: content.entry,
                },
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(segments: &[Segment]) -> Vec<u8> {
        let mut writer = FramingWriter::new(Vec::new());
        for segment in segments {
            match segment {
                Segment::Inline(bytes) => writer.inline(bytes).unwrap(),
                Segment::Content(content) => writer.content(*content).unwrap(),
            }
        }
        writer.finish().unwrap()
    }

    #[test]
    fn segments_read_back() {
        let content = Content {
            entry: 300,
            offset: 1 << 40,
            len: u64::MAX,
        };
        let long = vec![7; INLINE_MAX + 10];
        let bytes = encoded(&[
            Segment::Inline(long.clone()),
            Segment::Content(content),
            Segment::Inline(vec![1]),
        ]);
        let mut merged: Vec<Segment> = Vec::new();
        for segment in FramingReader::new(&*bytes) {
            match segment.unwrap() {
                Segment::Inline(bytes) => merged.inline(&bytes).unwrap(),
                Segment::Content(content) => merged.content(content).unwrap(),
            }
        }
        assert_eq!(
            merged,
            [
                Segment::Inline(long),
                Segment::Content(content),
                Segment::Inline(vec![1])
            ]
        );
    }

    #[test]
    fn broken_records_are_errors() {
        for bad in [
            &[2][..],
            &[0],
            &[0, 5, 1],
            &[0, 0xff, 0xff, 0x7f],
            &[1, 0, 0],
            &[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
        ] {
            let mut reader = FramingReader::new(bad);
            assert!(reader.next().unwrap().is_err(), "{bad:?}");
            assert!(reader.next().is_none());
        }
    }

    #[test]
    fn short_content_is_an_error() {
        let segments = [
            Segment::Inline(b"ab".to_vec()),
            Segment::Content(Content {
                entry: 0,
                offset: 0,
                len: 3,
            }),
        ];
        let rebuild = |content: &'static [u8]| {
            let mut out = Vec::new();
            let mut rebuild = Rebuild::new(segments.clone().into_iter().map(Ok), move |_| Ok(content));
            rebuild.read_to_end(&mut out).map(|_| out)
        };
        assert_eq!(rebuild(b"cdef").unwrap(), b"abcde");
        assert_eq!(rebuild(b"cd").unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
