//! `nodes/`: documents of parts of roots, each with one layer, which stays as long as the document does.

use crate::StoreError;
use crate::dir::Dir;
use crate::error::or_damaged;
use crate::ingest::Ingest;
use crate::key::ContentHash;
use crate::layer;
use crate::store::{Store, sha256, sha256_hex};
use rustix::io::Errno;
use serde::Deserialize;
use std::collections::HashSet;
use tote_archive::Change;
use tote_image::Digest;

pub(crate) const NODES: &str = "nodes";
/// Maximum size of a document in bytes.
const LIMIT: u64 = 16 << 20;

/// The part of a document that the store must know.
#[derive(Deserialize)]
struct Document {
    layer: Digest,
}

/// Content of a file of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileContent {
    /// Hash of its bytes, by which the store names them.
    pub hash: ContentHash,
    /// Number of its bytes.
    pub size: u64,
}

impl Store {
    /// Reads the documents of all nodes, with their digests. Damaged ones are left out.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn nodes(&self) -> Result<Vec<(Digest, Vec<u8>)>, StoreError> {
        let Some(dir) = self.nodes_dir()? else {
            return Ok(Vec::new());
        };
        let mut nodes = Vec::new();
        for name in dir.names()? {
            let Ok(id) = format!("sha256:{name}").parse::<Digest>() else {
                continue;
            };
            // Another command may just have removed it.
            let document = dir.read(&name, LIMIT)?;
            nodes.extend(
                document
                    .filter(|bytes| sha256(bytes) == id)
                    .map(|bytes| (id, bytes)),
            );
        }
        Ok(nodes)
    }

    /// Removes the document of a node. The next sweep removes its layer, if no other node and no image has it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove_node(&self, id: &Digest) -> Result<(), StoreError> {
        let Some(dir) = self.nodes_dir()? else {
            return Ok(());
        };
        self.note_garbage()?;
        let name = sha256_hex(id)?;
        dir.unlink(&name).map_err(dir.failed("remove", name))
    }

    /// Removes the documents that are not what their names say, as a power cut leaves them. Returns their number.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove_damaged_nodes(&self) -> Result<u64, StoreError> {
        let damaged = self.damaged_nodes()?;
        let Some(dir) = self.nodes_dir()?.filter(|_| !damaged.is_empty()) else {
            return Ok(0);
        };
        self.note_garbage()?;
        let mut removed = 0;
        for name in damaged {
            dir.remove_tree(&name)?;
            removed += 1;
        }
        Ok(removed)
    }

    /// Lists the names of documents that are not what these say.
    pub(crate) fn damaged_nodes(&self) -> Result<Vec<String>, StoreError> {
        let Some(dir) = self.nodes_dir()? else {
            return Ok(Vec::new());
        };
        let mut damaged = Vec::new();
        for name in dir.names()? {
            let Ok(id) = format!("sha256:{name}").parse::<Digest>() else {
                continue;
            };
            // Another command may just have removed it.
            let document = dir.read(&name, LIMIT)?;
            if document.is_some_and(|bytes| sha256(&bytes) != id) {
                damaged.push(name);
            }
        }
        Ok(damaged)
    }

    /// Returns the contents of a layer's files, in the order of the layer; none for a layer that is lost or damaged.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn layer_files(&self, diff_id: &Digest) -> Result<Vec<FileContent>, StoreError> {
        let Some(dir) = self.layer_dir(diff_id)? else {
            return Ok(Vec::new());
        };
        let stored = or_damaged(layer::contents(&dir))?.unwrap_or_default();
        let content = |stored: layer::Stored| FileContent {
            hash: stored.key.content,
            size: stored.size,
        };
        Ok(stored.into_iter().map(content).collect())
    }

    /// Returns the paths that a layer adds, in its order, without the root; none for a layer that is lost.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn layer_paths(&self, diff_id: &Digest) -> Result<Vec<Box<[u8]>>, StoreError> {
        let Some(dir) = self.layer_dir(diff_id)? else {
            return Ok(Vec::new());
        };
        let mut paths: Vec<Box<[u8]>> = Vec::new();
        layer::changes(&dir, diff_id, |change, _| {
            if let Change::Add(entry) = change
                && !entry.path.is_root()
            {
                paths.push(entry.path.as_bytes().into());
            }
            Ok(())
        })?;
        Ok(paths)
    }

    /// Layers that nodes have.
    pub(crate) fn layers_of_nodes(&self) -> Result<HashSet<Digest>, StoreError> {
        let documents = self.nodes()?;
        let parsed = documents
            .iter()
            .filter_map(|(_, bytes)| serde_json::from_slice::<Document>(bytes).ok());
        Ok(parsed.map(|document| document.layer).collect())
    }

    /// The directory, once there was a node.
    pub(crate) fn nodes_dir(&self) -> Result<Option<Dir>, StoreError> {
        match self.root.enter(NODES) {
            Err(error) if error.errno() == Some(Errno::NOENT) => Ok(None),
            entered => entered.map(Some),
        }
    }
}

impl Ingest<'_> {
    /// Adds the document of a node, whose layer must be there. Returns its digest.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`] and others.
    pub fn node(&self, document: &[u8]) -> Result<Digest, StoreError> {
        let store = self.store();
        let id = sha256(document);
        let parsed: Document = serde_json::from_slice(document)
            .map_err(|_| StoreError::damaged(store.root.path().join(NODES), "it names no layer"))?;
        if store.layer(&parsed.layer)?.is_none() {
            return Err(StoreError::NoLayer(parsed.layer));
        }
        let dir = store.root.enter_or_make(NODES, 0o700)?;
        dir.write(&sha256_hex(&id)?, document)?;
        Ok(id)
    }
}
