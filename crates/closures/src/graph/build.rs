//! Totefiles: an environment in one file becomes a node, and an image.

use super::GraphFault;
use super::closure::image_with;
use super::import::open_dir;
use super::parts::add_files;
use super::place::{GraphRoot, forget_starts, graph, keep_newer, lock, path_in, roots_dir};
use super::programs::find_or_make;
use crate::{EngineError, Home, open_store};
use rustix::fd::AsFd as _;
use std::path::Path;
use tote_graph::{Node, NodeId, NodeKind, Reference as NodeReference, Totefile};
use tote_image::{Digest, ImageConfig, Reference};
use tote_images::or_nothing;
use tote_state::record;
use tote_store::Store;

/// Result of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TotefileBuilt {
    /// Its node.
    pub node: NodeId,
    /// Its image.
    pub image: Digest,
    /// Name of the image, if it got one.
    pub name: Option<String>,
}

/// Builds a Totefile. `dir` is the directory of its files. This process must have the ids of the files' owners.
///
/// # Errors
/// [`EngineError`]; no name has changed then.
pub fn build_totefile(
    home: &Home,
    file: &Path,
    dir: &Path,
    name: Option<&str>,
) -> Result<TotefileBuilt, EngineError> {
    let text = std::fs::read_to_string(file).map_err(EngineError::file("read", file))?;
    let parsed = Totefile::parse(&text).map_err(|source| GraphFault::Totefile {
        path: file.to_owned(),
        source,
    })?;
    let given = name.map(str::to_owned).filter(|name| !name.is_empty());
    let name = given.or_else(|| Some(parsed.name.clone()).filter(|name| !name.is_empty()));
    let reference = name.as_deref().map(Reference::parse).transpose()?;
    let _lock = lock(home)?;
    let store = open_store(home)?;
    or_nothing(&store, add(home, &store, (&parsed, dir), reference.as_ref()))
}

fn add(
    home: &Home,
    store: &Store,
    (file, dir): (&Totefile, &Path),
    name: Option<&Reference>,
) -> Result<TotefileBuilt, EngineError> {
    let mut graph = graph(store)?;
    let mut references = Vec::new();
    for package in &file.packages {
        references.push(NodeReference {
            to: find_or_make(home, store, &mut graph, package)?,
            why: format!("packages has {package}"),
        });
    }
    references.sort();
    references.dedup_by(|one, other| one.to == other.to);
    let ingest = store.ingest_at_once()?;
    let made = add_files(&ingest, open_dir(dir)?.as_fd(), &file.files, &file.writable)?;
    let title = match name {
        Some(name) => name.familiar(),
        None => made.layer.diff_id.short(),
    };
    let node = Node {
        name: "totefile".to_owned(),
        version: String::new(),
        kind: NodeKind::Directory,
        layer: made.layer.diff_id,
        size: made.layer.sizes.size,
        files: made.layer.sizes.files,
        programs: made.programs,
        references,
        within: Vec::new(),
        cycle: None,
    };
    let id = ingest.node(&node.to_json())?;
    graph.insert(id, node);
    let mut config = ImageConfig::default();
    config.config.cmd.clone_from(&file.command);
    config.config.user.clone_from(&file.user);
    config.config.working_dir.clone_from(&file.workdir);
    config.config.volumes = file.writable.iter().cloned().collect();
    let lines = file.env.iter().map(|(name, value)| format!("{name}={value}"));
    config.config.env = lines.collect();
    let image = image_with(&ingest, &graph, &[id], config)?;
    let root = GraphRoot {
        name: format!("totefile:{title}"),
        nodes: vec![id],
        created: record::now(),
    };
    let path = path_in(roots_dir(home), &root.name);
    keep_newer(&root.name, &path)?;
    forget_starts(home)?;
    record::write(&path, &root)?;
    if let Some(name) = name {
        ingest.tag(name, &image)?;
    }
    Ok(TotefileBuilt {
        node: id,
        image,
        name: name.map(Reference::familiar),
    })
}
