//! Files that sessions have written among the tools, kept for later sessions with the same tools in the same container.
//!
//! It is an upper layer in the container's directory, so it goes with the container, however that goes. A session holds a
//! lock on it, which the kernel gives back when the session is killed; there is nothing to repair afterwards.

use super::KeepError;
use crate::container;
use crate::rootfs::Source;
use crate::{EngineError, Home};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use tote_bundle::Image;
use tote_rootfs::Upper;
use tote_state::{closed, locked};
use tote_sys::Errno;

/// Directory of a container that has the layers.
const LAYERS: &str = "tools";

/// File of a layer that names its tools.
const OF: &str = "of";

/// A kept layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptTools {
    /// Name of the tools, as `--tools` had it.
    pub tools: String,
    /// Number of bytes that its files take on the disk.
    pub bytes: u64,
}

/// A kept layer that a session uses.
pub(super) struct Layer {
    dir: PathBuf,
    _lock: OwnedFd,
}

impl Layer {
    /// Opens the layer of these tools in a container, and makes it the first time.
    ///
    /// # Errors
    /// [`KeepError::Kept`] if another session has it.
    pub(super) fn open(
        home: &Home,
        entry: &container::Entry,
        tools: &Source,
        image: &Image,
    ) -> Result<Self, EngineError> {
        let name = entry.container.display().to_owned();
        if !entry.kept {
            return Err(KeepError::NotKept(name).into());
        }
        let (key, tools) = match (tools, image) {
            (Source::Host(_), _) => ("host".to_owned(), "host"),
            (source, Image::Stored(name)) => {
                let key = source.chain().map(str::to_owned);
                (key.or_else(|| source.image_id()).unwrap_or_default(), &**name)
            }
            _ => return Err(KeepError::DirectoryKept.into()),
        };
        let layers = home.container(&entry.container.id).join(LAYERS);
        let dir = layers.join(key.replace(':', "-"));
        for path in [&layers, &dir, &dir.join("work")] {
            closed::directory(path).map_err(EngineError::file("make", path))?;
        }
        let lock = locked::directory(&dir, FlockOperation::NonBlockingLockExclusive);
        let lock = match lock {
            Ok(Some(lock)) => lock,
            Ok(None) | Err(Errno::WOULDBLOCK) => return Err(KeepError::Kept(name).into()),
            Err(errno) => return Err(EngineError::file("lock", &dir)(errno)),
        };
        let upper = dir.join("upper");
        make_seen(&upper).map_err(EngineError::file("make", &upper))?;
        let of = dir.join(OF);
        closed::write(&of, tools).map_err(EngineError::file("write", &of))?;
        Ok(Self { dir, _lock: lock })
    }

    /// Describes the place of the session's writes.
    pub(super) fn upper(&self) -> Upper {
        Upper::Dir {
            upper: self.dir.join("upper"),
            work: self.dir.join("work"),
        }
    }
}

/// Makes a directory whose mode is that of the session's root directory; an existing one stays as it is.
fn make_seen(path: &Path) -> std::io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(rustix::fs::fchmod(dir, Mode::from_raw_mode(0o755))?)
}

/// Lists the directories of the layers of a container.
fn layers(home: &Home, wanted: &str) -> Result<Vec<PathBuf>, EngineError> {
    let entry = container::find(home, wanted)?;
    let layers = home.container(&entry.container.id).join(LAYERS);
    let mut names = tote_state::record::names_in(&layers)?;
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names.into_iter().map(|name| layers.join(name)).collect())
}

/// Lists what sessions have kept among the tools in a container.
///
/// # Errors
/// [`EngineError`], such as that of a container which is not there.
pub fn kept(home: &Home, wanted: &str) -> Result<Vec<KeptTools>, EngineError> {
    let of = |dir: PathBuf| {
        let path = dir.join(OF);
        let tools = match std::fs::read_to_string(&path) {
            // A session that was killed at its beginning has written nothing.
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            tools => tools.map_err(EngineError::file("read", &path))?,
        };
        let bytes = bytes_below(&dir.join("upper"));
        Ok(KeptTools { tools, bytes })
    };
    layers(home, wanted)?.into_iter().map(of).collect()
}

/// Adds up the files below a directory, as far as this user may look: it is a figure for people.
fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => std::os::unix::fs::MetadataExt::blocks(&found).saturating_mul(512),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Removes what sessions have kept among the tools in a container.
///
/// # Errors
/// [`KeepError::Kept`] if a session has it; the others are removed then, or not.
pub fn forget_kept(home: &Home, wanted: &str) -> Result<(), EngineError> {
    for dir in layers(home, wanted)? {
        match locked::directory(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(lock) => {
                crate::tree::remove_at(home, &dir)?;
                drop(lock);
            }
            Err(Errno::WOULDBLOCK) => return Err(KeepError::Kept(wanted.to_owned()).into()),
            Err(errno) => return Err(EngineError::file("lock", &dir)(errno)),
        }
    }
    Ok(())
}
