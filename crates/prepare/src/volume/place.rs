//! Directories of volumes, and sources of bind mounts.

pub use crate::container::anonymous_name;
use crate::{EngineError, Home, RequestError};
use rustix::fs::{Mode, OFlags};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use tote_bundle::ContainerId;

/// Checks that the source of a bind mount exists, or makes it.
pub(crate) fn source(path: &Path, create: bool) -> Result<(), EngineError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound && create => make(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(EngineError::Request(
            RequestError::NoSource(path.display().to_string()),
        )),
        Err(source) => Err(EngineError::Request(RequestError::File {
            option: "volume",
            attempt: "look at",
            path: path.to_owned(),
            source,
        })),
    }
}

/// Makes a directory that every user of a container may list, whatever the umask is; an existing one is accepted.
pub(crate) fn make(path: &Path) -> Result<(), EngineError> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        // An existing directory keeps its mode.
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(path)(error)),
        _ => {}
    }
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path);
    made.and_then(|()| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(rustix::fs::fchmod(dir, Mode::from_raw_mode(0o755))?)
    })
    .map_err(failed(path))
}

/// Names the attempt and the path of a failure.
pub(crate) fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> EngineError {
    let path = PathBuf::from(path);
    move |source| {
        EngineError::Request(RequestError::File {
            option: "volume",
            attempt: "make directory",
            path,
            source,
        })
    }
}

/// Returns the directory of a volume's files; that of an anonymous one is derived from its container and destination.
pub fn directory(home: &Home, id: &ContainerId, rm: bool, name: Option<&str>, destination: &str) -> PathBuf {
    let anonymous = || anonymous_name(id, destination);
    match name {
        None if rm => home.container(id).join(format!("volume-{}", &anonymous()[..12])),
        name => {
            let name = name.map_or_else(anonymous, ToOwned::to_owned);
            home.volumes().join(name).join("_data")
        }
    }
}
