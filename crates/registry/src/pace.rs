//! A least pace for what a host sends: a connection over which almost nothing comes is a failed one.

use std::time::{Duration, Instant};
use ureq::Timeout;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport, time,
};

/// How much must come while somebody waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastPace {
    /// Bytes within each window.
    pub(crate) bytes: u64,
    /// How much waiting makes a window. The time in which nobody waits does not count: a slow disk is not the host's fault.
    pub(crate) window: Duration,
}

/// The host keeps the connection open, and sends less than the least pace.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("only {came} bytes came in {} seconds", window.as_secs())]
pub(crate) struct TooSlow {
    came: u64,
    window: Duration,
}

/// Makes connections that hold their other side to a pace.
#[derive(Debug)]
pub(crate) struct PacedConnector {
    pub(crate) inner: DefaultConnector,
    pub(crate) pace: LeastPace,
}

impl Connector<()> for PacedConnector {
    type Out = Paced;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<()>,
    ) -> Result<Option<Paced>, ureq::Error> {
        let inner = self.inner.connect(details, chained)?;
        Ok(inner.map(|inner| Paced {
            inner,
            pace: self.pace,
            waited: Duration::ZERO,
            came: 0,
        }))
    }
}

/// A connection, and what came over it in the current window.
///
/// It lies around TLS: what counts is what the protocol gives, and the other side cannot begin a new window by a message
/// of TLS that has no content.
#[derive(Debug)]
pub(crate) struct Paced {
    inner: Box<dyn Transport>,
    pace: LeastPace,
    waited: Duration,
    came: u64,
}

impl Paced {
    /// Ends a window that is over; an error if too little came in it.
    fn close_window(&mut self) -> Result<(), ureq::Error> {
        if self.waited < self.pace.window {
            return Ok(());
        }
        if self.came < self.pace.bytes {
            let slow = TooSlow {
                came: self.came,
                window: self.pace.window,
            };
            return Err(ureq::Error::Io(std::io::Error::other(slow)));
        }
        self.begin_window();
        Ok(())
    }

    fn begin_window(&mut self) {
        (self.waited, self.came) = (Duration::ZERO, 0);
    }
}

impl Transport for Paced {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        // What was sent begins another question, whose answer has all of its time.
        self.begin_window();
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let begun = Instant::now();
        loop {
            let left = self.pace.window.saturating_sub(self.waited);
            let mut bounded = timeout;
            let rest = timeout.after.saturating_sub(begun.elapsed());
            // A wait may end with the window at the latest: a record of TLS can take hours to be whole.
            let by_window = left < rest;
            bounded.after = time::Duration::Exact(left.min(rest));
            let had = self.inner.buffers().input().len();
            let asked = Instant::now();
            let came = self.inner.await_input(bounded);
            self.waited += asked.elapsed();
            let has = self.inner.buffers().input().len();
            self.came += has.saturating_sub(had) as u64;
            match came {
                Err(error) if by_window && is_total(&error, timeout) => self.close_window()?,
                Ok(more) => {
                    self.close_window()?;
                    return Ok(more);
                }
                error => return error,
            }
        }
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// Whether it is the bound of a whole wait that has passed, not the one on silence.
fn is_total(error: &ureq::Error, timeout: NextTimeout) -> bool {
    let reason = match error {
        ureq::Error::Timeout(reason) => Some(*reason),
        ureq::Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(ureq::Error::Timeout(reason)) => Some(*reason),
            _ => None,
        },
        _ => None,
    };
    reason.is_some_and(|reason| reason == timeout.reason && reason != Timeout::PerRead)
}
