//! Removal of what nothing keeps: roots and profiles keep nodes, nodes keep layers.

use super::place::{forget_starts, graph, lock, path_in, profiles_dir, roots, roots_dir, starts, starts_dir};
use super::{CLOSURE_LABEL, GraphFault, profile};
use crate::{EngineError, Home, open_store, remove_images};
use std::collections::BTreeSet;
use tote_graph::{Graph, NodeId};
use tote_image::Digest;
use tote_state::record;
use tote_store::{Patience, Store};

/// Result of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphCollected {
    /// Nodes.
    pub nodes: u64,
    /// Images of closures.
    pub images: u64,
    /// Bytes of files.
    pub bytes: u64,
}

/// Forgets an import: nodes that nothing else keeps go with the next [`graph_collect`].
///
/// # Errors
/// [`GraphFault::NoRoot`] and others.
pub fn graph_forget(home: &Home, name: &str) -> Result<(), EngineError> {
    let _lock = lock(home)?;
    let path = path_in(roots_dir(home), name);
    if !record::is_there(&path)? {
        return Err(GraphFault::NoRoot(name.to_owned()).into());
    }
    forget_starts(home)?;
    std::fs::remove_file(&path).map_err(EngineError::file("remove", path))
}

/// Removes nodes and images of closures that nothing keeps, and then what the store has only for them. This process must
/// have the ids of the files' owners.
///
/// # Errors
/// [`EngineError`].
pub fn graph_collect(home: &Home) -> Result<GraphCollected, EngineError> {
    let lock = lock(home)?;
    let store = open_store(home)?;
    let graph = graph(&store)?;
    let kept = kept(home, &graph)?;
    let mut collected = GraphCollected::default();
    remove_unfinished(home)?;
    let mut images: BTreeSet<Digest> = profile::kept(home)?
        .iter()
        .map(|generation| generation.image)
        .collect();
    for (path, start) in starts(home)? {
        match holds(&store, &graph, &kept, &start)? {
            true => drop(images.insert(start.image)),
            false => std::fs::remove_file(&path).map_err(EngineError::file("remove", path))?,
        }
    }
    // Documents go before layers: a document without its layer would be a node that cannot run.
    for (id, _) in graph.iter().filter(|(id, _)| !kept.contains(id)) {
        store.remove_node(id)?;
        collected.nodes += 1;
    }
    let unused = unused_images(&store, &images)?;
    let mut removed = 0;
    // Those that containers have stay. The lock is held, so that no start is given an image that goes now.
    remove_images(home, &unused, &[], false, &mut |done| {
        removed += u64::from(done.is_ok());
    })?;
    collected.images = removed;
    drop(lock);
    if let Some(swept) = store.sweep(Patience::Endless)? {
        collected.bytes = swept.bytes;
    }
    Ok(collected)
}

/// The nodes that roots and profiles keep, with all that they need. What is damaged keeps what is known of it.
fn kept(home: &Home, graph: &Graph) -> Result<BTreeSet<NodeId>, EngineError> {
    let mut queue: Vec<NodeId> = roots(home)?.into_iter().flat_map(|root| root.nodes).collect();
    queue.extend(
        profile::kept(home)?
            .into_iter()
            .flat_map(|generation| generation.nodes),
    );
    let mut kept = BTreeSet::new();
    while let Some(id) = queue.pop() {
        if kept.insert(id) {
            match graph.references(&id) {
                Ok(references) => queue.extend(references.into_iter().map(|(to, _)| to)),
                // Another node of it is gone: the others are still there.
                Err(_) => queue.extend(
                    graph
                        .get(&id)
                        .iter()
                        .flat_map(|node| node.references.iter().map(|reference| reference.to)),
                ),
            }
        }
    }
    Ok(kept)
}

/// Removes records that a killed command has not put in place: the lock is held, so no command is at it.
fn remove_unfinished(home: &Home) -> Result<(), EngineError> {
    for dir in [roots_dir(home), profiles_dir(home), starts_dir(home)] {
        for name in record::names_in(&dir)? {
            if name.ends_with(".new") {
                let path = dir.join(name);
                std::fs::remove_file(&path).map_err(EngineError::file("remove", path))?;
            }
        }
    }
    Ok(())
}

fn holds(
    store: &Store,
    graph: &Graph,
    kept: &BTreeSet<NodeId>,
    start: &super::place::StartRecord,
) -> Result<bool, EngineError> {
    let image = match store.image(&start.image) {
        Err(tote_store::StoreError::NoImage(_)) => return Ok(false),
        image => image?,
    };
    if start.node.is_some() {
        return Ok(start.files.iter().all(|file| {
            !file.path.starts_with("/usr/") || super::place::Stamp::of(&file.path) == Some(file.stamp)
        }));
    }
    let label = image.config.value().config.labels.get(CLOSURE_LABEL);
    let ids = label.into_iter().flat_map(|label| label.split(' '));
    let mut ids = ids.filter_map(|id| id.parse::<NodeId>().ok());
    Ok(ids.all(|id| kept.contains(&id) && graph.get(&id).is_some()))
}

/// Images of closures without a name that nothing remembers.
fn unused_images(store: &Store, remembered: &BTreeSet<Digest>) -> Result<Vec<String>, EngineError> {
    let named: BTreeSet<Digest> = store.names()?.into_iter().map(|(_, id)| id).collect();
    let unused = store.images()?.into_iter().filter(|image| {
        let labels = &image.config.value().config.labels;
        labels.contains_key(CLOSURE_LABEL) && !named.contains(&image.id) && !remembered.contains(&image.id)
    });
    Ok(unused.map(|image| image.id.to_string()).collect())
}
