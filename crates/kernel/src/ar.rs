//! Packages of Debian, unpacked.

use crate::KernelError;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use tote_archive::{DebianPackage, Devices, ExtractOptions, Owner, PackageError, Whiteouts, extract};

/// Unpacks a package of Debian into an existing directory, with the caller as the owner of everything.
///
/// # Errors
/// [`KernelError`]; a part of the files may be there then.
pub fn unpack(package: &Path, into: &Path) -> Result<(), KernelError> {
    let file = File::open(package).map_err(KernelError::file("open", package))?;
    let failed = |error| match error {
        PackageError::Read(source) => KernelError::file("read", package)(source),
        PackageError::Format(reason) => KernelError::Package {
            path: package.to_owned(),
            reason: reason.to_owned(),
        },
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(into, flags, Mode::empty())
        .map_err(|errno| KernelError::file("open", into)(errno.into()))?;
    let mut opened = DebianPackage::open(file).map_err(failed)?;
    let options = ExtractOptions {
        owner: Owner::Process,
        whiteouts: Whiteouts::Apply,
        devices: Devices::Skip,
        keep_root: true,
        ..ExtractOptions::default()
    };
    extract(&mut opened.files().map_err(failed)?, root.as_fd(), &options).map_err(|source| {
        KernelError::Extract {
            path: package.to_owned(),
            source: Box::new(source),
        }
    })?;
    Ok(())
}
