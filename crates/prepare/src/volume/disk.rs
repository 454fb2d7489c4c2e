//! Volumes of virtual machines: directories that are shared, and disks, which are files with a file system that one machine at a
//! time writes to.

use super::create::when_missing;
use super::device::{Device, options_of};
use super::fill::{self, Found};
use super::hold::VolumeHold;
use super::place::failed;
use super::record::VolumeRecord;
use crate::{EngineError, Home};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tote_bundle::{ContainerId, MountRequest, MountSource, Restrictions, RunOptions, Volume};
use tote_state::record::is_there;

/// Lock of the commands that make the file, or fill the volume.
pub(super) const LOCK: &str = "lock";

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

/// Volumes and directories of this machine that a container in a virtual one has.
#[derive(Debug, Default)]
pub struct Brought {
    /// Volumes that are disks of the machine.
    pub disks: Vec<VolumeDisk>,
    /// Mounts of directories and files, which the guest shares.
    pub shares: Vec<Share>,
    /// Locks that keep the volumes which are disks.
    pub hold: VolumeHold,
}

/// Directory or file of this machine that a guest shares.
#[derive(Clone, Debug)]
pub struct Share {
    /// The mount as requested.
    pub request: MountRequest,
    /// True for an empty volume that gets the image's files.
    pub fill: bool,
}

/// Makes the volumes of a container in a virtual machine that are disks, and their files; for one that is only planned (`dry`), nothing
/// is made. What is a directory of this machine is listed.
///
/// # Errors
/// [`EngineError::State`], and those of making a disk.
pub fn brought(home: &Home, options: &RunOptions, dry: bool) -> Result<Brought, EngineError> {
    let mut brought = Brought::default();
    for request in &options.mounts {
        let volume = match &request.source {
            MountSource::Volume(volume) => Some(volume),
            MountSource::Bind(bind) => {
                check_kind(Path::new(&bind.path))?;
                None
            }
            MountSource::Tmpfs(_) | MountSource::Image(_) => continue,
        };
        let named = volume.and_then(|volume| Some((volume.name.as_deref()?, volume)));
        let mut fill = false;
        if let Some((name, volume)) = named {
            if let Some(file) = disk(home, (name, volume), dry, &mut brought.hold)? {
                brought.disks.push(VolumeDisk {
                    destination: request.destination.clone(),
                    file,
                    readonly: request.readonly,
                    restrictions: request.restrictions,
                });
                continue;
            }
            fill = volume.copy && !request.readonly && volume.subpath.is_none() && is_new(home, name)?;
            let dir = home.volumes().join(name);
            if fill && !dry && is_there(&dir)? {
                // A container of this machine may be filling it.
                brought.hold.add_filling(fill::lock(&dir)?);
                fill = is_new(home, name)?;
            }
        }
        let request = request.clone();
        brought.shares.push(Share { request, fill });
    }
    Ok(brought)
}

/// Refuses nodes and sockets: the guest would take them for its own. What is not there will be a directory.
fn check_kind(path: &Path) -> Result<(), EngineError> {
    match path.metadata() {
        Ok(found) if !found.is_dir() && !found.is_file() => {
            Err(crate::vm::VmFault::Special(path.to_owned()).into())
        }
        _ => Ok(()),
    }
}

/// True for a volume without files.
fn is_new(home: &Home, name: &str) -> Result<bool, EngineError> {
    let own = home.volumes().join(name).join("_data");
    let device = Device::of(name, VolumeRecord::read(home, name)?.as_ref())?;
    let path = match &device {
        None => own.as_path(),
        Some(Device::Directory { path, .. }) => Path::new(path),
        Some(_) => return Ok(false),
    };
    match path.try_exists() {
        Ok(false) => Ok(true),
        _ => Ok(fill::found(path)? != Found::Full),
    }
}

/// Returns the file of a volume that is a disk; `None` for another one.
fn disk(
    home: &Home,
    (name, volume): (&str, &Volume),
    dry: bool,
    hold: &mut VolumeHold,
) -> Result<Option<PathBuf>, EngineError> {
    let dir = home.volumes().join(name);
    loop {
        let device = match VolumeRecord::read(home, name)? {
            None if dry || !is_there(&dir)? => Device::parse(name, &options_of(&volume.options))?,
            record => Device::of(name, record.as_ref())?,
        };
        let Some(Device::Disk(size)) = device else {
            return Ok(None);
        };
        if dry {
            return Ok(Some(dir));
        }
        when_missing(home, name, volume)?;
        // Another command may have removed it meanwhile, and made another one.
        if hold.add(&dir)? && Device::of(name, VolumeRecord::read(home, name)?.as_ref())? == device {
            return file(&dir, size).map(Some);
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
