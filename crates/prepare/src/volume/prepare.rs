//! The volumes of a container that is being made.

use super::create::{note_anonymous, when_missing};
use super::device::{self, Device};
use super::disk::VolumeDisk;
use super::hold::VolumeHold;
use super::image;
use super::place::{directory, failed, make, source};
use super::record::VolumeRecord;
use super::subpath;
use crate::container::Claim;
use crate::{EngineError, Home};
use std::collections::BTreeMap;
use std::path::Path;
use tote_bundle::{ContainerId, ImageConfig, MountSource, RunOptions, volumes_of};
use tote_spec::Spec;
use tote_state::record::is_there;

/// Volumes of a new container.
#[derive(Debug, Default)]
pub struct Volumes {
    /// Directory of each volume, by destination.
    pub directories: BTreeMap<String, String>,
    /// Devices of volumes in place of their directories, by destination.
    devices: BTreeMap<String, Device>,
    /// Locks that prevent their removal until the container is recorded.
    pub hold: VolumeHold,
}

impl Volumes {
    /// Returns the volumes for a planned container, without making them.
    fn planned(home: &Home, options: &RunOptions, config: &ImageConfig) -> Self {
        let somewhere = home.volumes().display().to_string();
        let volumes = volumes_of(options, config).into_iter();
        let images = options.mounts.iter();
        let images = images.filter(|request| matches!(request.source, MountSource::Image(_)));
        let images = images.map(|request| request.destination.clone());
        Self {
            directories: volumes
                .map(|(destination, _)| destination)
                .chain(images)
                .map(|destination| (destination, somewhere.clone()))
                .collect(),
            ..Self::default()
        }
    }

    /// Returns the volumes of a guest, whose disks have these nodes there.
    pub fn of_guest<'a>(disks: impl Iterator<Item = (&'a VolumeDisk, String)>) -> Self {
        let mut volumes = Self::default();
        for (disk, source) in disks {
            let restrictions = disk.restrictions.options().map(str::to_owned);
            let device = Device::Other {
                kind: "ext4".to_owned(),
                source: source.clone(),
                options: std::iter::once("nodev".to_owned()).chain(restrictions).collect(),
            };
            volumes.directories.insert(disk.destination.clone(), source);
            volumes.devices.insert(disk.destination.clone(), device);
        }
        volumes
    }

    /// Changes the mounts of those volumes that have a device.
    pub fn mount_devices(&self, spec: &mut Spec) {
        device::mount_all(&self.devices, spec);
    }
}

/// Makes missing directories: those of `-v` (as docker does), named volumes, and anonymous ones, which with `--rm`
/// are in the container's directory and go with it. For a container that is only planned (`dry`), nothing is made.
pub fn prepare(
    home: &Home,
    id: &ContainerId,
    (options, config): (&RunOptions, &ImageConfig),
    dry: bool,
) -> Result<Volumes, EngineError> {
    if dry {
        return Ok(Volumes::planned(home, options, config));
    }
    let mut volumes = Volumes::default();
    for request in &options.mounts {
        match &request.source {
            MountSource::Bind(bind) => source(Path::new(&bind.path), bind.create)?,
            MountSource::Image(image) => {
                let directory = image::directory_of(home, image, &mut volumes.hold)?;
                let destination = request.destination.clone();
                volumes
                    .directories
                    .extend(directory.map(|directory| (destination, directory)));
            }
            MountSource::Volume(_) | MountSource::Tmpfs(_) => {}
        }
    }
    for (destination, volume) in volumes_of(options, config) {
        let path = directory(home, id, options.rm, volume.name.as_deref(), &destination);
        let dir = path.parent().unwrap_or(&path);
        if let Some(name) = volume.name.as_deref() {
            when_missing(home, name, &volume)?;
        }
        loop {
            if volume.name.is_none() && !options.rm && !is_there(&path)? {
                Claim::promise_volumes(home, id)?;
                note_anonymous(home, id, &destination)?;
            } else {
                tote_state::closed::directory(dir).map_err(failed(dir))?;
            }
            // A volume that goes with the container is in the container's own directory, which no other command
            // removes.
            if volume.name.is_none() && options.rm || volumes.hold.add(dir)? {
                break;
            }
        }
        make(&path)?;
        if let Some(name) = volume.name.as_deref()
            && let Some(device) = Device::of(name, VolumeRecord::read(home, name)?.as_ref())?
        {
            device::look_at(name, &device)?;
            volumes.devices.insert(destination.clone(), device);
        }
        if let (Some(name), Some(subpath)) = (volume.name.as_deref(), volume.subpath.as_deref()) {
            let device = volumes.devices.get(&destination);
            let device = device.map(|device| device.directory_for(name, subpath));
            let directory = device.transpose()?.unwrap_or(&path);
            subpath::look_at(name, directory, subpath)?;
        }
        volumes
            .directories
            .insert(destination, path.display().to_string());
    }
    Ok(volumes)
}
