//! Reading and decompressing ahead of a consumer.
//!
//! Decompression is work for a thread of its own ([`Reading::all`]). Where reading only copies bytes, the consumer reads what it
//! needs, and another thread reads ahead of it in its spare time ([`Reading::some`]): a thread that does nothing else would be woken
//! for each chunk, and displace one of the two.
//!
//! All sides share what was read instead of copying it: a piece keeps its chunk, and the space of a chunk without pieces is
//! used again.

use std::collections::VecDeque;
use std::io::{self, Error, ErrorKind, Read};
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of a chunk: large enough that handing over costs nothing, small enough for a processor's cache.
pub const CHUNK: usize = 256 << 10;
/// Maximum number of chunks of which a consumer may keep pieces while it reads on.
pub const MOST_LENT: usize = 7;
/// Number of chunks: 4 MiB. Of small files the thread that writes is the slower one, and of large files the thread that parses, so
/// that a long way between the two keeps both at work.
const CHUNKS: usize = 16;
const _: () = assert!(CHUNKS > MOST_LENT + 1);

/// Space of a chunk, which is used again and again.
type Space = Box<[u8]>;

/// A part of the input.
#[derive(Debug)]
struct Chunk {
    space: Space,
    len: usize,
    /// Where the space goes afterwards.
    home: Option<Arc<Queue>>,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            let mut state = home.state();
            state.free.push(std::mem::take(&mut self.space));
            home.tell(state);
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

/// Chunks that were read and are not consumed, and the space for more.
#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Filled spaces, with the number of bytes in them.
    read: VecDeque<(Space, usize)>,
    /// The error that ended the input, until the consumer has it.
    failure: Option<Error>,
    /// True if nothing more is to be read.
    has_ended: bool,
    /// True while a thread reads.
    is_reading: bool,
    /// Number of chunks that may still be made.
    fresh: usize,
    /// Space that came back; the last is the likeliest to be in the processor's cache.
    free: Vec<Space>,
    /// Number of threads that wait.
    waiting: usize,
}

impl State {
    /// Takes space for a chunk, unless nothing is to be read now.
    fn begin(&mut self) -> Option<Space> {
        if self.is_reading || self.has_ended {
            return None;
        }
        let space = self.free.pop().or_else(|| {
            self.fresh = self.fresh.checked_sub(1)?;
            Some(vec![0; CHUNK].into())
        });
        self.is_reading = space.is_some();
        space
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets those look again who wait for a change of the state.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        #[expect(
            clippy::disallowed_methods,
            reason = "the thread that reads says when it has, also when it ends by a panic"
        )]
        let woken = self.changed.wait(state);
        let mut state = woken.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }
}

/// The input, of which one thread at a time reads, and what was read.
#[derive(Debug)]
struct Shared<R> {
    /// `None` once it was handed back.
    input: Mutex<Option<R>>,
    queue: Arc<Queue>,
}

impl<R: Read> Shared<R> {
    /// Reads into a space that [`State::begin`] gave.
    fn read(&self, mut space: Space) {
        let turn = Turn(&self.queue);
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let (len, failure) = match &mut *input {
            Some(input) => fill_chunk(input, &mut space),
            None => (0, None),
        };
        drop(input);
        turn.end(space, len, failure);
    }
}

/// The right to read, until it ends.
struct Turn<'a>(&'a Queue);

