//! Rules for closures: records lead to nodes, and nodes have their layers.

use super::View;
use serde_json::Value;

/// `graph/` and `store/nodes/`: no record is half made, each node that a record names is there, and so is its layer.
pub(super) fn graph(view: &View<'_>, found: &mut Vec<String>) {
    for kind in ["roots", "profiles", "starts"] {
        let dir = format!("graph/{kind}");
        for name in view.tree.children(&dir) {
            let path = format!("{dir}/{name}");
            if name.ends_with(".new") {
                found.push(format!("{path}: is half made"));
                continue;
            }
            let Ok(record) = serde_json::from_str::<Value>(view.tree.text(&path)) else {
                found.push(format!("{path}: cannot be read"));
                continue;
            };
            for id in nodes_of(&record) {
                if !view.tree.has(&format!("store/nodes/{id}")) {
                    found.push(format!("{path}: its node {id} is not there"));
                }
            }
        }
    }
    for layer in layers(view) {
        if !view.tree.has(&format!("store/layers/{layer}/layer.json")) {
            found.push(format!(
                "store/layers/{layer}: a node has it, and it is not there"
            ));
        }
    }
}

/// Lists the layers of nodes, without the `sha256:` prefix.
pub(super) fn layers(view: &View<'_>) -> Vec<String> {
    let documents = view
        .tree
        .children("store/nodes")
        .filter(|name| !name.starts_with('.'))
        .map(|id| view.tree.text(&format!("store/nodes/{id}")));
    let parsed = documents.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    parsed
        .filter_map(|node| Some(node.get("layer")?.as_str()?.strip_prefix("sha256:")?.to_owned()))
        .collect()
}

/// Lists the nodes that a root or the generations of a profile name, without the `sha256:` prefix.
fn nodes_of(record: &Value) -> Vec<String> {
    let generations = record.get("generations").and_then(Value::as_array);
    let records = generations.map_or_else(|| vec![record], |all| all.iter().collect());
    let lists = records
        .into_iter()
        .filter_map(|record| record.get("nodes")?.as_array());
    lists
        .flatten()
        .filter_map(|id| Some(id.as_str()?.strip_prefix("sha256:")?.to_owned()))
        .collect()
}
