//! Removal of what nothing keeps: roots and profiles keep nodes, nodes keep layers.

use super::place::{
    forget_lost, forget_start, forget_starts, graph, lock, path_in, profiles, profiles_dir, roots, roots_dir,
    starts, starts_dir,
};
use super::{CLOSURE_LABEL, GraphFault, profile};
use crate::{EngineError, Home, open_store, remove_images};
use std::collections::BTreeSet;
use std::path::PathBuf;
use tote_graph::{Graph, NodeId};
use tote_image::Digest;
use tote_state::{StateError, record};
use tote_store::{Patience, Store};

/// Result of a collection.
#[derive(Debug, Default)]
pub struct GraphCollected {
    /// Nodes.
    pub nodes: u64,
    /// Images of closures.
    pub images: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Imports and profiles whose records cannot be used: as long as there is one, all whole nodes stay, because it may keep them.
    pub errors: Vec<EngineError>,
}

/// Forgets an import: nodes that nothing else keeps go with the next [`graph_collect`]. One whose record cannot be used is named as
/// lists name it, too: by the name of its file. One of a newer tote needs `force`.
///
/// # Errors
/// [`GraphFault::NoRoot`] and others.
pub fn graph_forget(home: &Home, name: &str, force: bool) -> Result<(), EngineError> {
    let _lock = lock(home)?;
    let roots = roots(home)?;
    let file = path_in(PathBuf::new(), name);
    let is_it = |other: &str| file.to_str() == Some(other);
    let damaged = roots
        .damaged
        .into_iter()
        .find(|damaged| is_it(&damaged.name) || damaged.name == name);
    let path = match damaged {
        Some(damaged) => {
            let path = roots_dir(home).join(&damaged.name);
            damaged.removable(force).map_err(StateError::from)?;
            path
        }
        None if roots.whole.iter().any(|(other, _)| is_it(other)) => roots_dir(home).join(file),
        None => return Err(GraphFault::NoRoot(name.to_owned()).into()),
    };
    forget_starts(home)?;
    Ok(record::remove(&path)?)
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
    collected.nodes += store.remove_damaged_nodes()?;
    let unread = roots(home)?.damaged.into_iter().chain(profiles(home)?.damaged);
    collected.errors = unread.map(|damaged| StateError::from(damaged).into()).collect();
    if !collected.errors.is_empty() {
        return Ok(collected);
    }
    let mut images: BTreeSet<Digest> = profile::kept(home)?
        .iter()
        .map(|generation| generation.image)
        .collect();
    let starts = starts(home)?;
    for (file, start) in starts.whole {
        match holds(&store, &graph, &kept, &start)? {
            true => drop(images.insert(start.image)),
            false => forget_start(home, &file)?,
        }
    }
    forget_lost(home, &starts.damaged)?;
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
    let roots = roots(home)?.whole.into_iter();
    let mut queue: Vec<NodeId> = roots.flat_map(|(_, root)| root.nodes).collect();
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
        for file in start.files.iter().filter(|file| file.path.starts_with("/usr/")) {
            if super::place::Stamp::of(&file.path)? != Some(file.stamp) {
                return Ok(false);
            }
        }
        return Ok(true);
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
