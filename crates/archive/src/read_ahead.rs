//! Reading and decompressing in a thread of its own, ahead of the consumer.
//!
//! Both sides share what was read instead of copying it: a piece keeps its chunk, and the space of a chunk without pieces goes
//! back to the thread.

use std::io::{self, Error, ErrorKind, Read};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

/// Bytes of a chunk: large enough that handing over costs nothing, small enough for a processor's cache.
pub const CHUNK: usize = 256 << 10;
/// Maximum number of chunks of which a consumer may keep pieces while it reads on.
pub const MOST_LENT: usize = 7;
/// Number of chunks; some are on the way, so that short delays of one side do not stop the other.
const CHUNKS: usize = MOST_LENT + 2;

/// Space of a chunk, which goes back and forth.
type Space = Box<[u8]>;

/// A part of the input; without bytes it is the end.
#[derive(Debug)]
struct Chunk {
    space: Space,
    len: usize,
    /// Where the space goes afterwards.
    home: Option<Sender<Space>>,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // A thread that has ended needs no space, so a failure to send is ignored.
            drop(home.send(std::mem::take(&mut self.space)));
        }
    }
}

/// Bytes of an input, shared with others that hold pieces of the same chunk.
#[derive(Clone, Debug)]
pub struct Piece {
    chunk: Arc<Chunk>,
    from: usize,
    to: usize,
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.chunk.space[self.from..self.to]
    }
}

impl Piece {
    /// A copy of some bytes.
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        let chunk = Chunk {
            space: bytes.into(),
            len: bytes.len(),
            home: None,
        };
        Self {
            chunk: Arc::new(chunk),
            from: 0,
            to: bytes.len(),
        }
    }
}

/// A reader that is read by a thread of its own. Unpacking a compressed layer takes about as long as decompressing
/// it, so this halves the time if there are two processors.
#[derive(Debug)]
pub struct ReadAhead<'scope, R> {
    full: Receiver<io::Result<Chunk>>,
    present: Option<Arc<Chunk>>,
    at: usize,
    lent: usize,
    /// True if a piece of the present chunk is counted as lent.
    is_lent: bool,
    ended: bool,
    thread: ScopedJoinHandle<'scope, R>,
}

/// The thread that reads.
struct Feeder<R> {
    input: R,
    full: Sender<io::Result<Chunk>>,
    /// Chunks that may still be made.
    fresh: usize,
    /// Space that came back; the last is the likeliest to be in the processor's cache.
    free: Vec<Space>,
    returned: Receiver<Space>,
    home: Sender<Space>,
}

impl<R: Read> Feeder<R> {
    /// Reads the input to its end, to an error, or until the consumer is gone, and hands it back.
    fn run(mut self) -> R {
        loop {
            let mut space = self.space();
            let (len, failure) = fill_chunk(&mut self.input, &mut space);
            let has_ended = len == 0 || failure.is_some();
            let home = Some(self.home.clone());
            let mut is_gone = false;
            // The bytes before an error are sent before it.
            if len > 0 || failure.is_none() {
                is_gone = self.full.send(Ok(Chunk { space, len, home })).is_err();
            }
            if let Some(error) = failure {
                is_gone |= self.full.send(Err(error)).is_err();
            }
            if has_ended || is_gone {
                return self.input;
            }
        }
    }

    /// Returns space for a chunk, and waits for it if there are enough chunks: some come back at the latest when the consumer
    /// is gone.
    fn space(&mut self) -> Space {
        loop {
            self.free.extend(self.returned.try_iter());
            if let Some(space) = self.free.pop() {
                return space;
            }
            if self.fresh > 0 {
                self.fresh -= 1;
                return vec![0; CHUNK].into();
            }
            self.free.extend(self.returned.recv());
        }
    }
}

/// Fills a chunk; it is shorter only at the end and before an error.
fn fill_chunk(input: &mut impl Read, buffer: &mut [u8]) -> (usize, Option<Error>) {
    let mut len = 0;
    while len < buffer.len() {
        match input.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (len, Some(error)),
        }
    }
    (len, None)
}

impl<'scope, R: Read + Send + 'scope> ReadAhead<'scope, R> {
    /// Starts to read. The thread ends with the input, with an error, or soon after this reader is dropped. A read
    /// that blocks forever blocks only the thread and the end of its scope.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn new(scope: &'scope Scope<'scope, '_>, input: R) -> io::Result<Self> {
        // The number of chunks limits both channels.
        let ((send, full), (home, returned)) = (channel(), channel());
        let feeder = Feeder {
            input,
            full: send,
            fresh: CHUNKS,
            free: Vec::new(),
            returned,
            home,
        };
        let name = std::thread::Builder::new().name("read-ahead".to_owned());
        let thread = name.spawn_scoped(scope, move || feeder.run())?;
        Ok(Self {
            full,
            present: None,
            at: 0,
            lent: 0,
            is_lent: false,
            ended: false,
            thread,
        })
    }

    /// Hands back the input, of which more may be consumed than was read from this reader.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn finish(self) -> io::Result<R> {
        let Self {
            full,
            present,
            thread,
            ..
        } = self;
        drop((full, present));
        thread
            .join()
            .map_err(|_| Error::other("the thread that reads ahead panicked"))
    }
}

