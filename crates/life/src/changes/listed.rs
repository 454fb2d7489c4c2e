//! `diff`: the changes of a container, wherever it runs.

use super::container;
use super::differences::{Changed, differences, walk_failed};
use super::guest::{GuestChanges, What};
use crate::{EngineError, Home};

/// Tells what a container has changed. The process must have one thread, and becomes root of the ids that own images
/// ([`tote_images::enter_ids`]).
///
/// # Errors
/// [`EngineError`].
pub fn changes(home: &Home, wanted: &str, each: &mut dyn FnMut(Changed)) -> Result<(), EngineError> {
    let container = container::find(home, wanted)?;
    if let Some(guest) = GuestChanges::ask(home, &container, What::List)? {
        return guest.list(each);
    }
    tote_images::enter_ids(home)?;
    let source = container.source(home)?;
    for found in differences(&container, source.dir()?)? {
        let found = found.map_err(|source| walk_failed(container.id.short(), source))?;
        each(Changed {
            status: found.status,
            path: found.change.path().to_string(),
        });
    }
    Ok(())
}
