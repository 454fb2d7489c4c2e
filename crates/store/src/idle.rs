//! The writer while it waits for the parser: it reads ahead, or lends the parser a hand.
//!
//! In a large file the parser is the slower one of the two, because it computes two hashes. A writer without work then takes the
//! rest of a piece into the file's hash, while the parser takes it into the archive's. The parser never wakes the writer for this:
//! an idle writer looks around for a moment before it sleeps, and the parser shares its work only with a writer that is awake.

use crate::parse::Parsed;
use crate::twin::BlockHash;
use rustix::thread::sched_getcpu;
use std::cell::Cell;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tote_archive::{Piece, Reading};

/// Time for which an idle writer looks around before it sleeps: about that in which the parser hashes a piece.
const PATIENCE: Duration = Duration::from_micros(200);
/// Number of waits without looking around, and of pieces without help, after one that was in vain: the threads have to share a
/// processor then, or wait for the input.
const REST: u32 = 8;
/// Number of pauses of the processor between two looks, together a microsecond.
const PAUSES: u32 = 32;
/// Bytes that the parser takes into both hashes before it looks again whether the writer is idle: whole blocks.
const STEP: usize = 16 << 10;
/// Minimum length of a piece that is worth the handing over.
const LEAST: usize = 2 * STEP;

/// A hash, and what it is to take in next.
#[derive(Clone, Debug)]
struct Task {
    number: u64,
    hash: BlockHash,
    piece: Piece,
}

impl Task {
    fn perform(mut self) -> BlockHash {
        self.hash.update(&self.piece);
        self.hash
    }
}

/// Where the parser leaves a task for the writer.
#[derive(Debug, Default)]
struct Desk {
    task: Mutex<Option<Task>>,
    /// True while the writer looks for tasks.
    is_attended: AtomicBool,
    /// The parser's processor when it last handed work over.
    parser_at: AtomicUsize,
}

impl Desk {
    fn task(&self) -> MutexGuard<'_, Option<Task>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attend(&self, is_attended: bool) {
        self.is_attended.store(is_attended, Ordering::Relaxed);
    }
}

/// The writer's side.
#[derive(Debug)]
pub(crate) struct Idle<R> {
    /// The input, if this thread reads ahead.
    reading: Option<Reading<R>>,
    desk: Arc<Desk>,
    done: Sender<(u64, BlockHash)>,
    /// Number of waits in which this thread sleeps at once, because looking around was in vain.
    tired: Cell<u32>,
}

impl<R: Read> Idle<R> {
    /// Returns both sides. A writer that does not read ahead does not help either: another thread has work as well then.
    pub(crate) fn new(reading: Option<Reading<R>>) -> (Self, Helped) {
        let desk = Arc::new(Desk::default());
        let (send, done) = channel();
        let helped = Helped {
            desk: Arc::clone(&desk),
            done,
            shared: Cell::new(0),
            alone: Cell::new(0),
        };
        let idle = Self {
            reading,
            desk,
            done: send,
            tired: Cell::new(0),
        };
        (idle, helped)
    }

    /// Waits for the parser's next message; `None` at the end.
    pub(crate) fn next(&self, parsed: &Receiver<Parsed>) -> Option<Parsed> {
        let mut since = None;
        while let Some(reading) = &self.reading {
            match parsed.try_recv() {
                Ok(next) => {
                    self.desk.attend(false);
                    // The parser may just have left a task.
                    self.help();
                    return Some(next);
                }
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if self.help() || reading.some() => since = None,
                Err(TryRecvError::Empty) => {
                    if self.tired.get() > 0 || self.displaces_parser() {
                        self.tired.set(self.tired.get().saturating_sub(1));
                        break;
                    }
                    if since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                        self.tired.set(REST);
                        break;
                    }
                    self.desk.attend(true);
                    (0..PAUSES).for_each(|_| std::hint::spin_loop());
                }
            }
        }
        self.desk.attend(false);
        parsed.recv().ok()
    }

    /// True if both have one processor, as on a busy machine: the parser can only work while the writer sleeps.
    fn displaces_parser(&self) -> bool {
        self.desk.parser_at.load(Ordering::Relaxed) == sched_getcpu()
    }

    /// Performs a task, if there is one; returns whether it did.
    fn help(&self) -> bool {
        let task = self.desk.task().take();
        // A parser that has ended needs no result, so a failure to send is ignored.
        task.map(|task| drop(self.done.send((task.number, task.perform()))))
            .is_some()
    }
}

/// The parser's side.
#[derive(Debug)]
pub(crate) struct Helped {
    desk: Arc<Desk>,
    done: Receiver<(u64, BlockHash)>,
    /// Number of tasks so far.
    shared: Cell<u64>,
    /// Number of pieces that this thread does not share, because the writer was too slow.
    alone: Cell<u32>,
}

impl Helped {
    /// Notes that the writer has other work from now on.
    pub(crate) fn note_work(&self) {
        self.desk.attend(false);
        self.desk.parser_at.store(sched_getcpu(), Ordering::Relaxed);
    }

