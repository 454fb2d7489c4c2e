//! Machines that are up before the plan of their container is there.

use crate::VmmError;
use rustix::fd::BorrowedFd;
use std::fmt;

/// The other side of an attendant that has no plan yet: it brings the plan of the guest's container.
pub trait Bringer: fmt::Debug {
    /// Returns a descriptor that is readable when the plan is there, until it was brought.
    fn comes(&self) -> Option<BorrowedFd<'_>>;

    /// Returns a plan that the guest is to perform before, if that leaves nothing behind: what follows takes an emulated processor less time then.
    fn rehearsal(&self) -> Option<Vec<u8>>;

    /// Hears that the guest is ready.
    ///
    /// # Errors
    /// [`VmmError`] if its maker has gone.
    fn ready(&mut self) -> Result<(), VmmError>;

    /// Returns the plan, whose streams are the standard descriptors from now on; `None` if the machine is not wanted any more.
    ///
    /// # Errors
    /// [`VmmError`] if what has come is not a plan.
    fn bring(&mut self) -> Result<Option<Vec<u8>>, VmmError>;

    /// Hears why nothing is to be brought.
    fn failed(&mut self, reason: &str);
}
