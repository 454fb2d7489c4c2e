//! Volumes that are disks of virtual machines: a file with a file system, which one machine at a time writes to.

use super::create::when_missing;
use super::device::Device;
use super::hold::VolumeHold;
use super::place::failed;
use super::record::VolumeRecord;
use crate::{EngineError, Home};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tote_bundle::{ContainerId, MountSource, Restrictions, RunOptions, Volume};

/// Lock of the commands that make the file.
const LOCK: &str = "lock";

/// Disk of a container.
#[derive(Debug)]
pub struct VolumeDisk {
    /// Path in the container.
    pub destination: String,
    /// The file.
    pub file: PathBuf,
    /// True if the container cannot write to it.
    pub readonly: bool,
    /// Restrictions of the programs in it.
    pub restrictions: Restrictions,
}

/// Makes the volumes of a container in a virtual machine, and their files; returns these, and the locks that keep the volumes. For one
/// that is only planned (`dry`), nothing is made.
///
/// # Errors
/// [`super::VolumeFault::NoDisk`] for a volume whose files are this machine's.
pub fn disks(
    home: &Home,
    options: &RunOptions,
    dry: bool,
) -> Result<(Vec<VolumeDisk>, VolumeHold), EngineError> {
    let (mut disks, mut hold) = (Vec::new(), VolumeHold::default());
    for request in &options.mounts {
        let MountSource::Volume(volume) = &request.source else {
            continue;
        };
        let Some(name) = &volume.name else { continue };
        let file = if dry {
            home.volumes().join(name)
        } else {
            made(home, name, volume, &mut hold)?
        };
        disks.push(VolumeDisk {
            destination: request.destination.clone(),
            file,
            readonly: request.readonly,
            restrictions: request.restrictions,
        });
    }
    Ok((disks, hold))
}

fn made(home: &Home, name: &str, volume: &Volume, hold: &mut VolumeHold) -> Result<PathBuf, EngineError> {
    let dir = home.volumes().join(name);
    loop {
        when_missing(home, name, volume)?;
        let record = VolumeRecord::read(home, name)?;
        let Some(Device::Disk(size)) = Device::of(name, record.as_ref())? else {
            return Err(super::VolumeFault::NoDisk(name.to_owned()).into());
        };
        // Another command may have removed it meanwhile.
        if hold.add(&dir)? {
            return file(&dir, size);
        }
    }
}

fn file(dir: &Path, size: Option<u64>) -> Result<PathBuf, EngineError> {
    let path = dir.join(LOCK);
    let lock = tote_state::locked::locked(&path, true, true)?;
    let _lock = lock.ok_or_else(|| failed(&path)(ErrorKind::NotFound.into()))?;
    Ok(tote_driver::make_disk(dir, size)?)
}

/// Makes the disk on which a virtual machine has the writes of its container, unless it is there; returns the file.
///
/// # Errors
/// `PrepareError` of crate `driver`.
pub fn writes(home: &Home, id: &ContainerId, options: &RunOptions) -> Result<PathBuf, EngineError> {
    Ok(tote_driver::make_disk(&home.container(id), options.disk_size)?)
}
