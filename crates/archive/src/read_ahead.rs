//! Reading and decompressing in a thread of its own, ahead of the consumer.

use std::io::{self, Error, ErrorKind, Read};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

/// Bytes of a chunk: large enough that handing over costs nothing, small enough for a processor's cache.
const CHUNK: usize = 256 << 10;
/// Number of chunks on the way, so that short delays of one side do not stop the other.
const DEPTH: usize = 4;

/// A reader that is read by a thread of its own. Unpacking a compressed layer takes about as long as decompressing
/// it, so this halves the time if there are two processors.
#[derive(Debug)]
pub struct ReadAhead<'scope, R> {
    full: Receiver<io::Result<Chunk>>,
    empty: std::sync::mpsc::Sender<Box<[u8]>>,
    present: Option<Chunk>,
    at: usize,
    ended: bool,
    thread: ScopedJoinHandle<'scope, R>,
}

#[derive(Debug)]
struct Chunk {
    buffer: Box<[u8]>,
    len: usize,
}

impl<'scope, R: Read + Send + 'scope> ReadAhead<'scope, R> {
    /// Starts to read. The thread ends with the input, with an error, or soon after this reader is dropped. A read
    /// that blocks forever blocks only the thread and the end of its scope.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn new(scope: &'scope Scope<'scope, '_>, input: R) -> io::Result<Self> {
        let (send_full, full) = sync_channel(DEPTH);
        let (empty, take_empty) = channel();
        let name = std::thread::Builder::new().name("read-ahead".to_owned());
        let thread = name.spawn_scoped(scope, move || fill(input, &send_full, &take_empty))?;
        Ok(Self {
            full,
            empty,
            present: None,
            at: 0,
            ended: false,
            thread,
        })
    }

    /// Hands back the input, of which more may be consumed than was read from this reader.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn finish(self) -> io::Result<R> {
        drop(self.full);
        self.thread
            .join()
            .map_err(|_| Error::other("the thread that reads ahead panicked"))
    }
}

/// Fills chunks until the receiver is gone; runs as the thread. The last message is an error, or an empty chunk.
fn fill<R: Read>(mut input: R, full: &SyncSender<io::Result<Chunk>>, empty: &Receiver<Box<[u8]>>) -> R {
    loop {
        let mut buffer = empty.try_recv().unwrap_or_else(|_| vec![0; CHUNK].into());
        let (len, failure) = fill_chunk(&mut input, &mut buffer);
        let ended = len == 0;
        // The bytes before an error are sent before it.
        let gone = match failure {
            Some(error) if ended => full.send(Err(error)).is_err(),
            Some(error) => full
                .send(Ok(Chunk { buffer, len }))
                .and_then(|()| full.send(Err(error)))
                .is_err(),
            None => full.send(Ok(Chunk { buffer, len })).is_err(),
        };
        if ended || gone {
            return input;
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

impl<R: Read> Read for ReadAhead<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(Chunk { buffer, len }) = &self.present
                && self.at < *len
            {
                let count = out.len().min(*len - self.at);
                out[..count].copy_from_slice(&buffer[self.at..self.at + count]);
                self.at += count;
                return Ok(count);
            }
            if let Some(done) = self.present.take() {
                // A thread that has ended needs no buffers, so a failure to send is ignored.
                drop(self.empty.send(done.buffer));
            }
            if self.ended || out.is_empty() {
                return Ok(0);
            }
            let early = |_| {
                Err(Error::new(
                    ErrorKind::BrokenPipe,
                    "the thread that reads ahead ended early",
                ))
            };
            let message = self.full.recv().unwrap_or_else(early);
            self.ended = !matches!(&message, Ok(chunk) if chunk.len > 0);
            (self.present, self.at) = (Some(message?), 0);
        }
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
}
