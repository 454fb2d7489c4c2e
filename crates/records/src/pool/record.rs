//! Record of a pool.

use super::error::PoolError;
use crate::container::Container;
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use serde::{Deserialize, Serialize};
use std::mem::MaybeUninit;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use tote_bundle::{ContainerId, ImageConfig, Name};
use tote_state::record::Kind;
use tote_sys::Errno;

/// Pool: `pools/NAME/pool.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Name of the pool.
    #[serde(with = "as_text")]
    pub name: Name,
    /// Number of sandboxes to keep ready.
    pub size: u32,
    /// Name of the directory with the sockets; other options get another one.
    pub generation: String,
    /// Template of the sandboxes: a container without id, name and times.
    pub template: Container,
    /// Entrypoint of the image.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// Default command of the image.
    #[serde(default)]
    pub cmd: Vec<String>,
    /// Environment of a program.
    pub env: Vec<String>,
    /// Working directory of a program.
    pub cwd: String,
    /// True if the host name is the beginning of the sandbox's id.
    pub named_by_id: bool,
}

impl Pool {
    /// Finds the pool of that name.
    ///
    /// # Errors
    /// [`PoolError::Missing`], and [`PoolError::Name`] for an invalid name.
    pub fn find(home: &Home, name: &str) -> Result<Self, EngineError> {
        let parsed = parse_name(name)?;
        Self::read(home, &parsed)?.ok_or_else(|| PoolError::Missing(name.to_owned()).into())
    }

    /// Reads the record of that name; `None` if it is missing.
    pub fn read(home: &Home, name: &Name) -> Result<Option<Self>, EngineError> {
        Ok(KIND.read(name.as_str(), &home.pool(name).join(FILE))?)
    }

    /// Makes the entry of a pool whose record cannot be used, of which only the name is known.
    pub(super) fn unknown(name: Name) -> Self {
        Self {
            name,
            size: 0,
            generation: String::new(),
            template: Container::unknown(&ContainerId::from_bytes([0; 32])),
            entrypoint: Vec::new(),
            cmd: Vec::new(),
            env: Vec::new(),
            cwd: String::new(),
            named_by_id: false,
        }
    }

    /// Writes the record. The caller has the lock.
    pub fn write(&self, home: &Home) -> Result<(), EngineError> {
        make_dir(self.sockets(home))?;
        Ok(tote_state::record::write(
            &home.pool(&self.name).join(FILE),
            self,
        )?)
    }

    /// Returns the directory of the sockets.
    pub fn sockets(&self, home: &Home) -> PathBuf {
        home.pool(&self.name).join(&self.generation)
    }

    /// Returns the image's settings for command lines.
    pub fn image_config(&self) -> ImageConfig {
        ImageConfig {
            entrypoint: self.entrypoint.clone(),
            cmd: self.cmd.clone(),
            ..ImageConfig::default()
        }
    }

    /// Lists the ids of the ready sandboxes.
    #[must_use]
    pub fn ready(&self, home: &Home) -> Vec<ContainerId> {
        // absence: a sandbox more is made, and the next sweep counts again
        let Ok(dir) = open_dir(&self.sockets(home)) else {
            return Vec::new();
        };
        let mut ids = sockets_in(dir.as_fd()).unwrap_or_default();
        ids.retain(|id| tote_sys::waits_for_start(dir.as_fd(), id.as_str()).unwrap_or(false));
        ids
    }
}

pub(super) const KIND: Kind = Kind {
    noun: "pool",
    remove: "tote pool rm",
};

/// Name of the file with the record.
pub const FILE: &str = "pool.json";

/// Parses the name of a pool.
pub fn parse_name(name: &str) -> Result<Name, EngineError> {
    let parsed = name.parse();
    parsed.map_err(|error| PoolError::Name(name.to_owned(), error).into())
}

/// Lists the names of sockets of sandboxes, with listeners or without. An incomplete list would hide sandboxes, so it
/// is an error.
pub fn sockets_in(dir: BorrowedFd<'_>) -> Result<Vec<ContainerId>, Errno> {
    // An earlier listing with this descriptor has left it at its end.
    rustix::fs::seek(dir, SeekFrom::Start(0))?;
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(dir, &mut room);
    let mut ids = Vec::new();
    while let Some(entry) = entries.next() {
        ids.extend(
            entry?
                .file_name()
                .to_str()
                .ok()
                .and_then(|name| name.parse().ok()),
        );
    }
    Ok(ids)
}

/// Makes a directory for the sockets that other users cannot enter.
pub fn make_dir(path: PathBuf) -> Result<(), EngineError> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path);
    made.map_err(EngineError::file("make", path))
}

/// Opens a directory of a pool.
pub fn open_dir(path: &std::path::Path) -> Result<OwnedFd, EngineError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(EngineError::file("open", path))
}

/// Conversion of a name to and from JSON.
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use tote_bundle::Name;

    pub(super) fn serialize<S: Serializer>(name: &Name, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(name.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
