//! Connections that a user's containers begin, which the holder leads on from the machine's network namespace. It takes fewer system calls
//! and copies for this than pasta, which gets everything as packets, and pasta gets what the holder cannot lead on.

use super::near::Near;
use rustix::fd::{AsFd as _, OwnedFd};
use std::collections::BTreeMap;
use tote_forward::{Answer, Begun, Ends, Forwarder};
use tote_network::{Attempt, HeldBack};
use tote_sys::{Errno, best_effort};

/// First packets of connections whose destination has not answered.
pub(crate) struct Onward {
    held: HeldBack,
    waiting: BTreeMap<Ends, Attempt>,
}

/// Number of the descriptor that tells of first packets, among those beside the forwarder's own.
pub(crate) const TOLD: usize = 1;

impl Onward {
    /// Leads connections on that come from a network namespace, if the kernel has what that takes.
    pub(crate) fn begin(network: &OwnedFd, forwarder: &mut Forwarder<Near>) -> Result<Option<Self>, Errno> {
        let Ok((held, listeners)) = tote_network::hold_back(network.as_fd()) else {
            return Ok(None);
        };
        forwarder.wait_beside(held.as_fd(), TOLD)?;
        for listener in listeners {
            forwarder.lead_onward(listener)?;
        }
        let waiting = BTreeMap::new();
        Ok(Some(Self { held, waiting }))
    }

    /// Begins to connect to the destinations of first packets that have come, and tells containers what destinations have answered.
    pub(crate) fn serve(&mut self, forwarder: &mut Forwarder<Near>) {
        for attempt in self.held.take() {
            let ends = (attempt.source, attempt.destination);
            match forwarder.begin_onward(ends) {
                Ok(Begun::Waits) => drop(self.waiting.insert(ends, attempt)),
                // The packet that was sent again was lost.
                Ok(Begun::Answered) => best_effort(self.held.repeat(&attempt, true)),
                Err(_) => best_effort(self.held.repeat(&attempt, false)),
            }
        }
        for (ends, answer) in forwarder.answers() {
            let Some(attempt) = self.waiting.remove(&ends) else {
                continue;
            };
            match answer {
                Answer::Takes => best_effort(self.held.repeat(&attempt, true)),
                Answer::Refuses => best_effort(self.held.refuse(&attempt)),
                // The container waits as long as it wants to.
                Answer::Silent => {}
            }
        }
    }
}
