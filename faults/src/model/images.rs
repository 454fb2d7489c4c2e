//! The store of images, and what builds keep.

use super::{View, all};
use serde_json::Value;
use std::collections::BTreeSet;

/// `store/`: names lead to images, images have their layers, and nothing is in the making.
///
/// Objects and trees are not looked at: which of them are needed is for `tote store verify`, and that nothing is left
/// once an image is removed shows the comparison with an earlier moment.
pub(super) fn store(view: &View<'_>, found: &mut Vec<String>) {
    for name in view.tree.children("store") {
        if name.starts_with(".adding-") || name.starts_with(".new-") {
            found.push(format!("store/{name}: nobody adds anything"));
        }
    }
    all(view, "store/trash", "no sweep has taken it away", found);
    for kind in ["images", "layers", "trees", "names", "objects"] {
        let dir = format!("store/{kind}");
        for name in view.tree.children(&dir).filter(|name| name.starts_with('.')) {
            found.push(format!("{dir}/{name}: is half made"));
        }
    }
    names(view, found);
    let mut needed = BTreeSet::new();
    for id in view
        .tree
        .children("store/images")
        .filter(|id| !id.starts_with('.'))
    {
        match layers_of(view.tree.text(&format!("store/images/{id}/config.json"))) {
            Some(layers) => needed.extend(layers),
            None => found.push(format!(
                "store/images/{id}: has no configuration that can be read"
            )),
        }
    }
    for layer in needed
        .iter()
        .filter(|layer| !view.tree.has(&format!("store/layers/{layer}/layer.json")))
    {
        found.push(format!(
            "store/layers/{layer}: an image has it, and it is not there"
        ));
    }
    for layer in view
        .tree
        .children("store/layers")
        .filter(|layer| !needed.contains(*layer))
    {
        found.push(format!("store/layers/{layer}: no image has it"));
    }
}

fn names(view: &View<'_>, found: &mut Vec<String>) {
    for name in view
        .tree
        .children("store/names")
        .filter(|name| !name.starts_with('.'))
    {
        let path = format!("store/names/{name}");
        let id = view
            .tree
            .text(&path)
            .lines()
            .find_map(|line| line.strip_prefix("sha256:"));
        if !id.is_some_and(|id| view.tree.has(&format!("store/images/{}/config.json", id.trim()))) {
            found.push(format!("{path}: leads to no image"));
        }
    }
}

/// The layers that an image's configuration names, without their algorithm.
fn layers_of(config: &str) -> Option<Vec<String>> {
    let config: Value = serde_json::from_str(config).ok()?;
    let ids = config.get("rootfs")?.get("diff_ids")?.as_array()?.iter();
    ids.map(|id| Some(id.as_str()?.strip_prefix("sha256:")?.to_owned()))
        .collect()
}

/// `build/`: nobody works there, and what is kept is an image.
pub(super) fn builds(view: &View<'_>, found: &mut Vec<String>) {
    all(view, "build/work", "no build works there any more", found);
    for id in view.tree.children("build/kept") {
        if !view.tree.has(&format!("store/images/{id}")) {
            found.push(format!("build/kept/{id}: there is no such image"));
        }
    }
}
