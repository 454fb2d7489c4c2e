//! A node and its document.

use serde::{Deserialize, Serialize};
use tote_image::Digest;

/// Id of a node: the SHA-256 of its document.
pub type NodeId = Digest;

/// A part of a root, with what it needs. Its document is the JSON of these fields in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Name: that of the package, `dir:/PATH`, or `NODE/PROGRAM,PROGRAM`.
    pub name: String,
    /// Version of the package; empty for a directory.
    pub version: String,
    /// Kind of the part.
    pub kind: NodeKind,
    /// Digest of the layer with its files.
    pub layer: Digest,
    /// Bytes of its files.
    pub size: u64,
    /// Number of its files.
    pub files: u64,
    /// Absolute paths of its programs: executable files in directories named `bin` and `sbin`.
    pub programs: Vec<String>,
    /// Nodes that it references, sorted by id.
    pub references: Vec<Reference>,
    /// Nodes of its cycle that it references by name: their ids depend on its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<Within>,
    /// Hash of the cycle, if the node is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Digest>,
}

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// A package of dpkg's or apk's database.
    Package,
    /// A directory, or a part of one.
    Directory,
    /// A program of the host, or some of a package, with everything that they need.
    Program,
}

impl NodeKind {
    /// The kind in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Directory => "directory",
            Self::Program => "program",
        }
    }
}

/// A reference to another node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    /// Id of that node.
    pub to: NodeId,
    /// Reason, for people.
    pub why: String,
}

/// A reference to another node of the same cycle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Within {
    /// Name of that node.
    pub name: String,
    /// Reason, for people.
    pub why: String,
}

impl Node {
    /// Name of the program that it stands for: the first one of a node of programs, or else its own.
    pub(crate) fn title_program(&self) -> &str {
        let last = self
            .name
            .rsplit('/')
            .next()
            .filter(|_| self.kind == NodeKind::Program);
        last.map_or(&*self.name, |names| names.split(',').next().unwrap_or(names))
    }

    /// The document, whose hash is the id.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Only maps with keys that are no texts cannot be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Its program of this name.
    #[must_use]
    pub fn program_named(&self, name: &str) -> Option<&str> {
        let file = |path: &&String| path.rsplit('/').next() == Some(name);
        self.programs.iter().find(file).map(String::as_str)
    }
}
