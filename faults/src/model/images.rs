//! Rules for the image store and the directory of builds.

use super::{View, all};
use serde_json::Value;
use std::collections::BTreeSet;

/// `store/`: names lead to images, images have their layers, and no unfinished entry remains.
///
/// Objects and trees are left out: `tote store verify` knows which of them are needed, and the comparison with an
/// earlier moment shows whether any remain after the removal of an image.
pub(super) fn store(view: &View<'_>, found: &mut Vec<String>) {
    for name in view.tree.children("store") {
        if name.starts_with(".adding-") || name.starts_with(".new-") {
            found.push(format!("store/{name}: nobody adds anything"));
        }
    }
    all(view, "store/trash", "no sweep has taken it away", found);
    for kind in ["images", "layers", "trees", "names", "objects", "nodes"] {
        let dir = format!("store/{kind}");
        for name in view.tree.children(&dir).filter(|name| name.starts_with('.')) {
            found.push(format!("{dir}/{name}: is half made"));
        }
    }
    for tree in view.tree.children("store/trees") {
        let dir = format!("store/trees/{tree}");
        for part in view.tree.children(&dir).filter(|part| part.starts_with('.')) {
            found.push(format!("{dir}/{part}: is half made"));
        }
    }
    names(view, found);
    let mut needed: BTreeSet<String> = super::graph::layers(view).into_iter().collect();
    for id in view
        .tree
        .children("store/images")
        .filter(|id| !id.starts_with('.'))
    {
        let index = view.tree.text(&format!("store/images/{id}/index.json"));
        if let Some(images) = images_of(index) {
            // The layers belong to the images of the index, which are checked themselves.
            for image in images
                .iter()
                .filter(|image| !view.tree.has(&format!("store/images/{image}/config.json")))
            {
                found.push(format!(
                    "store/images/{image}: an index has it, and it is not there"
                ));
            }
            continue;
        }
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
        found.push(format!(
            "store/layers/{layer}: neither an image nor a node has it"
        ));
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
        let is_there = |id: &str| {
            let has = |file| view.tree.has(&format!("store/images/{}/{file}", id.trim()));
            has("config.json") || has("index.json")
        };
        if !id.is_some_and(is_there) {
            found.push(format!("{path}: leads to no image"));
        }
    }
}

/// Lists the images in an index, without the `sha256:` prefix.
fn images_of(index: &str) -> Option<Vec<String>> {
    let index: Value = serde_json::from_str(index).ok()?;
    let entries = index.get("manifests")?.as_array()?.iter();
    let images = entries.filter(|entry| {
        let kind = entry.get("mediaType").and_then(Value::as_str);
        kind == Some("application/vnd.oci.image.config.v1+json")
    });
    images
        .map(|entry| Some(entry.get("digest")?.as_str()?.strip_prefix("sha256:")?.to_owned()))
        .collect()
}

/// Lists the layers that an image's configuration names, without the `sha256:` prefix.
fn layers_of(config: &str) -> Option<Vec<String>> {
    let config: Value = serde_json::from_str(config).ok()?;
    let ids = config.get("rootfs")?.get("diff_ids")?.as_array()?.iter();
    ids.map(|id| Some(id.as_str()?.strip_prefix("sha256:")?.to_owned()))
        .collect()
}

/// `build/`: no build works there, and every kept entry is an image.
pub(super) fn builds(view: &View<'_>, found: &mut Vec<String>) {
    all(view, "build/work", "no build works there any more", found);
    for id in view.tree.children("build/kept") {
        if !view.tree.has(&format!("store/images/{id}")) {
            found.push(format!("build/kept/{id}: there is no such image"));
        }
    }
}
