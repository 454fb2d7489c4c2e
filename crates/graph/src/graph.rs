//! Questions about nodes.

use crate::node::{Node, NodeId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use tote_image::Digest;

/// Reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// No node has this name or id.
    #[error("no node is named {0}")]
    NoNode(String),
    /// Several nodes have this name, or ids that begin so.
    #[error("{text} is the name of several nodes: {}", .nodes.join(", "))]
    Ambiguous {
        /// The name.
        text: String,
        /// The nodes as `NAME=VERSION (ID)`.
        nodes: Vec<String>,
    },
    /// A node of the closure is gone.
    #[error("node {from} needs {missing}, which is gone")]
    Missing {
        /// Name of the node.
        from: String,
        /// Id or name of the other one.
        missing: String,
    },
}

/// Nodes by id.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: BTreeMap<NodeId, Node>,
    members: HashMap<(Digest, String), NodeId>,
}

/// A reference on a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The node with the reference.
    pub from: NodeId,
    /// The node that it leads to.
    pub to: NodeId,
    /// Reason, for people.
    pub why: String,
}

/// A line of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of nodes above.
    pub depth: usize,
    /// The node.
    pub id: NodeId,
    /// Reason of the reference; empty for the first node.
    pub why: String,
    /// True if the node's references stand elsewhere in the tree.
    pub is_repeated: bool,
}

/// A difference of two closures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Name of the nodes.
    pub name: String,
    /// The node of the first closure.
    pub before: Option<NodeId>,
    /// The node of the second one.
    pub after: Option<NodeId>,
}

impl Graph {
    /// Adds a node.
    pub fn insert(&mut self, id: NodeId, node: Node) {
        if let Some(cycle) = node.cycle {
            self.members.insert((cycle, node.name.clone()), id);
        }
        self.nodes.insert(id, node);
    }

    /// Returns a node.
    #[must_use]
    pub fn get(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Iterates over all nodes, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeId, &Node)> {
        self.nodes.iter()
    }

    /// Returns the references of a node.
    ///
    /// # Errors
    /// [`GraphError::NoNode`], [`GraphError::Missing`].
    pub fn references(&self, id: &NodeId) -> Result<Vec<(NodeId, &str)>, GraphError> {
        let node = self
            .get(id)
            .ok_or_else(|| GraphError::NoNode(id.short().clone()))?;
        let missing = |missing: String| GraphError::Missing {
            from: node.name.clone(),
            missing,
        };
        let mut found = Vec::new();
        for reference in &node.references {
            if !self.nodes.contains_key(&reference.to) {
                return Err(missing(reference.to.short()));
            }
            found.push((reference.to, reference.why.as_str()));
        }
        for within in &node.within {
            let member = node
                .cycle
                .and_then(|cycle| self.members.get(&(cycle, within.name.clone())));
            let member = member.ok_or_else(|| missing(within.name.clone()))?;
            found.push((*member, within.why.as_str()));
        }
        Ok(found)
    }

