//! Profiles: a name for a closure, which is switched as a whole and back.

use super::GraphFault;
use super::closure::{ClosureStart, image_of};
use super::place::{PROFILES, graph, lock, profiles, profiles_dir};
use super::programs::find_or_make;
use crate::apart::among_owners;
use crate::{EngineError, Home, open_store};
use std::path::PathBuf;
use tote_bundle::Name;
use tote_graph::{Generation, Profile};
use tote_images::{has_ids, has_image, or_nothing};
use tote_state::records::Records;
use tote_state::{StateError, record};

fn path(home: &Home, name: &str) -> Result<PathBuf, EngineError> {
    // Names become those of files.
    let name: Name = name
        .parse()
        .map_err(|_| GraphFault::ProfileName(name.to_owned()))?;
    Ok(profiles_dir(home).join(format!("{}.json", name.as_str())))
}

fn read(home: &Home, name: &str) -> Result<Profile, EngineError> {
    let profile = PROFILES.read(name, &path(home, name)?)?;
    Ok(profile.ok_or_else(|| GraphFault::NoProfile(name.to_owned()))?)
}

/// Returns all profiles, sorted by name, and those whose records cannot be used.
///
/// # Errors
/// [`EngineError`].
pub fn graph_profiles(home: &Home) -> Result<Records<Profile>, EngineError> {
    profiles(home)
}

/// Makes the closure of these nodes the newest generation of a profile, and switches to it. Returns its number. This
/// process must have the ids of the files' owners.
///
/// # Errors
/// [`EngineError`]; the profile stays as it was.
pub fn profile_set(home: &Home, name: &str, nodes: &[String]) -> Result<u64, EngineError> {
    let path = path(home, name)?;
    let _lock = lock(home)?;
    let store = open_store(home)?;
    let mut graph = graph(&store)?;
    let find = |text| find_or_make(home, &store, &mut graph, text);
    let ids = or_nothing(
        &store,
        nodes
            .iter()
            .map(String::as_str)
            .map(find)
            .collect::<Result<Vec<_>, _>>(),
    )?;
    let image = or_nothing(&store, image_of(&store, &graph, &ids))?;
    let mut profile: Profile = PROFILES.read(name, &path)?.unwrap_or_default();
    let program = match ids.first() {
        Some(first) => graph.program(first).map_err(GraphFault::from)?,
        None => None,
    };
    profile.set(Generation {
        number: 0,
        program: program.map(str::to_owned),
        nodes: ids,
        image,
        created: record::now(),
    });
    record::write(&path, &profile)?;
    Ok(profile.current)
}

/// Switches a profile to a generation, or to the one before. Returns its number.
///
/// # Errors
/// [`EngineError`]; the profile stays as it was.
pub fn profile_switch(home: &Home, name: &str, number: Option<u64>) -> Result<u64, EngineError> {
    let path = path(home, name)?;
    let _lock = lock(home)?;
    let mut profile = read(home, name)?;
    profile.switch(name, number).map_err(GraphFault::from)?;
    record::write(&path, &profile)?;
    Ok(profile.current)
}

/// Removes a profile. One that a newer tote has made needs `force`.
///
/// # Errors
/// [`EngineError`].
pub fn profile_remove(home: &Home, name: &str, force: bool) -> Result<(), EngineError> {
    let path = path(home, name)?;
    let _lock = lock(home)?;
    match read(home, name) {
        Err(EngineError::State(StateError::Damaged(damaged))) => {
            damaged.removable(force).map_err(StateError::from)?;
        }
        read => drop(read?),
    }
    Ok(record::remove(&path)?)
}

/// Finds what a container of a profile starts with. The image of its closure is made again where it was removed.
pub(super) fn start(home: &Home, name: &str) -> Result<ClosureStart, EngineError> {
    let profile = read(home, name)?;
    let current = profile.current();
    let current = current.ok_or_else(|| GraphFault::NoProfile(name.to_owned()))?;
    if !has_image(home, &current.image.to_string())? {
        let make = || -> Result<(), EngineError> {
            let _lock = lock(home)?;
            let store = open_store(home)?;
            image_of(&store, &graph(&store)?, &current.nodes)?;
            Ok(())
        };
        match has_ids(home) {
            true => make()?,
            false => drop(among_owners(home, || make().map(|()| Vec::new()))?),
        }
    }
    Ok(ClosureStart {
        image: current.image,
        program: current.program.clone(),
    })
}

/// The nodes that profiles keep.
pub(super) fn kept(home: &Home) -> Result<Vec<Generation>, EngineError> {
    let profiles = profiles(home)?.whole.into_iter();
    Ok(profiles.flat_map(|(_, profile)| profile.generations).collect())
}
