//! Records of closures below the state root, and the graph of all nodes.

use super::GraphFault;
use crate::{EngineError, Home};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Stat};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::PathBuf;
use tote_graph::{Graph, Node, NodeId, Profile};
use tote_image::Digest;
use tote_state::{closed, locked, record};
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
    pub(super) fn of(path: impl rustix::path::Arg) -> Option<Self> {
        Some(Self::from(rustix::fs::lstat(path).ok()?))
    }

    /// State of a path of a directory.
    pub(super) fn at(dir: BorrowedFd<'_>, path: &str) -> Option<Self> {
        let stat = rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Self::from(stat))
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

/// Reads everything that was imported, sorted by name.
pub(super) fn roots(home: &Home) -> Result<Vec<GraphRoot>, EngineError> {
    let mut roots = Vec::new();
    for name in record::names_in(&roots_dir(home))? {
        if !name.contains('.') {
            roots.extend(record::read::<GraphRoot>(&roots_dir(home).join(name))?);
        }
    }
    roots.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(roots)
}

/// Reads all profiles, sorted by name.
pub(super) fn profiles(home: &Home) -> Result<Vec<(String, Profile)>, EngineError> {
    let mut profiles = Vec::new();
    for name in record::names_in(&profiles_dir(home))? {
        let Some(file) = name.strip_suffix(".json") else {
            continue;
        };
        let profile = record::read::<Profile>(&profiles_dir(home).join(&name))?;
        profiles.extend(profile.map(|profile| (file.to_owned(), profile)));
    }
    profiles.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(profiles)
}

/// Reads the records of starts.
pub(super) fn starts(home: &Home) -> Result<Vec<(PathBuf, StartRecord)>, EngineError> {
    let mut starts = Vec::new();
    for name in record::names_in(&starts_dir(home))? {
        let path = starts_dir(home).join(name);
        // What cannot be read is found out again.
        if let Ok(Some(start)) = record::read(&path) {
            starts.push((path, start));
        }
    }
    Ok(starts)
}

/// Forgets which closures texts stand for, because that is about to change. The caller holds the lock, and so does who
/// finds it out.
pub(super) fn forget_starts(home: &Home) -> Result<(), EngineError> {
    for (path, start) in starts(home)? {
        if !start.text.starts_with("host:") {
            std::fs::remove_file(&path).map_err(EngineError::file("remove", path))?;
        }
    }
    Ok(())
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
        let mut roots = roots(home)?;
        roots.sort_by_key(|root| std::cmp::Reverse(root.created));
        for root in roots {
            if let Ok(id) = graph.find(text, &|id| root.nodes.contains(id))
                && root.nodes.contains(&id)
            {
                return Ok(id);
            }
        }
    }
    Ok(found.map_err(GraphFault::from)?)
}
