//! Rules for claims, names, containers, pods, pools and volumes.

use super::{View, is_id, networks};
use serde_json::Value;

/// `live/`: each file is the claim of a process that has locked it; without a lock it is a leftover.
pub(super) fn claims(view: &View<'_>, found: &mut Vec<String>) {
    for name in view.tree.children("live") {
        if let Some(network) = name.strip_suffix(".network") {
            let why = networks::mark(view, network);
            found.extend(why.map(|why| format!("live/{name}: {why}")));
            continue;
        }
        let why = match name.split_once('.') {
            None if view.locked.contains(name) => continue,
            None => "nobody has its lock",
            Some((id, "socket")) if view.locked.contains(id) => continue,
            Some((_, "socket")) => "nobody listens there",
            Some((_, "renaming")) => "nobody renames it",
            Some((_, "connecting")) => "nobody connects it, and it goes on",
            Some((_, "removing")) => "nobody removes it",
            Some((id, "mounted"))
                if view.tree.has(&format!("mounts/{id}")) && view.tree.has(&format!("containers/{id}")) =>
            {
                continue;
            }
            Some((_, "mounted")) => "it is not mounted",
            Some(_) => "no such name belongs there",
        };
        found.push(format!("live/{name}: {why}"));
    }
}

/// `mounts/`: each place has a file in `live/`.
pub(super) fn mounts(view: &View<'_>, found: &mut Vec<String>) {
    for id in view.tree.children("mounts") {
        if !view.tree.has(&format!("live/{id}.mounted")) {
            found.push(format!("mounts/{id}: nobody knows of it"));
        }
    }
}

/// `names/`: each name leads to a container or a pod whose record has the same name.
pub(super) fn names(view: &View<'_>, found: &mut Vec<String>) {
    for name in view.tree.children("names") {
        let path = format!("names/{name}");
        let Some(id) = id_of(view.tree.text(&path)) else {
            found.push(format!("{path}: leads to no id"));
            continue;
        };
        let called = ["containers", "pods"].map(|kind| name_in(view, kind, &id));
        match called.into_iter().flatten().next() {
            Some(called) if called == name => {}
            Some(called) => found.push(format!("{path}: its container calls itself {called}")),
            None if view.locked.contains(&id) => {}
            None => found.push(format!("{path}: leads to no container and no pod")),
        }
    }
}

/// Returns the name in the record of a container or a pod; `None` if the record cannot be read.
fn name_in(view: &View<'_>, kind: &str, id: &str) -> Option<String> {
    let record = if kind == "pods" {
        "pod.json"
    } else {
        "container.json"
    };
    let record: Value = serde_json::from_str(view.tree.text(&format!("{kind}/{id}/{record}"))).ok()?;
    Some(record.get("name")?.as_str()?.to_owned())
}

/// `containers/`: each has a record that can be read, a name that leads to it, and no mark of a removal.
pub(super) fn containers(view: &View<'_>, found: &mut Vec<String>) {
    for id in view.tree.children("containers") {
        let path = format!("containers/{id}");
        if id == ".subvolumes-gone" || view.locked.contains(id) && !view.tree.has(&format!("{path}/removing"))
        {
            continue;
        }
        if !is_id(id) {
            found.push(format!("{path}: is no container"));
            continue;
        }
        let Some(name) = name_in(view, "containers", id) else {
            found.push(format!("{path}: has no record that can be read"));
            continue;
        };
        if id_of(view.tree.text(&format!("names/{name}"))).as_deref() != Some(id) {
            found.push(format!("{path}: its name {name} does not lead to it"));
        }
        for file in view.tree.children(&path).filter(|file| !belongs(file)) {
            found.push(format!("{path}/{file}: nobody removes it before the container"));
        }
    }
}

/// True for files that an unwatched container may have. A killed process leaves `socket`, a disk and unfinished
/// records; they go with the next start, rename or update.
fn belongs(file: &str) -> bool {
    const FILES: &[&str] = &[
        "container.json",
        "state.json",
        "state.end",
        "config.json",
        "ctr.log",
        "socket",
        "notify",
        "own",
        "stop",
        "copying",
        "upper",
        "work",
        "private",
        "tree",
        "disk",
        "disk.fresh",
        "config.new",
        "removing.new",
        "container.new",
        "state.new",
    ];
    FILES.contains(&file)
        || file.starts_with("log.json")
        || file.starts_with("volume-")
        || file.starts_with("overlay-")
        || file.starts_with("secret-")
}

/// `pods/`: each has a record, a name that leads to it, and no mark of a removal.
pub(super) fn pods(view: &View<'_>, found: &mut Vec<String>) {
    for id in view.tree.children("pods") {
        let path = format!("pods/{id}");
        match name_in(view, "pods", id) {
            None => found.push(format!("{path}: has no record that can be read")),
            Some(name) if id_of(view.tree.text(&format!("names/{name}"))).as_deref() != Some(id) => {
                found.push(format!("{path}: its name {name} does not lead to it"));
            }
            Some(_) if view.tree.has(&format!("{path}/removing")) => {
                found.push(format!("{path}: its removal has not gone on"));
            }
            Some(_) => {}
        }
    }
}

/// `pools/`: each pool has a record, and each socket in it belongs to a running keeper.
pub(super) fn pools(view: &View<'_>, found: &mut Vec<String>) {
    for name in view.tree.children("pools") {
        let path = format!("pools/{name}");
        if name.starts_with('.') {
            found.push(format!("{path}: its removal has not gone on"));
            continue;
        }
        if !view.tree.has(&format!("{path}/pool.json")) {
            found.push(format!("{path}: has no record"));
        }
        for generation in view.tree.children(&path) {
            let generation = format!("{path}/{generation}");
            for id in view.tree.children(&generation) {
                if !view.locked.contains(id) {
                    found.push(format!("{generation}/{id}: no keeper has this sandbox"));
                }
            }
        }
    }
}

/// `volumes/`: no volume is half made or half removed, and an anonymous volume names its container.
pub(super) fn volumes(view: &View<'_>, found: &mut Vec<String>) {
    for name in view.tree.children("volumes") {
        let path = format!("volumes/{name}");
        if name.starts_with('.') {
            found.push(format!("{path}: neither made nor removed"));
            continue;
        }
        if !view.tree.has(&format!("{path}/_data")) {
            found.push(format!("{path}: a volume without a place for its files"));
        }
        let record: Option<Value> = serde_json::from_str(view.tree.text(&format!("{path}/volume.json"))).ok();
        let owner = record
            .as_ref()
            .and_then(|record| record.get("container")?.as_str());
        match owner {
            // `rm` without `-v` leaves the volume to `volume prune`.
            Some(_) => {}
            None if is_id(name) => found.push(format!(
                "{path}: nobody named it, and it does not say whose it is"
            )),
            None => {}
        }
    }
}

/// `host/`: holds complete skeletons only.
pub(super) fn skeletons(view: &View<'_>, found: &mut Vec<String>) {
    for name in view
        .tree
        .children("host")
        .filter(|name| !name.starts_with("host-"))
    {
        found.push(format!("host/{name}: nobody makes this skeleton any more"));
    }
}

/// Decodes the text of a link in `names/`: an id of 32 bytes in URL-safe base 64 without padding.
pub(super) fn id_of(text: &str) -> Option<String> {
    let mut bits = 0u32;
    let mut count = 0;
    let mut id = String::with_capacity(64);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            id.push_str(&format!("{:02x}", bits >> count & 0xff));
        }
    }
    is_id(&id).then_some(id)
}