    /// Returns these nodes and all that they need, each once, what is needed first except in cycles.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn closure(&self, roots: &[NodeId]) -> Result<Vec<NodeId>, GraphError> {
        let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
        for root in roots {
            let mut way = vec![(*root, false)];
            while let Some((id, is_done)) = way.pop() {
                if is_done {
                    order.push(id);
                    continue;
                }
                if !seen.insert(id) {
                    continue;
                }
                way.push((id, true));
                for (to, _) in self.references(&id)?.into_iter().rev() {
                    if !seen.contains(&to) {
                        way.push((to, false));
                    }
                }
            }
        }
        Ok(order)
    }

    /// Returns a shortest way from one node to another one; `None` if no references lead there.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn why(&self, from: &NodeId, to: &NodeId) -> Result<Option<Vec<Step>>, GraphError> {
        let mut came: BTreeMap<NodeId, Option<Step>> = BTreeMap::from([(*from, None)]);
        let mut queue = VecDeque::from([*from]);
        while let Some(id) = queue.pop_front() {
            if id == *to {
                let (mut way, mut at) = (Vec::new(), id);
                while let Some(Some(step)) = came.get(&at) {
                    way.push(step.clone());
                    at = step.from;
                }
                way.reverse();
                return Ok(Some(way));
            }
            for (next, why) in self.references(&id)? {
                if let Entry::Vacant(vacant) = came.entry(next) {
                    vacant.insert(Some(Step {
                        from: id,
                        to: next,
                        why: why.to_owned(),
                    }));
                    queue.push_back(next);
                }
            }
        }
        Ok(None)
    }

    /// Returns the closure of a node as a tree; the references of each node stand in it once.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn tree(&self, root: &NodeId) -> Result<Vec<Line>, GraphError> {
        let (mut lines, mut told) = (Vec::new(), BTreeSet::new());
        let mut way = vec![(0, *root, String::new())];
        while let Some((depth, id, why)) = way.pop() {
            let references = self.references(&id)?;
            let is_new = told.insert(id);
            lines.push(Line {
                depth,
                id,
                why,
                is_repeated: !is_new && !references.is_empty(),
            });
            if is_new {
                let below = references
                    .into_iter()
                    .rev()
                    .map(|(to, why)| (depth + 1, to, why.to_owned()));
                way.extend(below);
            }
        }
        Ok(lines)
    }

    /// Finds a node by `NAME`, `NAME=VERSION`, or an id or its beginning of at least 4 digits. `prefer` decides between
    /// several of one name: the nodes that it is true for come first.
    ///
    /// # Errors
    /// [`GraphError::NoNode`], [`GraphError::Ambiguous`].
    pub fn find(&self, text: &str, prefer: &dyn Fn(&NodeId) -> bool) -> Result<NodeId, GraphError> {
        let is_named = |node: &Node| match text.split_once('=') {
            Some((name, version)) => node.name == name && node.version == version,
            None => node.name == text,
        };
        let mut found: Vec<&NodeId> = self
            .iter()
            .filter(|(_, node)| is_named(node))
            .map(|(id, _)| id)
            .collect();
        if found.is_empty() {
            let digits = text.strip_prefix("sha256:").unwrap_or(text);
            let is_id = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            found = self
                .nodes
                .keys()
                .filter(|id| is_id && id.hex().starts_with(digits))
                .collect();
        }
        if found.len() > 1 && found.iter().any(|id| prefer(id)) {
            found.retain(|id| prefer(id));
        }
        match found[..] {
            [] => Err(GraphError::NoNode(text.to_owned())),
            [id] => Ok(*id),
            _ => Err(GraphError::Ambiguous {
                text: text.to_owned(),
                nodes: found.iter().map(|id| self.title(id)).collect(),
            }),
        }
    }

    /// The program that a node stands for: the one of its name, in itself or in its closure, or else its only one.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn program(&self, id: &NodeId) -> Result<Option<&str>, GraphError> {
        let node = self.get(id).ok_or_else(|| GraphError::NoNode(id.short()))?;
        let name = node.title_program();
        if let Some(program) = node.program_named(name) {
            return Ok(Some(program));
        }
        let closure = self.closure(&[*id])?;
        let others = closure.iter().filter_map(|id| self.get(id));
        let named = others.filter_map(|other| other.program_named(name)).next();
        let only = || node.programs.first().filter(|_| node.programs.len() == 1);
        Ok(named.or_else(|| only().map(String::as_str)))
    }

    /// A node for people: `NAME=VERSION (ID)`.
    #[must_use]
    pub fn title(&self, id: &NodeId) -> String {
        match self.get(id) {
            Some(node) if node.version.is_empty() => format!("{} ({})", node.name, id.short()),
            Some(node) => format!("{}={} ({})", node.name, node.version, id.short()),
            None => id.short(),
        }
    }

    /// Compares two closures by the names of their nodes.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn diff(&self, before: &[NodeId], after: &[NodeId]) -> Result<Vec<Changed>, GraphError> {
        let mut names: BTreeMap<String, [BTreeSet<NodeId>; 2]> = BTreeMap::new();
        for (side, roots) in [before, after].into_iter().enumerate() {
            for id in self.closure(roots)? {
                let name = self.get(&id).map(|node| node.name.clone()).unwrap_or_default();
                names.entry(name).or_default()[side].insert(id);
            }
        }
        let mut changed = Vec::new();
        for (name, [mut before, mut after]) in names {
            let same: Vec<NodeId> = before.intersection(&after).copied().collect();
            for id in same {
                before.remove(&id);
                after.remove(&id);
            }
            let (mut before, mut after) = (before.into_iter(), after.into_iter());
            loop {
                let pair = (before.next(), after.next());
                if pair == (None, None) {
                    break;
                }
                changed.push(Changed {
                    name: name.clone(),
                    before: pair.0,
                    after: pair.1,
                });
            }
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::seal;
    use crate::seal::tests::{draft, hash};
    use proptest::prelude::*;

    fn graph(edges: &[(usize, usize)]) -> (Graph, Vec<NodeId>) {
        let mut drafts: Vec<_> = (0..8).map(|at| draft(&format!("n{at}"), &[])).collect();
        for &(from, to) in edges {
            drafts[from].references.insert(to, format!("{from} to {to}"));
        }
        let mut graph = Graph::default();
        for (id, node) in seal(&drafts, hash) {
            graph.insert(id, node);
        }
        let ids = (0..8).map(|at| graph.find(&format!("n{at}"), &|_| true).unwrap());
        let ids = ids.collect();
        (graph, ids)
    }

    proptest! {
        #[test]
        fn a_closure_is_what_can_be_reached(edges in prop::collection::vec((0usize..8, 0usize..8), 0..24)) {
            let (graph, ids) = graph(&edges);
            let mut reached = [false; 8];
            reached[0] = true;
            for _ in 0..8 {
                for &(from, to) in &edges {
                    reached[to] |= reached[from];
                }
            }
            let closure = graph.closure(&ids[..1]).unwrap();
            for at in 0..8 {
                prop_assert_eq!(closure.iter().filter(|id| **id == ids[at]).count(), usize::from(reached[at]));
                let way = graph.why(&ids[0], &ids[at]).unwrap();
                prop_assert_eq!(way.is_some(), reached[at]);
                for step in way.unwrap_or_default() {
                    prop_assert!(graph.references(&step.from).unwrap().iter().any(|(to, _)| *to == step.to));
                }
            }
            prop_assert!(graph.diff(&ids[..1], &ids[..1]).unwrap().is_empty());
        }
    }

    #[test]
    fn what_is_needed_comes_first() {
        let (graph, ids) = graph(&[(0, 1), (1, 2), (0, 3), (3, 2)]);
        let closure = graph.closure(&ids[..1]).unwrap();
        let place = |at: usize| closure.iter().position(|id| *id == ids[at]).unwrap();
        assert!(place(2) < place(1) && place(1) < place(0) && place(2) < place(3));
    }

    #[test]
    fn a_missing_node_is_told() {
        let (graph, ids) = graph(&[(0, 1)]);
        let mut poor = Graph::default();
        poor.insert(ids[0], graph.get(&ids[0]).unwrap().clone());
        let error = poor.closure(&ids[..1]).unwrap_err();
        assert!(error.to_string().starts_with("node n0 needs "), "{error}");
    }

    #[test]
    fn a_node_stands_for_a_program() {
        let mut drafts: Vec<_> = (0..3).map(|at| draft(&format!("n{at}"), &[])).collect();
        drafts[0].programs = vec!["/usr/bin/a".to_owned(), "/usr/bin/b".to_owned()];
        drafts[0].references.insert(1, String::new());
        drafts[1].programs.push("/usr/sbin/n0".to_owned());
        drafts[2].programs = vec!["/bin/other".to_owned()];
        drafts.push(draft("n0/b,a", &[]));
        drafts[3].kind = crate::NodeKind::Program;
        drafts[3].programs = vec!["/usr/bin/a".to_owned(), "/usr/bin/b".to_owned()];
        let mut graph = Graph::default();
        for (id, node) in seal(&drafts, hash) {
            graph.insert(id, node);
        }
        for (name, program) in [
            ("n0", "/usr/sbin/n0"),
            ("n1", "/usr/bin/n1"),
            ("n2", "/bin/other"),
            ("n0/b,a", "/usr/bin/b"),
        ] {
            let id = graph.find(name, &|_| true).unwrap();
            assert_eq!(graph.program(&id).unwrap(), Some(program), "{name}");
        }
    }

    #[test]
    fn nodes_are_found() {
        let (graph, ids) = graph(&[]);
        assert_eq!(graph.find("n3=1", &|_| true).unwrap(), ids[3]);
        assert_eq!(graph.find(&ids[4].hex()[..16], &|_| true).unwrap(), ids[4]);
        assert!(matches!(graph.find("n9", &|_| true), Err(GraphError::NoNode(_))));
        assert!(matches!(
            graph.find("n3=2", &|_| true),
            Err(GraphError::NoNode(_))
        ));
    }
}
