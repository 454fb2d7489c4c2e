//! Rules for networks, and for what is on the host while a container is in one.

use super::View;
use super::containers::id_of;

/// `networks/`: each has a record, and each lease in it belongs to a container that runs.
pub(super) fn networks(view: &View<'_>, found: &mut Vec<String>) {
    for name in view.tree.children("networks") {
        let path = format!("networks/{name}");
        match name {
            ".lock" => continue,
            ".members" => {
                let gone = view.tree.children(&path).filter(|id| !view.locked.contains(*id));
                found.extend(gone.map(|id| format!("{path}/{id}: no container that runs has this id")));
                continue;
            }
            ".forwarding" if leases(view) > 0 => continue,
            _ if name.starts_with('.') => {
                found.push(format!("{path}: no network is up that it is of"));
                continue;
            }
            _ => {}
        }
        if !view.tree.has(&format!("{path}/network.json")) {
            found.push(format!("{path}: has no record"));
        }
        for address in view.tree.children(&format!("{path}/leases")) {
            let lease = format!("{path}/leases/{address}");
            if !id_of(view.tree.text(&lease)).is_some_and(|id| view.locked.contains(&id)) {
                found.push(format!("{lease}: no container that runs has it"));
            }
        }
    }
}

/// `live/NAME.network`: says that a network is up, which it is while a container has a lease.
pub(super) fn is_up(view: &View<'_>, name: &str) -> bool {
    let dir = format!("networks/{name}/leases");
    view.tree.children(&dir).next().is_some()
}

/// Explains links of the host and the table of the packet filter that no lease explains.
pub(crate) fn on_the_host(view: &View<'_>, links: &[String], has_table: bool) -> Vec<String> {
    let mut found = Vec::new();
    let networks = view.tree.children("networks");
    let up = networks.filter(|name| is_up(view, name)).count();
    for (prefix, most) in [("tv", leases(view)), ("tote-", up)] {
        let named: Vec<_> = links.iter().filter(|link| link.starts_with(prefix)).collect();
        if named.len() > most {
            found.push(format!(
                "links {named:?}: there are {most} leases or networks for them"
            ));
        }
    }
    if has_table && up == 0 {
        found.push("table inet tote: no network is up".to_owned());
    }
    found
}

fn leases(view: &View<'_>) -> usize {
    let networks = view.tree.children("networks");
    let leases = networks.map(|name| view.tree.children(&format!("networks/{name}/leases")).count());
    leases.sum()
}
