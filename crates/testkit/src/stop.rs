use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Point at which a server stops, until the [`Stopped`] that belongs to it is dropped.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Mutex<(Sender<()>, Receiver<()>)>>);

/// Test's end of a [`Stop`].
#[derive(Debug)]
pub struct Stopped {
    reached: Receiver<()>,
    _going: Sender<()>,
}

impl Stop {
    /// Makes both ends.
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

    /// Reports that the point is reached, and stays here.
    pub fn reach(&self) {
        if let Ok(ends) = self.0.lock()
            && ends.0.send(()).is_ok()
        {
            // An error is the expected end of the wait: the other end is gone.
            ends.1.recv().ok();
        }
    }
}

impl Stopped {
    /// Waits until the server has reached the point; false if it did not within the limit.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        self.reached.recv_timeout(limit).is_ok()
    }
}