    /// Takes a piece into the hashes of the archive and of a file.
    pub(crate) fn update_both(&self, archive: &mut BlockHash, file: &mut BlockHash, piece: &Piece) {
        let mut at = 0;
        let is_alone = self.alone.get() > 0;
        self.alone.set(self.alone.get().saturating_sub(1));
        while piece.len() - at >= LEAST {
            if !is_alone && self.desk.is_attended.load(Ordering::Relaxed) {
                return self.share(archive, file, &piece.after(at));
            }
            archive.update_both(file, &piece[at..at + STEP]);
            at += STEP;
        }
        archive.update_both(file, &piece[at..]);
    }

    /// Takes a piece into the archive's hash, and meanwhile lets the writer take it into the file's.
    fn share(&self, archive: &mut BlockHash, file: &mut BlockHash, piece: &Piece) {
        let number = self.shared.get() + 1;
        self.shared.set(number);
        let task = Task {
            number,
            hash: file.clone(),
            piece: piece.clone(),
        };
        *self.desk.task() = Some(task.clone());
        archive.update(piece);
        let is_left = self.desk.task().take().is_some();
        let done = if is_left { None } else { self.result_of(number) };
        // The writer does not come to it, has lost its processor, or has ended.
        *file = done.unwrap_or_else(|| {
            self.alone.set(REST);
            task.perform()
        });
    }

    /// Waits a moment for the result of a task that the writer has taken.
    fn result_of(&self, number: u64) -> Option<BlockHash> {
        let since = Instant::now();
        loop {
            match self.done.try_recv() {
                Ok((found, hash)) if found == number => return Some(hash),
                // The parser has not waited for this one.
                Ok(_) => {}
                Err(TryRecvError::Empty) if since.elapsed() < PATIENCE => std::hint::spin_loop(),
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};
    use std::sync::mpsc::sync_channel;
    use tote_archive::ReadAhead;

    /// Takes a content into both hashes, with a writer that says it is idle or does not, and helps or does not. Returns the digests,
    /// and how often it helped.
    fn hash(content: &[u8], attends: bool, helps: bool) -> ([[u8; 32]; 2], usize) {
        let (mut ahead, _) = ReadAhead::by_turns(content);
        let (idle, helped) = Idle::new(None::<Reading<&[u8]>>);
        let (mut archive, mut file) = (BlockHash::new(), BlockHash::new());
        let stops = AtomicBool::new(false);
        let times = std::thread::scope(|scope| {
            let stops = &stops;
            let helping = scope.spawn(move || {
                let mut times = 0;
                while helps && !stops.load(Ordering::Relaxed) {
                    times += usize::from(idle.help());
                }
                times
            });
            loop {
                let piece = ahead.lend(100_001).unwrap();
                if piece.is_empty() {
                    break;
                }
                helped.desk.attend(attends);
                helped.update_both(&mut archive, &mut file, &piece);
            }
            stops.store(true, Ordering::Relaxed);
            helping.join().unwrap()
        });
        ([archive.finish(), file.finish()], times)
    }

    #[test]
    fn both_hashes_are_right_with_help_and_without() {
        let content: Vec<u8> = (0..600_000_u32).map(|at| (at % 251) as u8).collect();
        let expected: [u8; 32] = Sha256::digest(&content).into();
        for (attends, helps) in [(false, false), (true, false), (false, true)] {
            let found = hash(&content, attends, helps);
            assert_eq!(found, ([expected; 2], 0), "{attends} {helps}");
        }
        // Whether it comes to a task before the parser takes it back is a matter of luck.
        loop {
            let (digests, times) = hash(&content, true, true);
            assert_eq!(digests, [expected; 2]);
            if times > 0 {
                break;
            }
        }
    }

    #[test]
    fn a_waiting_writer_reads_ahead() {
        let content = vec![7; 600_000];
        // This reader does not read itself.
        let (mut ahead, reading) = ReadAhead::by_thread(&*content);
        let (idle, _helped) = Idle::new(Some(reading));
        let (send, parsed) = sync_channel(1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || idle.next(&parsed).is_none());
            let mut found = Vec::new();
            ahead.read_to_end(&mut found).unwrap();
            assert!(found == content);
            drop(send);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn a_task_that_was_left_last_is_done_before_other_work() {
        let (_, reading) = ReadAhead::by_turns(&b""[..]);
        let (idle, helped) = Idle::new(Some(reading));
        let (mut ahead, _) = ReadAhead::by_turns(&b"content"[..]);
        *helped.desk.task() = Some(Task {
            number: 1,
            hash: BlockHash::new(),
            piece: ahead.lend(7).unwrap(),
        });
        let (send, parsed) = sync_channel(1);
        send.send(Parsed::Framing(Vec::new())).unwrap();
        assert!(idle.next(&parsed).is_some());
        let expected: [u8; 32] = Sha256::digest(b"content").into();
        assert_eq!(helped.result_of(1).unwrap().finish(), expected);
    }

    #[test]
    fn a_result_that_comes_late_is_passed_over() {
        let (idle, helped) = Idle::new(None::<Reading<&[u8]>>);
        let mut other = BlockHash::new();
        other.update(b"other");
        idle.done.send((1, other)).unwrap();
        idle.done.send((2, BlockHash::new())).unwrap();
        let expected: [u8; 32] = Sha256::digest(b"").into();
        assert_eq!(helped.result_of(2).unwrap().finish(), expected);
        assert!(helped.result_of(3).is_none());
    }
}
