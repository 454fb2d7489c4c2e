//! Compressed streams: recognising the format, reading and writing.

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use lzma_rust2::XzReader;
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Error, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Format of a compressed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not compressed.
    None,
    /// gzip, RFC 1952: the format of most layers.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
    /// xz; only read, for `ADD` and `import`.
    Xz,
    /// bzip2; only read, for `ADD` and `import`.
    Bzip2,
}

impl Compression {
    /// Number of bytes that [`Self::sniff`] needs.
    pub const MAGIC_LEN: usize = 6;

    /// Recognises the format by the first bytes of a stream. An unknown start means an uncompressed stream.
    #[must_use]
    pub fn sniff(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A skippable frame. It has no content, but other programs keep tables there (zstd:chunked, seekable
            // zstd).
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            _ => Self::None,
        }
    }
}

/// Limits on the size of a decompressed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Maximum number of bytes for each compressed byte, checked beyond [`Self::free`] bytes.
    pub ratio: u64,
    /// Size in bytes below which the ratio is not checked: a file of zeros compresses well.
    pub free: u64,
    /// Maximum size in bytes.
    pub total: u64,
}

impl Default for Expansion {
    /// Returns limits that every gzip stream meets, whose ratio is at most 1032; so the ratio concerns only the
    /// other formats.
    fn default() -> Self {
        Self {
            ratio: 2000,
            free: 1 << 30,
            total: 4 << 40,
        }
    }
}

/// Memory that an xz stream may ask for, in KiB: `xz -9` needs 65 MiB, and the format allows 4 GiB.
const XZ_MEMORY: u32 = 256 << 10;
/// Size of the input buffer in bytes.
const CAPACITY: usize = 64 << 10;

/// A decompressed stream, limited by an [`Expansion`].
pub struct Decoder<R: Read> {
    codec: Codec<R>,
    compression: Compression,
    limits: Expansion,
    read: Arc<AtomicU64>,
    written: u64,
}

type Input<R> = BufReader<Counted<io::Chain<Cursor<Vec<u8>>, R>>>;

enum Codec<R: Read> {
    None(Input<R>),
    Gzip(Box<MultiGzDecoder<Input<R>>>),
    Zstd(Box<zstd::Decoder<'static, Input<R>>>),
    Xz(Box<XzReader<Input<R>>>),
    Bzip2(Box<MultiBzDecoder<Input<R>>>),
}

/// A reader that counts the bytes read, also while a codec owns it.
struct Counted<R> {
    input: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(out)?;
        self.count.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}

impl<R: Read> Decoder<R> {
    /// Looks at the first bytes of `input` and decompresses the stream if it is compressed.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub fn new(mut input: R, limits: Expansion) -> io::Result<Self> {
        let mut start = Vec::with_capacity(Compression::MAGIC_LEN);
        input
            .by_ref()
            .take(Compression::MAGIC_LEN as u64)
            .read_to_end(&mut start)?;
        let compression = Compression::sniff(&start);
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            input: Cursor::new(start).chain(input),
            count: Arc::clone(&read),
        };
        let input = BufReader::with_capacity(CAPACITY, counted);
        let codec = match compression {
            Compression::None => Codec::None(input),
            Compression::Gzip => Codec::Gzip(Box::new(MultiGzDecoder::new(input))),
            Compression::Zstd => Codec::Zstd(Box::new(zstd::Decoder::with_buffer(input)?)),
            Compression::Xz => Codec::Xz(Box::new(XzReader::new_mem_limit(input, true, XZ_MEMORY))),
            Compression::Bzip2 => Codec::Bzip2(Box::new(MultiBzDecoder::new(input))),
        };
        Ok(Self {
            codec,
            compression,
            limits,
            read,
            written: 0,
        })
    }

    /// Returns the format of the stream.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Reads the input behind the end of the compressed stream, because a digest covers all bytes of the input.
    ///
    /// # Errors
    /// Those of the input.
    pub fn drain(&mut self) -> io::Result<()> {
        let input = match &mut self.codec {
            Codec::None(input) => input,
            Codec::Gzip(codec) => codec.get_mut(),
            Codec::Zstd(codec) => codec.get_mut(),
            Codec::Xz(codec) => codec.inner_mut(),
            Codec::Bzip2(codec) => codec.get_mut(),
        };
        loop {
            match input.fill_buf()?.len() {
                0 => return Ok(()),
                count => input.consume(count),
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        let over = |what| Err(Error::new(ErrorKind::InvalidData, what));
        if self.written > self.limits.total {
            return over(format!(
                "the decompressed stream is over the limit of {} bytes",
                self.limits.total
            ));
        }
        let ratio = self.limits.ratio;
        if self.written > self.limits.free && self.written / ratio.max(1) > self.read.load(Relaxed) {
            return over(format!(
                "the stream decompresses to more than {ratio} times its size"
            ));
        }
        Ok(())
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.codec {
            // An uncompressed stream cannot expand.
            Codec::None(input) => return input.read(out),
            Codec::Gzip(codec) => codec.read(out),
            Codec::Zstd(codec) => codec.read(out),
            Codec::Xz(codec) => codec.read(out),
            Codec::Bzip2(codec) => codec.read(out),
        }?;
        self.written = self.written.saturating_add(count as u64);
        self.check()?;
        Ok(count)
    }
}

impl<R: Read> fmt::Debug for Decoder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Decoder");
        debug
            .field("compression", &self.compression)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

/// A writer that compresses. The same bytes give the same stream: no times or names are written.
pub struct Encoder<W: Write>(Sink<W>);

enum Sink<W: Write> {
    None(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Encoder<W> {
    /// Compresses to `out`; without a level, with the format's default.
    ///
    /// # Errors
    /// xz and bzip2 are not supported for writing.
    pub fn new(out: W, compression: Compression, level: Option<u32>) -> io::Result<Self> {
        Ok(Self(match compression {
            Compression::None => Sink::None(out),
            Compression::Gzip => {
                let level = level.map_or_else(flate2::Compression::default, |level| {
                    flate2::Compression::new(level.min(9))
                });
                Sink::Gzip(GzEncoder::new(out, level))
            }
            Compression::Zstd => {
                let level = level
                    .and_then(|level| i32::try_from(level).ok())
                    .unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
                let mut encoder = zstd::Encoder::new(out, level.min(22))?;
                encoder.include_checksum(true)?;
                Sink::Zstd(encoder)
            }
            Compression::Xz | Compression::Bzip2 => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "archives are compressed with gzip or zstd only",
                ));
            }
        }))
    }

    /// Ends the stream and hands back the output, unflushed.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            Sink::None(out) => Ok(out),
            Sink::Gzip(encoder) => encoder.finish(),
            Sink::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Sink::None(out) => out.write(bytes),
            Sink::Gzip(encoder) => encoder.write(bytes),
            Sink::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Sink::None(out) => out.flush(),
            Sink::Gzip(encoder) => encoder.flush(),
            Sink::Zstd(encoder) => encoder.flush(),
        }
    }
}

