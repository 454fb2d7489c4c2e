//! Files that sessions have written among the tools, kept for later sessions with the same tools in the same container.
//!
//! It is an upper layer in the container's directory, so it goes with the container, however that goes. Layers of containers of
//! other engines are in a directory of ours, and stay until they are to be forgotten. A session holds a lock on its layer, which
//! the kernel gives back when the session is killed; there is nothing to repair afterwards.
//!
//! Processes of the container can write into a session that has no more rights than they have, and so into its layer. So a session with more
//! rights has another layer, which only sessions with exactly its rights ever use; a layer of an older version, which knew no difference,
//! counts as one of sessions without more rights.

use super::KeepError;
use super::foreign;
use super::noted::{OtherContainer, is_id};
use super::rights::Rights;
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

/// Directory of a container that has the layers.
const LAYERS: &str = "tools";

/// File of a layer that names its tools, with the options that give its sessions more rights on a second line; and of a place for layers that names another engine's container.
const OF: &str = "of";

/// Number of bytes of the longest id that becomes a part of a directory's name.
const LONGEST_ID: usize = 200;

/// A kept layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptTools {
    /// Name of the tools, as `--tools` had it.
    pub tools: String,
    /// Options by which its sessions have more rights than the container; empty for sessions without such options.
    pub rights: String,
    /// Number of bytes that its files take on the disk.
    pub bytes: u64,
}

/// Directory with the layers of a container, and the container's name.
pub(super) struct Layers {
    dir: PathBuf,
    name: String,
}

/// Returns the place for layers of a container of ours.
///
/// # Errors
/// [`KeepError::NotKept`] if the container goes when it ends.
pub(super) fn of_entry(home: &Home, entry: &container::Entry) -> Result<Layers, EngineError> {
    let name = entry.container.display().to_owned();
    if !entry.kept {
        return Err(KeepError::NotKept(name).into());
    }
    let dir = home.container(&entry.container.id).join(LAYERS);
    Ok(Layers { dir, name })
}

/// Makes the place for layers of a container of another engine.
///
/// # Errors
/// [`KeepError::NotKept`] if what the engine says cannot be a name.
pub(super) fn of_other(home: &Home, other: &OtherContainer) -> Result<Layers, EngineError> {
    let OtherContainer {
        engine,
        name,
        id,
        owner,
    } = other;
    let shown = format!("{engine}:{name}");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !id.bytes().all(is_plain) || id.is_empty() || id.starts_with('.') || id.len() > LONGEST_ID {
        return Err(KeepError::NotKept(shown).into());
    }
    let all = home.kept_tools();
    let dir = all.join(format!("{engine}-{owner}-{id}"));
    for path in [&all, &dir] {
        closed::directory(path).map_err(EngineError::file("make", path))?;
    }
    let of = dir.join(OF);
    closed::write(&of, name).map_err(EngineError::file("write", &of))?;
    let dir = dir.join(LAYERS);
    Ok(Layers { dir, name: shown })
}

/// A kept layer that a session uses.
pub(crate) struct Layer {
    dir: PathBuf,
    _lock: OwnedFd,
}

impl Layer {
    /// Opens the layer of these tools in a container for sessions with these rights, and makes it the first time.
    ///
    /// # Errors
    /// [`KeepError::Kept`] if another session has it.
    pub(crate) fn open(
        layers: &Layers,
        tools: &Source,
        image: &Image,
        rights: &Rights,
    ) -> Result<Self, EngineError> {
        let Layers { dir: layers, name } = layers;
        let (key, tools) = match (tools, image) {
            (Source::Host(_), _) => ("host".to_owned(), "host"),
            (source, Image::Stored(name)) => (source.tree_key().unwrap_or_default(), &**name),
            _ => return Err(KeepError::DirectoryKept.into()),
        };
        let dir = layers.join(format!("{}{}", key.replace(':', "-"), rights.suffix()));
        for path in [layers, &dir, &dir.join("work")] {
            closed::directory(path).map_err(EngineError::file("make", path))?;
        }
        let lock = locked::directory(&dir, FlockOperation::NonBlockingLockExclusive);
        let lock = match lock {
            Ok(Some(lock)) => lock,
            Ok(None) => return Err(KeepError::Kept(name.clone()).into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(KeepError::Kept(name.clone()).into());
            }
            Err(error) => return Err(EngineError::file("lock", &dir)(error)),
        };
        let upper = dir.join("upper");
        make_seen(&upper).map_err(EngineError::file("make", &upper))?;
        let of = dir.join(OF);
        let text = match rights.options() {
            options if options.is_empty() => tools.to_owned(),
            options => format!("{tools}\n{options}"),
        };
        closed::write(&of, &text).map_err(EngineError::file("write", &of))?;
        Ok(Self { dir, _lock: lock })
    }

    /// Describes the place of the session's writes.
    pub(crate) fn upper(&self) -> Upper {
        Upper::Dir {
            upper: self.dir.join("upper"),
            work: self.dir.join("work"),
            owned: false,
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

/// Lists the places for layers of a container, which another engine may have removed long ago.
fn places(home: &Home, wanted: &str) -> Result<Vec<PathBuf>, EngineError> {
    let (engine, name, missing) = match foreign::parse(wanted)? {
        Some((engine, name)) => {
            let missing = KeepError::NoneKept(wanted.to_owned()).into();
            (Some(engine.name()), name, missing)
        }
        None => match container::find(home, wanted) {
            Ok(entry) => return Ok(vec![home.container(&entry.container.id)]),
            Err(error) if error.is_missing_container() => (None, wanted, error),
            Err(error) => return Err(error),
        },
    };
    let mut places = Vec::new();
    for dir in tote_state::record::names_in(&home.kept_tools())? {
        let mut parts = dir.splitn(3, '-');
        let (Some(of), Some(_), Some(id)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let place = home.kept_tools().join(&dir);
        // absence: a layer that is not found is said to be missing, and stays
        let is_called = || std::fs::read_to_string(place.join(OF)).is_ok_and(|known| known == name);
        if engine.is_none_or(|engine| engine == of) && (id == name || is_id(name, id) || is_called()) {
            places.push(place);
        }
    }
    if places.is_empty() {
        Err(missing)
    } else {
        Ok(places)
    }
}

/// Lists the directories of the layers of a container.
fn layers(place: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let layers = place.join(LAYERS);
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
        let text = match std::fs::read_to_string(&path) {
            // A session that was killed at its beginning has written nothing.
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.map_err(EngineError::file("read", &path))?,
        };
        let (tools, rights) = text.split_once('\n').unwrap_or((&text, ""));
        Ok::<_, EngineError>(KeptTools {
            tools: tools.to_owned(),
            rights: rights.to_owned(),
            bytes: bytes_below(&dir.join("upper")),
        })
    };
    let mut kept = Vec::new();
    for place in places(home, wanted)? {
        for dir in layers(&place)? {
            kept.push(of(dir)?);
        }
    }
    Ok(kept)
}

/// Adds up the files below a directory, as far as this user may look: it is a figure for people.
fn bytes_below(dir: &Path) -> u64 {
    // absence: a figure for people
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
    for place in places(home, wanted)? {
        for dir in layers(&place)? {
            match locked::directory(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(lock) => {
                    crate::tree::remove_at(home, &dir)?;
                    drop(lock);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(KeepError::Kept(wanted.to_owned()).into());
                }
                Err(error) => return Err(EngineError::file("lock", &dir)(error)),
            }
        }
        if place.starts_with(home.kept_tools()) {
            crate::tree::remove_at(home, &place)?;
        }
    }
    Ok(())
}
