//! Sources of bind mounts, and volumes.

use crate::{EngineError, Home};
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use tote_bundle::{ContainerId, ImageConfig, MountSource, RunOptions, volumes_of};
use tote_spec::Spec;

/// Makes what is missing: directories of `-v` (docker does so), named volumes, and anonymous ones, which go with the
/// container. Gives the directory of each volume by its destination.
pub(crate) fn prepare(
    home: &Home,
    id: &ContainerId,
    options: &RunOptions,
    config: &ImageConfig,
) -> Result<BTreeMap<String, String>, EngineError> {
    for request in &options.mounts {
        if let MountSource::Bind(bind) = &request.source {
            source(Path::new(&bind.path), bind.create)?;
        }
    }
    let mut volumes = BTreeMap::new();
    for (number, (destination, volume)) in volumes_of(options, config).into_iter().enumerate() {
        let path = match &volume.name {
            Some(name) => home.volumes().join(name).join("_data"),
            None => home.container(id).join(format!("volume-{number}")),
        };
        make(&path)?;
        volumes.insert(destination, path.display().to_string());
    }
    Ok(volumes)
}

/// Where volumes are mounted that get what the image has at the place: those that nobody has put anything into yet, and
/// that were not asked for without.
pub(crate) fn to_fill(options: &RunOptions, config: &ImageConfig, spec: &Spec) -> Vec<String> {
    let volumes = volumes_of(options, config).into_iter();
    let empty = volumes.filter(|(destination, volume)| {
        let mount = spec.mounts.iter().find(|mount| mount.destination == *destination);
        volume.copy
            && mount
                .and_then(|mount| mount.source.as_deref())
                .is_some_and(is_empty)
    });
    empty.map(|(destination, _)| destination).collect()
}

/// What cannot be looked into has been given an owner, and so was filled.
fn is_empty(directory: &str) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

fn source(path: &Path, create: bool) -> Result<(), EngineError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && create => make(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(EngineError::NoSource(path.display().to_string()))
        }
        Err(source) => Err(EngineError::File {
            option: "volume",
            attempt: "look at",
            path: path.to_owned(),
            source,
        }),
    }
}

fn make(path: &Path) -> Result<(), EngineError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(|source| EngineError::File {
            option: "volume",
            attempt: "make directory",
            path: PathBuf::from(path),
            source,
        })
}

/// Names of the volumes.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.volumes()).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}
