//! The model of the state root: everything present must be reachable, and what was committed must be there.
//!
//! [`Tree`] is what a state root has at one moment, [`strangers`] names what nothing in it explains, and
//! [`difference`] compares two moments. The rules are those of docs/state.md. All but [`Tree::read`] and
//! [`locked`] is pure, so that the rules are tested without an engine.

mod containers;
mod images;
mod tree;

pub(crate) use tree::{Tree, difference, locked};

use std::collections::BTreeSet;

/// What a state root is looked at with.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) tree: &'a Tree,
    /// The names in `live/` that somebody has locked.
    pub(crate) locked: &'a BTreeSet<String>,
}

/// Everything below a state root that nothing explains, one line each: the path, and why it should not be there.
///
/// Looked at while a command works, its own temporary files are among it.
pub(crate) fn strangers(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for name in view.tree.children("") {
        match name {
            "mnt" => all(view, "mnt", "`mnt` is empty on the host", &mut found),
            "host" => containers::skeletons(view, &mut found),
            "live" => containers::claims(view, &mut found),
            "names" => containers::names(view, &mut found),
            "containers" => containers::containers(view, &mut found),
            "pods" => containers::pods(view, &mut found),
            "pools" => containers::pools(view, &mut found),
            "volumes" => containers::volumes(view, &mut found),
            "store" => images::store(view, &mut found),
            "build" => images::builds(view, &mut found),
            "templates" | "events" | "events.1" => {}
            other => found.push(format!("{other}: a state root has no such entry")),
        }
    }
    found
}

fn all(view: &View<'_>, dir: &str, why: &str, found: &mut Vec<String>) {
    found.extend(view.tree.children(dir).map(|name| format!("{dir}/{name}: {why}")));
}

/// Whether it is the id of a container, a pod or an image: 64 hexadecimal digits.
fn is_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
