//! From drafts, which reference one another by number, to nodes, which do so by hash.

use crate::cycles::components;
use crate::node::{Node, NodeId, NodeKind, Reference, Within};
use std::collections::BTreeMap;
use tote_image::Digest;

/// A node whose references have no ids yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Name; no other draft has it.
    pub name: String,
    /// Version of the package.
    pub version: String,
    /// Kind of the part.
    pub kind: NodeKind,
    /// Digest of the layer with its files.
    pub layer: Digest,
    /// Bytes of its files.
    pub size: u64,
    /// Number of its files.
    pub files: u64,
    /// Absolute paths of its programs.
    pub programs: Vec<String>,
    /// Numbers of the drafts that it references, each with a reason.
    pub references: BTreeMap<usize, String>,
}

/// Makes nodes of drafts; `hash` is SHA-256. The ids do not depend on the order of the drafts.
///
/// Packages may reference each other in a cycle, and a hash cannot contain itself. The nodes of a cycle reference each
/// other by name and all have the hash of the cycle, which is that of their documents without it.
#[must_use]
pub fn seal(drafts: &[Draft], hash: fn(&[u8]) -> Digest) -> Vec<(NodeId, Node)> {
    let successors: Vec<Vec<usize>> = drafts
        .iter()
        .enumerate()
        .map(|(own, draft)| {
            let others = draft.references.keys().copied();
            others.filter(|to| *to != own && *to < drafts.len()).collect()
        })
        .collect();
    let mut ids: Vec<Option<NodeId>> = vec![None; drafts.len()];
    let mut sealed = Vec::new();
    for component in components(&successors) {
        let mut nodes: Vec<(usize, Node)> = component
            .iter()
            .map(|&at| (at, document(drafts, at, &component, &ids)))
            .collect();
        if component.len() > 1 {
            let mut inner: Vec<String> = nodes
                .iter()
                .map(|(_, node)| hash(&node.to_json()).to_string())
                .collect();
            inner.sort();
            let cycle = hash(inner.concat().as_bytes());
            nodes.iter_mut().for_each(|(_, node)| node.cycle = Some(cycle));
        }
        for (at, node) in nodes {
            let id = hash(&node.to_json());
            ids[at] = Some(id);
            sealed.push((id, node));
        }
    }
    sealed
}

fn document(drafts: &[Draft], at: usize, component: &[usize], ids: &[Option<NodeId>]) -> Node {
    let draft = &drafts[at];
    let (mut references, mut within) = (Vec::new(), Vec::new());
    for (&to, why) in draft
        .references
        .iter()
        .filter(|(to, _)| **to != at && **to < drafts.len())
    {
        let why = why.clone();
        match ids[to] {
            Some(to) => references.push(Reference { to, why }),
            None if component.contains(&to) => within.push(Within {
                name: drafts[to].name.clone(),
                why,
            }),
            // Components come after those that they lead to.
            None => {}
        }
    }
    references.sort();
    // Two drafts that are equal are one node.
    references.dedup_by(|one, other| one.to == other.to);
    within.sort();
    let mut programs = draft.programs.clone();
    programs.sort();
    Node {
        name: draft.name.clone(),
        version: draft.version.clone(),
        kind: draft.kind,
        layer: draft.layer,
        size: draft.size,
        files: draft.files,
        programs,
        references,
        within,
        cycle: None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Some hash: nothing here depends on which.
    pub(crate) fn hash(bytes: &[u8]) -> Digest {
        let mut state = [0x9e37_79b9_7f4a_7c15u64, 1, 2, 3];
        for (at, byte) in bytes.iter().enumerate() {
            let lane = &mut state[at % 4];
            *lane = (*lane ^ u64::from(*byte))
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23);
        }
        state[0] ^= bytes.len() as u64;
        let mut out = [0; 32];
        for (at, lane) in state.iter().enumerate() {
            out[at * 8..at * 8 + 8].copy_from_slice(&lane.to_le_bytes());
        }
        Digest::sha256(out)
    }

    pub(crate) fn draft(name: &str, references: &[usize]) -> Draft {
        Draft {
            name: name.to_owned(),
            version: "1".to_owned(),
            kind: NodeKind::Package,
            layer: hash(name.as_bytes()),
            size: 1,
            files: 1,
            programs: vec![format!("/usr/bin/{name}")],
            references: references.iter().map(|&to| (to, format!("needs {to}"))).collect(),
        }
    }

    fn by_name(sealed: Vec<(NodeId, Node)>) -> BTreeMap<String, NodeId> {
        sealed.into_iter().map(|(id, node)| (node.name, id)).collect()
    }

    proptest! {
        #[test]
        fn the_order_of_drafts_does_not_count(
            edges in prop::collection::vec((0usize..8, 0usize..8), 0..24), turn in 0usize..8
        ) {
            let mut drafts: Vec<Draft> = (0..8).map(|at| draft(&format!("n{at}"), &[])).collect();
            for &(from, to) in &edges {
                drafts[from].references.insert(to, "x".to_owned());
            }
            let turned = (0..8usize).map(|at| {
                let mut draft = drafts[(at + turn) % 8].clone();
                draft.references = draft.references.into_iter().map(|(to, why)| ((to + 8 - turn) % 8, why)).collect();
                draft
            });
            let turned: Vec<Draft> = turned.collect();
            prop_assert_eq!(by_name(seal(&drafts, hash)), by_name(seal(&turned, hash)));
        }

        #[test]
        fn what_changes_below_changes_what_needs_it(
            edges in prop::collection::vec((0usize..8, 0usize..8), 0..24), changed in 0usize..8
        ) {
            let mut drafts: Vec<Draft> = (0..8).map(|at| draft(&format!("n{at}"), &[])).collect();
            for &(from, to) in &edges {
                drafts[from].references.insert(to, "x".to_owned());
            }
            let before = by_name(seal(&drafts, hash));
            drafts[changed].layer = hash(b"other");
            let after = by_name(seal(&drafts, hash));
            let mut above = [false; 8];
            above[changed] = true;
            for _ in 0..8 {
                for &(from, to) in &edges {
                    above[from] |= above[to];
                }
            }
            for (at, is_above) in above.iter().enumerate() {
                let name = format!("n{at}");
                prop_assert_eq!(before[&name] != after[&name], *is_above, "{}", name);
            }
        }
    }
}