impl<R> ReadAhead<'_, R> {
    /// Returns the next bytes, at most `most` of them; none at the end. A holder of pieces of more than [`MOST_LENT`] chunks
    /// that reads on would wait for itself.
    ///
    /// # Errors
    /// The input's errors.
    pub fn lend(&mut self, most: u64) -> io::Result<Piece> {
        let shown = self.show()?.len();
        let Some(chunk) = &self.present else {
            return Ok(Piece::copied(&[]));
        };
        let count = usize::try_from(most).map_or(shown, |most| shown.min(most));
        let piece = Piece {
            chunk: Arc::clone(chunk),
            from: self.at,
            to: self.at + count,
        };
        self.at += count;
        self.lent += usize::from(!self.is_lent);
        self.is_lent = true;
        Ok(piece)
    }

    /// Returns the number of chunks of which pieces were lent since [`Self::forget_lent`].
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// Counts anew: the holder of the pieces no longer waits for this reader before dropping them.
    pub fn forget_lent(&mut self) {
        (self.lent, self.is_lent) = (0, false);
    }

    /// Returns the bytes of the present chunk that are left, or else those of the next one; none at the end.
    fn show(&mut self) -> io::Result<&[u8]> {
        let is_done = self.present.as_ref().is_none_or(|chunk| self.at == chunk.len);
        if is_done && !self.ended {
            self.present = None;
            let early = |_| {
                Err(Error::new(
                    ErrorKind::BrokenPipe,
                    "the thread that reads ahead ended early",
                ))
            };
            let message = self.full.recv().unwrap_or_else(early);
            self.ended = !matches!(&message, Ok(chunk) if chunk.len > 0);
            (self.present, self.at, self.is_lent) = (Some(Arc::new(message?)), 0, false);
        }
        let shown = self
            .present
            .as_ref()
            .map(|chunk| &chunk.space[self.at..chunk.len]);
        Ok(shown.unwrap_or_default())
    }
}

impl<R> Read for ReadAhead<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let shown = self.show()?;
        let count = out.len().min(shown.len());
        out[..count].copy_from_slice(&shown[..count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that gives bytes in small pieces, and then an error or an end.
    struct Pieces {
        left: usize,
        fails: bool,
    }

    impl Read for Pieces {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.left == 0 && self.fails {
                return Err(Error::other("as planned"));
            }
            let count = out.len().min(self.left).min(10_000);
            out[..count].fill(7);
            self.left -= count;
            Ok(count)
        }
    }

    #[test]
    fn everything_comes_and_then_the_end() {
        for left in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 10 * CHUNK + 5] {
            std::thread::scope(|scope| {
                let mut reader = ReadAhead::new(scope, Pieces { left, fails: false }).unwrap();
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes).unwrap();
                assert!(bytes.len() == left && bytes.iter().all(|byte| *byte == 7));
                assert_eq!(reader.read(&mut [0]).unwrap(), 0);
                assert_eq!(reader.finish().unwrap().left, 0);
                let mut reader = ReadAhead::new(scope, Pieces { left, fails: true }).unwrap();
                let mut bytes = Vec::new();
                assert_eq!(
                    reader.read_to_end(&mut bytes).unwrap_err().to_string(),
                    "as planned"
                );
                assert_eq!(bytes.len(), left);
            });
        }
    }

    #[test]
    fn nobody_has_to_read_to_the_end() {
        let endless = Pieces {
            left: usize::MAX,
            fails: false,
        };
        std::thread::scope(|scope| {
            let mut reader = ReadAhead::new(scope, endless).unwrap();
            reader.read_exact(&mut [0; 100]).unwrap();
            assert!(reader.finish().unwrap().left > 0);
        });
    }

    #[test]
    fn pieces_are_the_input_in_its_order() {
        let bytes: Vec<u8> = (0..12 * CHUNK + 7).map(|at| (at % 251) as u8).collect();
        std::thread::scope(|scope| {
            let mut reader = ReadAhead::new(scope, &*bytes).unwrap();
            let (mut kept, mut at) = (Vec::new(), 0);
            while at < bytes.len() {
                if reader.lent() == MOST_LENT {
                    reader.forget_lent();
                    kept.clear();
                }
                let piece = reader.lend(100_000).unwrap();
                assert!(!piece.is_empty() && piece[..] == bytes[at..at + piece.len()]);
                at += piece.len();
                kept.push(piece);
            }
            assert!(reader.lend(1).unwrap().is_empty());
        });
    }

    #[test]
    fn a_chunk_whose_pieces_are_kept_is_not_used_again() {
        let endless = Pieces {
            left: usize::MAX,
            fails: false,
        };
        std::thread::scope(|scope| {
            let mut reader = ReadAhead::new(scope, endless).unwrap();
            let kept: Vec<Piece> = (0..MOST_LENT).map(|_| reader.lend(u64::MAX).unwrap()).collect();
            assert_eq!(reader.lent(), MOST_LENT);
            // Others come meanwhile.
            for _ in 0..3 * CHUNKS {
                assert_eq!(reader.lend(u64::MAX).unwrap().len(), CHUNK);
            }
            assert!(kept.iter().all(|piece| piece.iter().all(|byte| *byte == 7)));
            let spaces: std::collections::HashSet<_> = kept.iter().map(|piece| piece.as_ptr()).collect();
            assert_eq!(spaces.len(), MOST_LENT);
            drop(kept);
            assert!(reader.finish().unwrap().left > 0);
        });
    }
}
