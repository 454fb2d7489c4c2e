//! Model of the state root: every present entry must be reachable, and committed state must be there.
//!
//! [`Tree`] holds the entries of a state root at one moment, [`strangers`] names the entries that nothing explains,
//! and [`difference`] compares two moments. The rules are those of docs/state.md. All functions except [`Tree::read`]
//! and [`locked`] are pure, so that the rules are tested without an engine.

mod containers;
mod graph;
mod images;
mod networks;
mod tree;

pub(crate) use tree::{Tree, difference, locked};

use std::collections::BTreeSet;

/// Snapshot of a state root.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) tree: &'a Tree,
    /// Names in `live/` that another process has locked.
    pub(crate) locked: &'a BTreeSet<String>,
}

/// Lists the entries of a state root that nothing explains, one line each: the path, and why it should not be there.
///
/// While a command works, the list includes that command's temporary files.
pub(crate) fn strangers(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for name in view.tree.children("") {
        match name {
            "mnt" => all(view, "mnt", "`mnt` is empty on the host", &mut found),
            "host" => containers::skeletons(view, &mut found),
            "live" => containers::claims(view, &mut found),
            "names" => containers::names(view, &mut found),
            "mounts" => containers::mounts(view, &mut found),
            "containers" => containers::containers(view, &mut found),
            "pods" => containers::pods(view, &mut found),
            "pools" => containers::pools(view, &mut found),
            "secrets" => secrets(view, &mut found),
            "networks" => networks::networks(view, &mut found),
            "volumes" => containers::volumes(view, &mut found),
            "store" => images::store(view, &mut found),
            "build" => images::builds(view, &mut found),
            "graph" => graph::graph(view, &mut found),
            "templates" | "events" | "events.1" => {}
            other => found.push(format!("{other}: a state root has no such entry")),
        }
    }
    found
}

fn all(view: &View<'_>, dir: &str, why: &str, found: &mut Vec<String>) {
    found.extend(view.tree.children(dir).map(|name| format!("{dir}/{name}: {why}")));
}

/// True for the id of a container, a pod or an image: 64 hexadecimal digits.
fn is_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `secrets/`: no text stays that has not become a secret.
fn secrets(view: &View<'_>, found: &mut Vec<String>) {
    for name in view.tree.children("secrets") {
        if name != ".lock" && !name.ends_with(".json") {
            found.push(format!("secrets/{name}: is no secret"));
        }
    }
}

#[cfg(test)]
mod tests;
