//! Mark of a container that should end, for its restart policy: a file in its directory, until the next start.

use super::entry::REMOVING;
use super::stamp::Stamp;
use super::state::State;
use crate::{EngineError, Home};
use std::io::ErrorKind;
use std::path::Path;
use tote_bundle::ContainerId;
use tote_sys::best_effort;

/// Name of the mark.
const STOP: &str = "stop";

/// Text of the mark if only the monitor was asked to end, as by an init at a shutdown: the next
/// boot may start the container.
const ORDERLY: &str = "orderly";

/// True if a user has stopped the container of that directory, and not started it again.
pub fn was_stopped(dir: &Path) -> bool {
    let marked = match std::fs::read(dir.join(STOP)) {
        Ok(text) => text != ORDERLY.as_bytes(),
        // An unreadable mark counts, as in `may_be_there`.
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    marked || Stamp::read(dir).stopped
}

/// True if no user or service manager has asked for the container's end.
pub fn is_wanted(home: &Home, id: &ContainerId) -> bool {
    let dir = home.container(id);
    let marked = [STOP, REMOVING].iter().any(|mark| may_be_there(&dir.join(mark)));
    !marked && !is_stamped(&dir)
}

/// True if the container was stopped, by a user or in an orderly way.
pub fn is_stopped(home: &Home, id: &ContainerId) -> bool {
    let dir = home.container(id);
    may_be_there(&dir.join(STOP)) || is_stamped(&dir)
}

/// True if a mark exists or cannot be examined: a container that may have been stopped is not started.
fn may_be_there(mark: &Path) -> bool {
    // absence: a container that may have been stopped is not started
    mark.try_exists().unwrap_or(true)
}

fn is_stamped(dir: &Path) -> bool {
    let stamp = Stamp::read(dir);
    stamp.stopped || stamp.orderly
}

/// Tells the restart policy that a user wants the container to end.
pub fn mark(home: &Home, id: &ContainerId) {
    put(home, id, "", |stamp| stamp.stopped = true);
}

/// Tells the restart policy that a service manager has ended the monitor, and that the container
/// should stay as it is.
pub fn mark_orderly(home: &Home, id: &ContainerId) {
    put(home, id, ORDERLY, |stamp| stamp.orderly = true);
}

/// Writes the mark; on a full disk a stamp replaces it.
fn put(home: &Home, id: &ContainerId, text: &str, stamp: fn(&mut Stamp)) {
    if tote_state::closed::write(&home.container(id).join(STOP), text).is_err() {
        // Without either the container is started again, and the stop reports that by its timeout.
        best_effort(Stamp::change(home, id, stamp));
    }
}

/// Removes the mark at a start.
///
/// # Errors
/// [`EngineError::State`].
pub fn forget(home: &Home, id: &ContainerId, state: &State) -> Result<(), EngineError> {
    best_effort(std::fs::remove_file(home.container(id).join(STOP)));
    // A container that was never started has no stamp.
    if state.started_at == 0 || !is_stamped(&home.container(id)) {
        return Ok(());
    }
    Stamp::change(home, id, |stamp| (stamp.stopped, stamp.orderly) = (false, false))
}

#[cfg(test)]
mod tests {
    use super::super::tests::container;
    use super::*;

    /// A link to nowhere in the mark's place stands for a disk on which no file can be made.
    #[test]
    fn a_mark_for_which_there_is_no_room_is_a_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = container(&home, 0x51, "web").id;
        let place = home.container(&id);
        Stamp::prepare(&home, &id);
        let state = State {
            started_at: 1,
            ..State::default()
        };
        for full in [false, true] {
            if full {
                std::os::unix::fs::symlink("none/none", place.join(STOP)).unwrap();
            }
            let found = || (is_stamped(&place), was_stopped(&place), is_wanted(&home, &id));
            assert_eq!(found(), (false, false, true));
            mark_orderly(&home, &id);
            assert_eq!(found(), (full, false, false), "the next boot starts it");
            mark(&home, &id);
            assert_eq!(found(), (full, true, false));
            assert!(is_stopped(&home, &id));
            forget(&home, &id, &state).unwrap();
            assert_eq!(found(), (false, false, true));
        }
    }
}
