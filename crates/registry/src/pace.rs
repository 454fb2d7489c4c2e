//! Minimum pace of a host: a connection that delivers almost nothing counts as failed.

use std::time::{Duration, Instant};
use ureq::Timeout;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport, time,
};

/// Minimum number of bytes within a time of waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastPace {
    /// Bytes within each window.
    pub(crate) bytes: u64,
    /// Length of a window, as time that a caller spends waiting for input. Other time is not counted: a slow disk
    /// is not the host's fault.
    pub(crate) window: Duration,
}

/// The host keeps the connection open, but sends less than the minimum.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("only {came} bytes came in {} seconds", window.as_secs())]
pub(crate) struct TooSlow {
    came: u64,
    window: Duration,
}

/// Makes connections that enforce the minimum pace.
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

/// A connection, with the number of bytes that arrived in the current window.
///
/// The wrapper lies around TLS and counts decrypted bytes, so a host cannot begin a new window by TLS messages
/// without content.
#[derive(Debug)]
pub(crate) struct Paced {
    inner: Box<dyn Transport>,
    pace: LeastPace,
    waited: Duration,
    came: u64,
}

impl Paced {
    /// Closes a window that is over; returns an error if too few bytes came in it.
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
        // Output begins a new request, and its answer gets a whole window.
        self.begin_window();
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let begun = Instant::now();
        loop {
            let left = self.pace.window.saturating_sub(self.waited);
            let mut bounded = timeout;
            let rest = timeout.after.saturating_sub(begun.elapsed());
            // No single wait goes beyond the window: a host could take hours to complete one TLS record.
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

/// True if the bound on the whole wait has passed, not the one on silence.
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
