//! Records of closures below the state root, and the graph of all nodes.

use super::GraphFault;
use crate::{EngineError, Home};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Stat};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use tote_graph::{Graph, Node, NodeId, Profile};
use tote_image::Digest;
use tote_state::record::{Damaged, Kind};
use tote_state::records::{self, Records};
use tote_state::{StateError, closed, locked, record};
use tote_store::{Store, sha256};

/// Record of an import: its nodes stay as long as the record does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphRoot {
    /// Name of the source, as it was given.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<NodeId>,
    /// Time in nanoseconds since 1970.
    pub created: u64,
}

/// The image of a closure, and what it was made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StartRecord {
    /// Text that was asked for.
    pub text: String,
    pub image: Digest,
    pub program: Option<String>,
    /// The node of a program of the host; none for a closure of nodes.
    pub(super) node: Option<Node>,
    /// Files of the host that the image was made of.
    pub files: Vec<HostFile>,
}

/// State of a file, which changes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    inode: u64,
    mtime: (i64, u64),
    ctime: (i64, u64),
    size: i64,
}

/// A file of the host, by which a later start notices that it is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostFile {
    pub path: String,
    pub(super) stamp: Stamp,
}

impl Stamp {
    /// State of a path, whose last link is not followed; `None` if nothing is there.
    pub(super) fn of(path: &str) -> Result<Option<Self>, EngineError> {
        let stat = tote_sys::visible(rustix::fs::lstat(path));
        Ok(stat.map_err(EngineError::file("look at", path))?.map(Self::from))
    }

    /// State of a path of a directory.
    pub(super) fn at(dir: BorrowedFd<'_>, path: &str) -> Result<Option<Self>, EngineError> {
        let stat = rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW);
        let stat = tote_sys::visible(stat).map_err(EngineError::file("look at", path))?;
        Ok(stat.map(Self::from))
    }
}

impl From<Stat> for Stamp {
    fn from(stat: Stat) -> Self {
        Self {
            inode: stat.st_ino,
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            ctime: (stat.st_ctime, stat.st_ctime_nsec),
            size: stat.st_size,
        }
    }
}

pub(super) fn roots_dir(home: &Home) -> PathBuf {
    home.graph().join("roots")
}

pub(super) fn profiles_dir(home: &Home) -> PathBuf {
    home.graph().join("profiles")
}

pub(super) fn starts_dir(home: &Home) -> PathBuf {
    home.graph().join("starts")
}

/// Path of the record of a text.
pub(super) fn path_in(dir: PathBuf, text: &str) -> PathBuf {
    dir.join(sha256(text.as_bytes()).hex())
}

/// Excludes all others that change records, until the file is closed.
pub(super) fn lock(home: &Home) -> Result<File, EngineError> {
    for dir in [
        home.graph(),
        roots_dir(home),
        profiles_dir(home),
        starts_dir(home),
    ] {
        closed::directory(&dir).map_err(EngineError::file("make", dir))?;
    }
    let file = locked::locked_within(&home.graph().join(".lock"), true, Some(tote_sys::WORK_LOCK))?;
    file.ok_or_else(|| EngineError::file("lock", home.graph())(std::io::ErrorKind::WouldBlock))
}

/// Records of imports. One that cannot be used has only the name of its file, which is a hash of its name.
pub(super) const ROOTS: Kind = Kind {
    noun: "import",
    remove: "tote graph rm",
};

pub(super) const PROFILES: Kind = Kind {
    noun: "profile",
    remove: "tote graph profile rm",
};

/// Records of starts, which are found out again: no command removes them, and every loss of one is made good.
const STARTS: Kind = Kind {
    noun: "start",
    remove: "rm",
};

/// Reads everything that was imported, sorted by name.
pub(super) fn roots(home: &Home) -> Result<Records<GraphRoot>, EngineError> {
    let dir = roots_dir(home);
    let place = |file: &str| (!file.contains('.')).then(|| (file.to_owned(), dir.join(file)));
    let mut roots: Records<GraphRoot> = records::list(ROOTS, &dir, place)?;
    roots.whole.sort_by(|one, other| one.1.name.cmp(&other.1.name));
    Ok(roots)
}

/// Makes room for the record of an import: what is lost goes, and what a newer tote has written stays.
///
/// # Errors
/// [`StateError::Damaged`] for the record of a newer tote.
pub(super) fn keep_newer(name: &str, path: &Path) -> Result<(), EngineError> {
    match ROOTS.read::<GraphRoot>(name, path) {
        Err(StateError::Damaged(damaged)) => {
            damaged.removable(false).map_err(StateError::from)?;
            Ok(record::remove(path)?)
        }
        read => Ok(read.map(drop)?),
    }
}

/// Reads all profiles, sorted by name.
pub(super) fn profiles(home: &Home) -> Result<Records<Profile>, EngineError> {
    let dir = profiles_dir(home);
    let place = |file: &str| Some((file.strip_suffix(".json")?.to_owned(), dir.join(file)));
    Ok(records::list(PROFILES, &dir, place)?)
}

/// Reads the records of starts.
pub(super) fn starts(home: &Home) -> Result<Records<StartRecord>, EngineError> {
    let dir = starts_dir(home);
    let place = |file: &str| (!file.contains('.')).then(|| (file.to_owned(), dir.join(file)));
    Ok(records::list(STARTS, &dir, place)?)
}

/// Removes the record of a start.
pub(super) fn forget_start(home: &Home, file: &str) -> Result<(), EngineError> {
    Ok(record::remove(&starts_dir(home).join(file))?)
}

/// Forgets which closures texts stand for, because that is about to change. The caller holds the lock, and so does who
/// finds it out.
pub(super) fn forget_starts(home: &Home) -> Result<(), EngineError> {
    let starts = starts(home)?;
    for (file, start) in starts.whole {
        if !start.text.starts_with("host:") {
            forget_start(home, &file)?;
        }
    }
    forget_lost(home, &starts.damaged)
}

/// Removes the records of starts that cannot be used: they are found out again. Those of a newer tote stay.
pub(super) fn forget_lost(home: &Home, damaged: &[Damaged]) -> Result<(), EngineError> {
    let mut lost = damaged.iter().filter(|damaged| damaged.why.is_lost());
    lost.try_for_each(|damaged| forget_start(home, &damaged.name))
}

/// Reads all nodes.
pub(super) fn graph(store: &Store) -> Result<Graph, EngineError> {
    let mut graph = Graph::default();
    for (id, document) in store.nodes()? {
        if let Ok(node) = serde_json::from_slice::<Node>(&document) {
            graph.insert(id, node);
        }
    }
    Ok(graph)
}

/// Finds a node by its name or id. Of several with a name, those that were imported last come first.
pub(super) fn find(home: &Home, graph: &Graph, text: &str) -> Result<NodeId, EngineError> {
    let found = graph.find(text, &|_| false);
    if let Err(tote_graph::GraphError::Ambiguous { .. }) = found {
        let mut roots = roots(home)?.whole;
        roots.sort_by_key(|(_, root)| std::cmp::Reverse(root.created));
        for (_, root) in roots {
            if let Ok(id) = graph.find(text, &|id| root.nodes.contains(id))
                && root.nodes.contains(&id)
            {
                return Ok(id);
            }
        }
    }
    Ok(found.map_err(GraphFault::from)?)
}
