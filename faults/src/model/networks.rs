//! Rules for networks, the addresses that containers have in them, and marks of what is under way.

use super::View;
use super::containers::id_of;

/// Explains why a mark of a network in `live/` should not be there; `None` if a container has an address in the network.
pub(super) fn mark(view: &View<'_>, network: &str) -> Option<&'static str> {
    let leases = format!("networks/{network}/leases");
    let why = "no container is in this network, and nobody makes or removes it";
    view.tree.children(&leases).next().is_none().then_some(why)
}

/// `networks/`: each network has a record, each address a container that runs, and each name an address.
pub(super) fn networks(view: &View<'_>, found: &mut Vec<String>) {
    for name in view.tree.children("networks") {
        let path = format!("networks/{name}");
        match name {
            // The last two are notes about rules of the packet filter, which need no network.
            ".lock" | ".filter" | ".warned" => {}
            ".members" => members(view, found),
            ".forwarding" => {
                let is_up = view.tree.children("live").any(|mark| mark.ends_with(".network"));
                if !is_up {
                    found.push(format!("{path}: no network is up"));
                }
            }
            _ if view.tree.has(&format!("{path}/network.json")) => {
                addresses(view, &path, found);
                names(view, &path, found);
            }
            _ => found.push(format!("{path}: a network without a record")),
        }
    }
}

fn members(view: &View<'_>, found: &mut Vec<String>) {
    for id in view.tree.children("networks/.members") {
        let path = format!("networks/.members/{id}");
        if !view.locked.contains(id) {
            found.push(format!("{path}: its container does not run"));
        }
        for network in view.tree.children(&path) {
            let address = view.tree.text(&format!("{path}/{network}"));
            let lease = format!("networks/{network}/leases/{address}");
            if id_of(view.tree.text(&lease)).as_deref() != Some(id) {
                found.push(format!(
                    "{path}/{network}: the container has no such address there"
                ));
            }
        }
    }
}

fn addresses(view: &View<'_>, network: &str, found: &mut Vec<String>) {
    for address in view.tree.children(&format!("{network}/leases")) {
        let path = format!("{network}/leases/{address}");
        let Some(id) = id_of(view.tree.text(&path)) else {
            found.push(format!("{path}: leads to no id"));
            continue;
        };
        let state = view.tree.text(&format!("containers/{id}/state.json"));
        if !view.locked.contains(&id) {
            found.push(format!("{path}: its container does not run"));
        } else if !state.is_empty() && !state.contains(&format!("\"{address}\"")) {
            found.push(format!("{path}: its container does not know of it"));
        }
    }
}

fn names(view: &View<'_>, network: &str, found: &mut Vec<String>) {
    let has_lease = |address: &str| view.tree.has(&format!("{network}/leases/{address}"));
    let called = format!("{network}/called");
    let names = format!("{network}/names");
    let mut all: Vec<_> = view
        .tree
        .children(&called)
        .map(|address| (format!("{called}/{address}"), address))
        .collect();
    for name in view.tree.children(&names) {
        let dir = format!("{names}/{name}");
        all.extend(
            view.tree
                .children(&dir)
                .map(|address| (format!("{dir}/{address}"), address)),
        );
    }
    for (path, _) in all.iter().filter(|(_, address)| !has_lease(address)) {
        found.push(format!("{path}: nobody has this address"));
    }
}
