//! What a pool's sandboxes are made from.

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
use tote_sys::Errno;

/// A pool: `pools/NAME/pool.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The name.
    #[serde(with = "as_text")]
    pub name: Name,
    /// How many sandboxes are kept ready.
    pub size: u32,
    /// Names the directory of the sockets; another one for other options.
    pub generation: String,
    /// What each sandbox is: a container, but for id, name and the times.
    pub template: Container,
    /// The image's first words of a command line.
    #[serde(default)]
    pub(crate) entrypoint: Vec<String>,
    /// The image's command.
    #[serde(default)]
    pub(crate) cmd: Vec<String>,
    /// The environment of a program.
    pub(crate) env: Vec<String>,
    /// The working directory.
    pub(crate) cwd: String,
    /// Whether the host name is the beginning of the sandbox's id.
    pub(crate) named_by_id: bool,
}

impl Pool {
    /// The pool of that name.
    ///
    /// # Errors
    /// [`PoolError::Missing`], and [`PoolError::Name`] for what cannot be one.
    pub fn find(home: &Home, name: &str) -> Result<Self, EngineError> {
        let parsed = parse_name(name)?;
        Self::read(home, &parsed)?.ok_or_else(|| PoolError::Missing(name.to_owned()).into())
    }

    /// The record of that name; `None` where there is none.
    pub(super) fn read(home: &Home, name: &Name) -> Result<Option<Self>, EngineError> {
        Ok(tote_state::record::read(&home.pool(name).join(FILE))?)
    }

    /// Who calls it has the lock.
    pub(super) fn write(&self, home: &Home) -> Result<(), EngineError> {
        make_dir(self.sockets(home))?;
        Ok(tote_state::record::write(
            &home.pool(&self.name).join(FILE),
            self,
        )?)
    }

    /// The directory of the sockets.
    pub(super) fn sockets(&self, home: &Home) -> PathBuf {
        home.pool(&self.name).join(&self.generation)
    }

    /// What of the image decides about command lines.
    pub(super) fn image_config(&self) -> ImageConfig {
        ImageConfig {
            entrypoint: self.entrypoint.clone(),
            cmd: self.cmd.clone(),
            ..ImageConfig::default()
        }
    }

    /// The ids of the sandboxes that wait now.
    #[must_use]
    pub fn ready(&self, home: &Home) -> Vec<ContainerId> {
        let Ok(dir) = open_dir(&self.sockets(home)) else {
            return Vec::new();
        };
        let mut ids = sockets_in(dir.as_fd()).unwrap_or_default();
        ids.retain(|id| tote_sys::waits_for_start(dir.as_fd(), id.as_str()).unwrap_or(false));
        ids
    }
}

pub(super) const FILE: &str = "pool.json";

pub(super) fn parse_name(name: &str) -> Result<Name, EngineError> {
    let parsed = name.parse();
    parsed.map_err(|error| PoolError::Name(name.to_owned(), error).into())
}

/// What is named as sockets of sandboxes are, whether anybody listens there or not. A list that ends too early would hide
/// sandboxes, so it is none.
pub(super) fn sockets_in(dir: BorrowedFd<'_>) -> Result<Vec<ContainerId>, Errno> {
    // Whoever has listed it with this descriptor before has left it at its end.
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

/// Other users are not to come near the sockets.
pub(super) fn make_dir(path: PathBuf) -> Result<(), EngineError> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path);
    made.map_err(EngineError::file("make", path))
}

pub(super) fn open_dir(path: &std::path::Path) -> Result<OwnedFd, EngineError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(EngineError::file("open", path))
}

/// A name in JSON.
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
