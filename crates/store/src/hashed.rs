//! The digest of a layer's archive. The parser computes it where the processor has instructions for SHA-256, and elsewhere the
//! thread that reads ([`crate::intake`]).

use sha2::{Digest as _, Sha256};
use std::io::{Read, Result, Write};
use tote_archive::{Content, Framing, FramingWriter};
use tote_image::Digest;

/// True if the processor has instructions for SHA-256.
pub(crate) fn has_sha256() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1");
    #[cfg(target_arch = "aarch64")]
    let has = std::arch::is_aarch64_feature_detected!("sha2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has = false;
    has
}

/// Hash and number of the bytes of an archive so far.
#[derive(Debug, Default)]
struct Archive {
    hash: Sha256,
    size: u64,
}

impl Archive {
    fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
    }

    /// Returns the digest and the size.
    fn finish(self) -> (Digest, u64) {
        (Digest::sha256(self.hash.finalize().into()), self.size)
    }
}

/// A reader that hashes and counts the bytes read, or leaves that to the parser.
#[derive(Debug)]
pub(crate) struct HashedInput<R> {
    input: R,
    archive: Option<Archive>,
}

impl<R> HashedInput<R> {
    pub(crate) fn new(input: R, hashes: bool) -> Self {
        Self {
            input,
            archive: hashes.then(Archive::default),
        }
    }

    /// Returns the digest and the size, if they were computed here.
    pub(crate) fn finish(self) -> Option<(Digest, u64)> {
        self.archive.map(Archive::finish)
    }
}

impl<R: Read> Read for HashedInput<R> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let read = self.input.read(out)?;
        if let Some(archive) = &mut self.archive {
            archive.update(&out[..read]);
        }
        Ok(read)
    }
}

/// A writer of a framing that hashes the archive, or leaves that to the reader.
#[derive(Debug)]
pub(crate) struct HashedFraming<W> {
    framing: FramingWriter<W>,
    archive: Option<Archive>,
}

impl<W: Write> HashedFraming<W> {
    /// Writes the framing to `out`.
    pub(crate) fn new(out: W, hashes: bool) -> Self {
        Self {
            framing: FramingWriter::new(out),
            archive: hashes.then(Archive::default),
        }
    }

    /// Writes the rest, and hands back the output and, if they were computed here, the digest of the archive and its size.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn finish(self) -> Result<(W, Option<(Digest, u64)>)> {
        Ok((self.framing.finish()?, self.archive.map(Archive::finish)))
    }
}

impl<W: Write> Framing for HashedFraming<W> {
    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        self.stored(bytes);
        self.framing.inline(bytes)
    }

    fn content(&mut self, content: Content) -> Result<()> {
        self.framing.content(content)
    }

    fn stored(&mut self, bytes: &[u8]) {
        if let Some(archive) = &mut self.archive {
            archive.update(bytes);
        }
    }
}
