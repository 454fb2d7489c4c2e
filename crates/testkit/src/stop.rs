use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A point at which a server stops, until the [`Stopped`] that belongs to it goes.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Mutex<(Sender<()>, Receiver<()>)>>);

/// The test's end of a [`Stop`].
#[derive(Debug)]
pub struct Stopped {
    reached: Receiver<()>,
    _going: Sender<()>,
}

impl Stop {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Self, Stopped) {
        let (reach, reached) = channel();
        let (going, gone) = channel();
        let stopped = Stopped {
            reached,
            _going: going,
        };
        (Self(Arc::new(Mutex::new((reach, gone)))), stopped)
    }

    /// Says that it is reached, and stays here.
    pub fn reach(&self) {
        if let Ok(ends) = self.0.lock()
            && ends.0.send(()).is_ok()
        {
            // An error is what it waits for: the other end is gone.
            ends.1.recv().ok();
        }
    }
}

impl Stopped {
    /// Waits until the server is there; whether it came in that time.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        self.reached.recv_timeout(limit).is_ok()
    }
}
