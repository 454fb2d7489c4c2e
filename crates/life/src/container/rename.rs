//! Renaming of a container.

use super::change::kept;
use super::error::LifeError;
use super::foreground::find_monitored;
use super::record_lock::Change;
use super::state::State;
use super::{Container, fault, name};
use crate::{EngineError, Home, remains};
use tote_bundle::Name;
use tote_state::events::append;
use tote_sys::best_effort;

/// Renames a container.
///
/// # Errors
/// `RequestError::NameTaken`, [`LifeError::SameName`].
pub fn rename(home: &Home, wanted: &str, to: &str) -> Result<(), EngineError> {
    let entry = find_monitored(home, wanted)?;
    let to: Name = to.strip_prefix('/').unwrap_or(to).parse().map_err(|source| {
        EngineError::from(tote_bundle::OptionError::Value {
            option: "name".to_owned(),
            value: to.to_owned(),
            source: tote_bundle::ValueError::Name(source),
        })
    })?;
    let id = &entry.container.id;
    if entry.container.name == to.as_str() {
        return Err(LifeError::SameName.into());
    }
    kept(&entry, "rename")?;
    let _change = Change::begin(home, id)?;
    let mut container = Container::read(home, id)?.unwrap_or_else(|| entry.container.clone());
    // A later command that finds the mark, and the lock free, completes the renaming.
    let mark = name::renaming(home, id);
    std::fs::write(&mark, "").map_err(EngineError::file("make", &mark))?;
    let taken = name::take(home, &to, id, remains::sweep);
    fault::point("rename-taken");
    let before = std::mem::replace(&mut container.name, to.to_string());
    let is_taken = taken.is_ok();
    let renamed = taken.and_then(|()| container.write(home));
    fault::point("rename-written");
    let released = match &renamed {
        Ok(()) => name::release(home, &before, id),
        Err(_) if is_taken => name::release(home, to.as_str(), id),
        Err(_) => true,
    };
    // If a name stays, the next sweep finds the mark and removes the name.
    if released {
        best_effort(std::fs::remove_file(mark));
    }
    renamed?;
    let (options, state) = (container.run_options()?, State::read(home, id)?);
    crate::network::call(home, (id, to.as_str()), &options, &state.networks)?;
    append(
        home,
        &[container.event("rename").with("oldName", format!("/{before}"))],
    );
    Ok(())
}
