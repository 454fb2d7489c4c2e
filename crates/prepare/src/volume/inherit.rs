//! `--volumes-from`: a container gets the mounts of another one.

use super::create::note_anonymous;
use super::place::{anonymous_name, directory};
use crate::container::{self, Entry};
use crate::{EngineError, Home, StartError};
use std::collections::BTreeMap;
use std::io;
use tote_bundle::{
    ContainerId, MountRequest, MountSource, Restrictions, RunOptions, Treatment, Volume, volumes_of,
};
use tote_state::record::names_in;

/// Adds the mounts of the containers of `--volumes-from` to the options, and to the given ones, so that a later start
/// has the same mounts, whatever happened to those containers. A mount of the container's own takes precedence, and
/// of two containers the later one; memory is not shared. With `keeps`, volumes that would go with their container
/// are moved, so that they stay.
///
/// # Errors
/// Fails if a container is missing, in docker's words.
pub fn inherit(
    home: &Home,
    (options, given): (&mut RunOptions, &mut Vec<(String, String)>),
    keeps: bool,
) -> Result<(), EngineError> {
    let mut found = BTreeMap::new();
    for from in &options.volumes_from {
        let entry =
            container::find(home, &from.container).map_err(|error| StartError::NoPeer(error.to_string()))?;
        for mut mount in mounts_of(home, &entry, keeps)? {
            mount.readonly |= from.readonly;
            found.insert(mount.destination.clone(), mount);
        }
    }
    for (destination, mount) in found {
        let is_own = |own: &MountRequest| own.destination == destination;
        let text = mount.inherited().filter(|_| !options.mounts.iter().any(is_own));
        if let Some(text) = text {
            given.push(("inherit".to_owned(), text));
            options.mounts.push(mount);
        }
    }
    Ok(())
}

/// Lists the binds and volumes of a container; anonymous volumes by their generated names.
fn mounts_of(home: &Home, entry: &Entry, keeps: bool) -> Result<Vec<MountRequest>, EngineError> {
    let container = &entry.container;
    let options = container.run_options()?;
    let mut mounts = options.mounts.clone();
    for (destination, _) in volumes_of(&options, &crate::image_config(home, entry)) {
        if !mounts.iter().any(|mount| mount.destination == destination) {
            mounts.push(MountRequest {
                destination,
                source: MountSource::Volume(Volume {
                    name: None,
                    copy: false,
                    ..Volume::default()
                }),
                readonly: false,
                restrictions: Restrictions::default(),
                treatment: Treatment::default(),
            });
        }
    }
    for mount in &mut mounts {
        match &mut mount.source {
            MountSource::Bind(bind) => bind.create = false,
            MountSource::Volume(volume) => {
                if volume.name.is_none() && container.rm && keeps {
                    keep(home, &container.id, &mount.destination)?;
                }
                volume.copy = false;
                volume
                    .name
                    .get_or_insert_with(|| anonymous_name(&container.id, &mount.destination));
            }
            MountSource::Tmpfs(_) | MountSource::Image(_) => {}
        }
    }
    Ok(mounts)
}

/// Moves a volume that is in its container's directory, and would go with it, to the directory of volumes. A link
/// replaces it; existing mounts keep the same directory.
fn keep(home: &Home, id: &ContainerId, destination: &str) -> Result<(), EngineError> {
    let own = directory(home, id, true, None, destination);
    let fail = |source| EngineError::file("share", &own)(source);
    let is_link = || Ok(own.symlink_metadata()?.is_symlink());
    if is_link().map_err(fail)? {
        return Ok(());
    }
    note_anonymous(home, id, destination)?;
    let volume = directory(home, id, false, None, destination);
    let moved = std::fs::rename(&own, &volume).and_then(|()| std::os::unix::fs::symlink(&volume, &own));
    match moved {
        // Another container shares the volume as well, and was faster.
        Err(_) if matches!(is_link(), Ok(true)) => Ok(()),
        moved => moved.map_err(fail),
    }
}

/// Lists the volumes that [`inherit`] has moved out of a container's directory.
///
/// # Errors
/// [`EngineError::State`] if the directory, or a link in it, cannot be read.
pub fn adopted(home: &Home, id: &ContainerId) -> Result<Vec<String>, EngineError> {
    let dir = home.container(id);
    let mut volumes = Vec::new();
    for name in names_in(&dir)? {
        if !name.starts_with("volume-") {
            continue;
        }
        let path = dir.join(name);
        match std::fs::read_link(&path) {
            Ok(volume) => {
                let name = volume.parent().and_then(|volume| volume.file_name()?.to_str());
                volumes.extend(name.map(ToOwned::to_owned));
            }
            // A directory is a volume that no other container uses.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::InvalidInput
                ) => {}
            Err(source) => {
                return Err(EngineError::file("read", path)(source));
            }
        }
    }
    Ok(volumes)
}
