//! Questions about nodes, answered from the store.

use super::graph_error;
use super::place::{GraphRoot, find, graph, roots, starts};
use crate::{EngineError, Home, open_store};
use std::collections::BTreeMap;
use tote_graph::{Changed, Graph, Line, NodeId, Step};
use tote_state::records::Records;

/// A node as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNodeRow {
    /// Name.
    pub name: String,
    /// Version of a package, otherwise empty.
    pub version: String,
    /// Id; `None` for a program of the host, which is known by its path.
    pub id: Option<NodeId>,
    /// `package`, `directory` or `program`.
    pub kind: &'static str,
    /// Bytes of its files.
    pub size: u64,
    /// Number of its files.
    pub files: u64,
    /// Number of nodes that it references.
    pub references: usize,
    /// Names of the imports that keep it.
    pub roots: Vec<String>,
}

/// Lists all nodes, and the programs of the host that were run, by name.
///
/// # Errors
/// [`EngineError`].
pub fn graph_nodes(home: &Home) -> Result<Vec<GraphNodeRow>, EngineError> {
    let graph = graph(&open_store(home)?)?;
    let mut keepers: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    for (_, root) in roots(home)?.whole {
        for id in root.nodes {
            keepers.entry(id).or_default().push(root.name.clone());
        }
    }
    let mut rows: Vec<GraphNodeRow> = graph
        .iter()
        .map(|(id, node)| GraphNodeRow {
            name: node.name.clone(),
            version: node.version.clone(),
            id: Some(*id),
            kind: node.kind.word(),
            size: node.size,
            files: node.files,
            references: node.references.len() + node.within.len(),
            roots: keepers.remove(id).unwrap_or_default(),
        })
        .collect();
    for node in starts(home)?
        .whole
        .into_iter()
        .filter_map(|(_, start)| start.node)
    {
        rows.push(GraphNodeRow {
            name: node.name.clone(),
            version: String::new(),
            id: None,
            kind: node.kind.word(),
            size: node.size,
            files: node.files,
            references: 0,
            roots: Vec::new(),
        });
    }
    rows.sort_by(|one, other| {
        (&one.name, &one.version, one.id).cmp(&(&other.name, &other.version, other.id))
    });
    rows.dedup_by(|one, other| one.id.is_none() && one == other);
    Ok(rows)
}

/// Lists what was imported.
///
/// # Errors
/// [`EngineError`].
pub fn graph_roots(home: &Home) -> Result<Records<GraphRoot>, EngineError> {
    roots(home)
}

/// Returns the closure of a node as a tree, with the graph that has its nodes.
///
/// # Errors
/// [`EngineError`].
pub fn graph_tree(home: &Home, node: &str) -> Result<(Graph, Vec<Line>), EngineError> {
    let graph = graph(&open_store(home)?)?;
    let id = find(home, &graph, node)?;
    let tree = graph.tree(&id).map_err(graph_error)?;
    Ok((graph, tree))
}

/// Returns a shortest way from one node to another one; `None` if no references lead there.
///
/// # Errors
/// [`EngineError`].
pub fn graph_why(home: &Home, from: &str, to: &str) -> Result<(Graph, Option<Vec<Step>>), EngineError> {
    let graph = graph(&open_store(home)?)?;
    let from = find(home, &graph, from)?;
    // Among several of that name, the one that the first node leads to is meant.
    let closure = graph.closure(&[from]).map_err(graph_error)?;
    let to = match graph.find(to, &|id| closure.contains(id)) {
        Ok(id) => id,
        Err(_) => find(home, &graph, to)?,
    };
    let way = graph.why(&from, &to).map_err(graph_error)?;
    Ok((graph, way))
}

/// Compares the closures of two nodes.
///
/// # Errors
/// [`EngineError`].
pub fn graph_diff(home: &Home, before: &str, after: &str) -> Result<(Graph, Vec<Changed>), EngineError> {
    let graph = graph(&open_store(home)?)?;
    let (before, after) = (find(home, &graph, before)?, find(home, &graph, after)?);
    let changed = graph.diff(&[before], &[after]).map_err(graph_error)?;
    Ok((graph, changed))
}
