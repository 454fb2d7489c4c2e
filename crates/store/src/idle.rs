//! An idle writer reads ahead while it waits for the parser.

use crate::parse::Parsed;
use rustix::thread::sched_getcpu;
use std::cell::Cell;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use tote_archive::Reading;

/// Time for which an idle writer looks around before it sleeps: about that in which the parser hashes a piece.
const PATIENCE: Duration = Duration::from_micros(200);
/// Number of waits without looking around, after one that was in vain: the threads have to share a processor then, or wait for
/// the input.
const REST: u32 = 8;
/// Number of pauses of the processor between two looks, together a microsecond.
const PAUSES: u32 = 32;

/// The parser's processor when it last handed work over.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParserPlace(Arc<AtomicUsize>);

impl ParserPlace {
    /// Notes the processor of the caller, which is the parser.
    pub(crate) fn note(&self) {
        self.0.store(sched_getcpu(), Ordering::Relaxed);
    }

    /// True if the caller runs on the parser's processor, as on a busy machine: the parser can only work while the caller sleeps.
    fn is_here(&self) -> bool {
        self.0.load(Ordering::Relaxed) == sched_getcpu()
    }
}

/// State of a writer that waits for the parser.
#[derive(Debug)]
pub(crate) struct Idle<R> {
    /// The input, if this thread reads ahead.
    reading: Option<Reading<R>>,
    parser: ParserPlace,
    /// Number of waits in which this thread sleeps at once, because looking around was in vain.
    tired: Cell<u32>,
}

impl<R: Read> Idle<R> {
    pub(crate) fn new(reading: Option<Reading<R>>, parser: ParserPlace) -> Self {
        Self {
            reading,
            parser,
            tired: Cell::new(0),
        }
    }

    /// Waits for the parser's next message; `None` at the end.
    pub(crate) fn next(&self, parsed: &Receiver<Parsed>) -> Option<Parsed> {
        let mut since = None;
        while let Some(reading) = &self.reading {
            match parsed.try_recv() {
                Ok(next) => return Some(next),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if reading.some() => since = None,
                Err(TryRecvError::Empty) => {
                    if self.tired.get() > 0 || self.parser.is_here() {
                        self.tired.set(self.tired.get().saturating_sub(1));
                        break;
                    }
                    if since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                        self.tired.set(REST);
                        break;
                    }
                    (0..PAUSES).for_each(|_| std::hint::spin_loop());
                }
            }
        }
        parsed.recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use tote_archive::ReadAhead;

    #[test]
    fn a_waiting_writer_reads_ahead() {
        let content = vec![7; 600_000];
        // This reader does not read itself.
        let (mut ahead, reading) = ReadAhead::by_thread(&*content);
        let idle = Idle::new(Some(reading), ParserPlace::default());
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
}
