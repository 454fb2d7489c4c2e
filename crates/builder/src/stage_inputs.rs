//! Inputs of stages: commits and downloads.

use super::attest::Material;
use super::checkout::FoundCommit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tote_build::Repository;

/// Repository with the commit that was found.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Commit {
    #[serde(with = "RepositoryForm")]
    pub repository: Repository,
    pub found: FoundCommit,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Repository")]
struct RepositoryForm {
    remote: String,
    reference: String,
    subdir: String,
    checksum: Option<String>,
    keep_git_dir: Option<bool>,
    submodules: bool,
    commit_times: bool,
    by_commit: bool,
}

/// Inputs that attestations list. They come in the order of the stages, whichever of them ends first.
#[derive(Default)]
pub(crate) struct Inputs {
    /// Inputs from before the first stage.
    pub before: Option<Box<(Vec<Commit>, Vec<Material>)>>,
    pub of_stages: BTreeMap<usize, (Vec<Commit>, Vec<Material>)>,
}
