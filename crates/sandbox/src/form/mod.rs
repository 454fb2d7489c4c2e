//! Byte form of a [`Plan`], with which another process than the one that planned can perform it.
//!
//! ```text
//!   plan       = "tote plan 6\n" FIELD*        the fields of `Plan`, in the order of its declaration
//!   number     = its bytes, the lowest first; a length has eight
//!   text, list = LENGTH ELEMENT*
//!   optional   = 0 | 1 VALUE
//!   choice     = NUMBER FIELD*                 the number of a variant, one byte
//!   descriptor = INDEX                         four bytes; it counts them in the order in which they come
//! ```
//! Descriptors stay outside: [`Plan::to_bytes`] lists them, and the reader of the plan brings them in the same order, from
//! a message of unix(7) or, in a guest, as files of its own. A plan without any needs nothing but its bytes.
//!
//! Every plan has exactly one form, and reading refuses everything else: what [`Plan::from_bytes`] accepts, it would
//! write with the same bytes. A length is believed only as far as there are bytes behind it. Reading checks the form
//! and no meaning: a plan is as powerful as a program, and bytes from a stranger are not to be performed.
//!
//! The number in the first line changes with the form of any part, as a test of the bytes demands. What `run --plan` prints
//! has been written and read; a start in one process, which has the plan already, never comes here.

#[cfg(test)]
mod any;
mod code;
mod host;
mod ops;
#[cfg(test)]
mod tests;

use crate::error::FormError;
use crate::plan::Plan;
use code::{Form, Reader, Writer};
use rustix::fd::{BorrowedFd, OwnedFd};

/// First line of every plan.
const VERSION: &[u8] = b"tote plan 6\n";

/// A plan as bytes.
#[derive(Debug)]
pub struct PlanBytes<'p> {
    /// The form of everything but the descriptors.
    pub bytes: Vec<u8>,
    /// Descriptors of the plan, in the order in which [`Plan::from_bytes`] expects them.
    pub fds: Vec<BorrowedFd<'p>>,
}

impl Plan {
    /// Writes the plan in its byte form.
    #[must_use]
    pub fn to_bytes(&self) -> PlanBytes<'_> {
        let mut out = Writer::new(VERSION);
        self.write(&mut out);
        PlanBytes {
            bytes: out.bytes,
            fds: out.fds,
        }
    }

    /// Reads a plan from its byte form, and gives it these descriptors.
    ///
    /// # Errors
    /// [`FormError`] says where the bytes are not those of a plan.
    pub fn from_bytes(bytes: &[u8], fds: Vec<OwnedFd>) -> Result<Self, FormError> {
        let mut from = Reader::new(bytes, VERSION, fds)?;
        let plan = Self::read(&mut from)?;
        from.finish()?;
        Ok(plan)
    }

    /// Returns what another process would perform that gets the bytes of this plan, and copies of its descriptors.
    ///
    /// # Errors
    /// [`FormError::Descriptor`] if this process may open no more descriptors.
    pub fn handed_over(&self) -> Result<Self, FormError> {
        let PlanBytes { bytes, fds } = self.to_bytes();
        let copies = fds.iter().enumerate().map(|(index, fd)| {
            let copy = fd.try_clone_to_owned();
            copy.map_err(|_| FormError::Descriptor { index })
        });
        Self::from_bytes(&bytes, copies.collect::<Result<_, _>>()?)
    }
}