impl Turn<'_> {
    fn end(self, space: Space, len: usize, failure: Option<Error>) {
        let mut state = self.0.state();
        // Bytes before an error are consumed before it; none are kept when the consumer is gone.
        if len > 0 && !state.has_ended {
            state.read.push_back((space, len));
        }
        state.has_ended |= len == 0 || failure.is_some();
        state.failure = failure;
        state.is_reading = false;
        self.0.tell(state);
        std::mem::forget(self);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_ended = true;
        state.failure = Some(Error::other("the thread that reads ahead panicked"));
        state.is_reading = false;
        self.0.tell(state);
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

/// The right to read ahead of a [`ReadAhead`].
#[derive(Debug)]
pub struct Reading<R>(Arc<Shared<R>>);

impl<R: Read> Reading<R> {
    /// Reads until the input ends, fails, or the consumer is gone: the work of a thread of its own. A read that blocks forever
    /// blocks the thread, and all that wait for its end.
    pub fn all(&self) {
        let queue = &self.0.queue;
        let mut state = queue.state();
        while !state.has_ended {
            state = match state.begin() {
                Some(space) => {
                    drop(state);
                    self.0.read(space);
                    queue.state()
                }
                None => queue.wait(state),
            };
        }
    }

    /// Reads a chunk. Returns false, at once, if another thread reads, the input has ended, or enough is read.
    pub fn some(&self) -> bool {
        let space = self.0.queue.state().begin();
        space.is_some_and(|space| {
            self.0.read(space);
            true
        })
    }
}

/// A reader of an input that others read ahead.
#[derive(Debug)]
pub struct ReadAhead<R> {
    shared: Arc<Shared<R>>,
    /// True if this reader reads as well when nothing is read.
    reads: bool,
    present: Option<Arc<Chunk>>,
    at: usize,
    lent: usize,
    /// True if a piece of the present chunk is counted as lent.
    is_lent: bool,
}

impl<R> Drop for ReadAhead<R> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<R> ReadAhead<R> {
    /// Reads an input that a thread reads with [`Reading::all`].
    pub fn by_thread(input: R) -> (Self, Reading<R>) {
        Self::new(input, false)
    }

    /// Reads an input itself where no other thread has called [`Reading::some`] in time.
    pub fn by_turns(input: R) -> (Self, Reading<R>) {
        Self::new(input, true)
    }

    fn new(input: R, reads: bool) -> (Self, Reading<R>) {
        let state = State {
            fresh: CHUNKS,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            input: Mutex::new(Some(input)),
            queue: Arc::new(Queue {
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
        });
        let reading = Reading(Arc::clone(&shared));
        let reader = Self {
            shared,
            reads,
            present: None,
            at: 0,
            lent: 0,
            is_lent: false,
        };
        (reader, reading)
    }

    /// Ends the reading by others, soon.
    fn close(&self) {
        let queue = &self.shared.queue;
        let mut state = queue.state();
        state.has_ended = true;
        queue.tell(state);
    }

    /// Hands back the input, of which more may be consumed than was read from this reader.
    ///
    /// # Errors
    /// The thread panicked that read.
    pub fn finish(self) -> io::Result<R> {
        self.close();
        let queue = &self.shared.queue;
        let mut state = queue.state();
        while state.is_reading {
            state = queue.wait(state);
        }
        drop(state);
        let input = self.shared.input.lock().ok().and_then(|mut input| input.take());
        input.ok_or_else(|| Error::other("the thread that reads ahead panicked"))
    }

    /// Returns the number of chunks of which pieces were lent since [`Self::forget_lent`].
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// Counts anew: the holder of the pieces no longer waits for this reader before dropping them.
    pub fn forget_lent(&mut self) {
        (self.lent, self.is_lent) = (0, false);
    }
}

impl<R: Read> ReadAhead<R> {
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

    /// Returns the bytes of the present chunk that are left, or else those of the next one; none at the end.
    fn show(&mut self) -> io::Result<&[u8]> {
        let is_done = self.present.as_ref().is_none_or(|chunk| self.at == chunk.len);
        if is_done {
            // Without pieces its space is free now.
            self.present = None;
            (self.present, self.at, self.is_lent) = (self.next_chunk()?.map(Arc::new), 0, false);
        }
        let shown = self
            .present
            .as_ref()
            .map(|chunk| &chunk.space[self.at..chunk.len]);
        Ok(shown.unwrap_or_default())
    }

    /// Takes the next chunk, and reads it or waits for it if need be; `None` at the end.
    fn next_chunk(&self) -> io::Result<Option<Chunk>> {
        let queue = &self.shared.queue;
        let mut state = queue.state();
        loop {
            if let Some((space, len)) = state.read.pop_front() {
                let home = Some(Arc::clone(queue));
                return Ok(Some(Chunk { space, len, home }));
            }
            if state.has_ended {
                return state.failure.take().map_or(Ok(None), Err);
            }
            let space = if self.reads { state.begin() } else { None };
            state = match space {
                Some(space) => {
                    drop(state);
                    self.shared.read(space);
                    queue.state()
                }
                None => queue.wait(state),
            };
        }
    }
}

impl<R: Read> Read for ReadAhead<R> {
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
mod tests;