impl<W: Write> fmt::Debug for Encoder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Sink::None(_) => "Encoder(None)",
            Sink::Gzip(_) => "Encoder(Gzip)",
            Sink::Zstd(_) => "Encoder(Zstd)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIGHT: Expansion = Expansion {
        ratio: 100,
        free: 10_000,
        total: 1_000_000,
    };

    fn compressed(bytes: &[u8], compression: Compression) -> Vec<u8> {
        let mut encoder = Encoder::new(Vec::new(), compression, None).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decompressed(bytes: &[u8], limits: Expansion) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Decoder::new(bytes, limits)?.read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn what_is_written_reads_back() {
        let bytes: Vec<u8> = (0..200_000_u32).flat_map(|at| (at / 7).to_le_bytes()).collect();
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            for bytes in [&b""[..], b"a", &bytes] {
                let stream = compressed(bytes, compression);
                assert_eq!(Compression::sniff(&stream), compression);
                assert!(
                    decompressed(&stream, Expansion::default()).unwrap() == bytes,
                    "{compression:?}"
                );
                assert_eq!(stream, compressed(bytes, compression));
            }
        }
    }

    #[test]
    fn several_members_and_frames_are_one_stream() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let stream = [compressed(b"one ", compression), compressed(b"two", compression)].concat();
            assert_eq!(decompressed(&stream, TIGHT).unwrap(), b"one two");
        }
        let skippable = b"\x51\x2a\x4d\x18\x03\0\0\0xyz";
        let frame = compressed(b"content", Compression::Zstd);
        for stream in [[skippable, &frame[..]].concat(), [&frame[..], skippable].concat()] {
            assert_eq!(decompressed(&stream, TIGHT).unwrap(), b"content");
        }
    }

    #[test]
    fn xz_and_bzip2_are_read() {
        // Made by `printf hello | xz` and `| bzip2`.
        let xz = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01\x16\0\0\0\x74\x2f\xe5\xa3\x01\0\x04hello\0\0\0\0\xb1\x37\xb9\xdb\xe5\xda\x1e\x9b\0\x01\x1d\x05\xb8\x2d\x80\xaf\x1f\xb6\xf3\x7d\x01\0\0\0\0\x04YZ";
        let bzip2 = b"BZh91AY&SY\x19\x31\x65\x3d\0\0\0\x81\0\x02\x44\xa0\0\x21\x9a\x68\x33\x4d\x07\x33\x8b\xb9\x22\x9c\x28\x48\x0c\x98\xb2\x9e\x80";
        assert_eq!(decompressed(xz, TIGHT).unwrap(), b"hello");
        assert_eq!(decompressed(bzip2, TIGHT).unwrap(), b"hello");
        assert!(Encoder::new(Vec::new(), Compression::Xz, None).is_err());
    }

    #[test]
    fn bombs_are_refused() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let bomb = compressed(&vec![0; 900_000], compression);
            let error = decompressed(&bomb, TIGHT).unwrap_err().to_string();
            assert!(error.contains("100 times"), "{error}");
            let noise: Vec<u8> = (0..600_000_u64)
                .flat_map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).to_le_bytes())
                .collect();
            let error = decompressed(&compressed(&noise, compression), TIGHT)
                .unwrap_err()
                .to_string();
            assert!(error.contains("limit of 1000000 bytes"), "{error}");
            assert!(decompressed(&bomb, Expansion::default()).is_ok());
        }
    }

    #[test]
    fn broken_streams_are_errors() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let stream = compressed(
                b"some content that is long enough to be cut off somewhere",
                compression,
            );
            for len in Compression::MAGIC_LEN..stream.len() {
                assert!(
                    decompressed(&stream[..len], TIGHT).is_err(),
                    "{compression:?} {len}"
                );
            }
            let mut flipped = stream.clone();
            let last = flipped.len() - 1;
            flipped[last - 2] ^= 1;
            assert!(decompressed(&flipped, TIGHT).is_err(), "{compression:?}");
        }
    }
}
