//! Work of a guest with the disks of a container: of one that runs, beside it, and of one that is stopped, in a machine of its own.

use super::ask::ask;
use super::guest::WRITES;
use super::member::serial_in_machine;
use super::still::{Work, boot};
use crate::container::Entry;
use crate::exec::{Conversation, Target, refuse_paused};
use crate::{EngineError, Home};

/// Has the guest of a container that runs do what is asked for with the container's disks; with `holds`, its writes wait meanwhile.
pub(crate) fn at_disks(
    home: &Home,
    entry: &Entry,
    holds: bool,
    asked: &[u8],
) -> Result<Conversation, EngineError> {
    let target = Target::of(home, entry.clone())?;
    refuse_paused(&target)?;
    let serials = [tote_guest::IMAGE_DISK, WRITES].map(|name| serial_in_machine(&entry.container, name));
    let order = tote_guest::at_disks((&serials[0], &serials[1]), holds, asked);
    ask(&target, &order, false)
}

/// Boots a machine with the disks of a stopped container, and without its program, network and volumes, which does what is asked for
/// and ends.
pub(crate) fn at_disks_of_still(
    home: &Home,
    entry: &Entry,
    asked: &[u8],
) -> Result<Conversation, EngineError> {
    let order = tote_guest::at_disks((tote_guest::IMAGE_DISK, WRITES), false, asked);
    boot(home, &entry.container, &Work::Order(order)).map(|(talk, _)| talk)
}
