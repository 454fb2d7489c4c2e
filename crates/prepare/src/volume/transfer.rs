//! `volume export` and `volume import`: the files of a volume as an archive.

use super::VolumeFault;
use super::device::Device;
use super::hold::hold;
use super::record::{VolumeRecord, is_name};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::io::{Read, Write};
use std::path::PathBuf;
use tote_archive::{
    Decoder, Devices, Expansion, ExtractOptions, Kind, Limits, Owner, Reader, Writer, extract, walk,
};
use tote_images::has_many_ids;

/// Writes the files of a volume as a tar archive. The process must be in the right namespace: [`tote_images::enter_ids`].
///
/// # Errors
/// [`VolumeFault`], and those of reading and writing.
pub fn export(home: &Home, name: &str, out: impl Write) -> Result<(), EngineError> {
    let files = Files::open(home, name)?;
    let failed = |source| VolumeFault::Output {
        name: name.to_owned(),
        source,
    };
    let mut archive = Writer::new(out);
    for found in walk(files.dir.as_fd()) {
        let (entry, content) = found?;
        archive.entry(&entry)?;
        if let (Kind::File { size }, Some(content)) = (&entry.kind, content) {
            // A file that grows meanwhile keeps the size that it had; one that shrinks is an error of the archive's.
            std::io::copy(&mut content.take(*size), &mut archive).map_err(failed)?;
        }
    }
    archive.finish()?.flush().map_err(failed)?;
    Ok(())
}

/// Extracts a tar archive, compressed or not, into a volume; other files that the volume has stay. The process must be in
/// the right namespace: [`tote_images::enter_ids`].
///
/// # Errors
/// [`VolumeFault`]. What was extracted before the error stays.
pub fn import(home: &Home, name: &str, input: impl Read) -> Result<(), EngineError> {
    let files = Files::open(home, name)?;
    let input = Decoder::new(input, Expansion::default()).map_err(|source| VolumeFault::Input {
        name: name.to_owned(),
        source,
    })?;
    let mut reader = Reader::new(input, Limits::default()).without_whiteouts();
    let options = ExtractOptions {
        owner: if has_many_ids() {
            Owner::Archive
        } else {
            Owner::Fixed { uid: 0, gid: 0 }
        },
        devices: Devices::IfPermitted,
        ..ExtractOptions::default()
    };
    let extracted = extract(&mut reader, files.dir.as_fd(), &options);
    extracted.map_err(|source| VolumeFault::Extract {
        name: name.to_owned(),
        source,
    })?;
    Ok(())
}

/// The open directory of a volume's files. The volume is not removed meanwhile.
struct Files {
    dir: OwnedFd,
    _held: OwnedFd,
}

impl Files {
    fn open(home: &Home, name: &str) -> Result<Self, EngineError> {
        let missing = || VolumeFault::Missing(name.to_owned());
        if !is_name(name) {
            return Err(missing().into());
        }
        let volume = home.volumes().join(name);
        let held = hold(&volume)?.ok_or_else(missing)?;
        let record = VolumeRecord::read(home, name)?.unwrap_or_default();
        let path = match Device::parse(name, &record.options)? {
            None => volume.join("_data"),
            Some(Device::Directory { path, .. }) => PathBuf::from(path),
            Some(Device::Memory(_) | Device::Other { .. } | Device::Disk(_)) => {
                return Err(VolumeFault::OfContainers(name.to_owned()).into());
            }
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&path, flags, Mode::empty());
        Ok(Self {
            dir: dir.map_err(|errno| VolumeFault::Directory {
                path,
                source: errno.into(),
            })?,
            _held: held,
        })
    }
}
