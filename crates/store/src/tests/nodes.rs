//! Nodes: a document keeps its layer, and a damaged one counts as absent.

use super::{Tar, add_layer, content_hash, digest, store};
use crate::{Patience, StoreError};

fn document(layer: &tote_image::Digest, name: &str) -> Vec<u8> {
    format!(r#"{{"name":"{name}","layer":"{layer}"}}"#).into_bytes()
}

#[test]
fn a_node_keeps_its_layer() {
    let (_dir, store) = store();
    assert_eq!(store.nodes().unwrap(), []);
    let ingest = store.ingest_at_once().unwrap();
    let kept = add_layer(&store, &Tar::default().file("a", b"1").end()).unwrap();
    let lost = add_layer(&store, &Tar::default().file("b", b"22").end()).unwrap();
    let text = document(&kept.diff_id, "a");
    let id = ingest.node(&text).unwrap();
    assert_eq!(id, digest(&text));
    // Once more it is the same node.
    assert_eq!(ingest.node(&text).unwrap(), id);
    assert_eq!(store.nodes().unwrap(), [(id, text)]);
    drop(ingest);
    store.note_garbage().unwrap();
    let swept = store.sweep(Patience::Endless).unwrap().unwrap();
    assert_eq!(
        (swept.layers, swept.objects),
        (1, 1),
        "only the layer without a node goes"
    );
    assert!(store.layer(&lost.diff_id).unwrap().is_none());
    let files = store.layer_files(&kept.diff_id).unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!((files[0].hash, files[0].size), (content_hash(b"1"), 1));
    assert_eq!(store.layer_paths(&kept.diff_id).unwrap(), [Box::from(&b"a"[..])]);
    assert_eq!(store.layer_files(&lost.diff_id).unwrap(), []);
    assert!(store.layer_paths(&lost.diff_id).unwrap().is_empty());
    store.remove_node(&id).unwrap();
    assert_eq!(store.nodes().unwrap(), []);
    let swept = store.sweep(Patience::Endless).unwrap().unwrap();
    assert_eq!((swept.layers, swept.objects), (1, 1));
}

#[test]
fn two_nodes_of_one_layer_keep_it_both() {
    let (_dir, store) = store();
    let ingest = store.ingest_at_once().unwrap();
    let layer = add_layer(&store, &Tar::default().file("a", b"1").end()).unwrap();
    let one = ingest.node(&document(&layer.diff_id, "one")).unwrap();
    let other = ingest.node(&document(&layer.diff_id, "other")).unwrap();
    drop(ingest);
    store.remove_node(&one).unwrap();
    let swept = store.sweep(Patience::Endless).unwrap().unwrap();
    assert_eq!(swept.layers, 0);
    assert!(store.layer(&layer.diff_id).unwrap().is_some());
    store.remove_node(&other).unwrap();
    assert_eq!(store.sweep(Patience::Endless).unwrap().unwrap().layers, 1);
}

#[test]
fn a_document_names_a_layer_that_is_there() {
    let (_dir, store) = store();
    let ingest = store.ingest_at_once().unwrap();
    let nowhere = digest(b"no layer");
    let refused = ingest.node(&document(&nowhere, "a")).unwrap_err();
    assert!(
        matches!(refused, StoreError::NoLayer(layer) if layer == nowhere),
        "{refused}"
    );
    for text in [
        &b""[..],
        b"{",
        b"[]",
        br#"{"name":"a"}"#,
        br#"{"layer":"sha256:zz"}"#,
    ] {
        let refused = ingest.node(text).unwrap_err();
        assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    }
    assert_eq!(store.nodes().unwrap(), []);
}

#[test]
fn a_damaged_document_is_no_node() {
    let (_dir, store) = store();
    let ingest = store.ingest_at_once().unwrap();
    let layer = add_layer(&store, &Tar::default().file("a", b"1").end()).unwrap();
    let text = document(&layer.diff_id, "a");
    let id = ingest.node(&text).unwrap();
    let dir = store.nodes_dir().unwrap().unwrap();
    // As after a power cut: the name is there, and a part of the content.
    dir.write(&id.hex(), &text[..text.len() / 2]).unwrap();
    dir.write("neither-a-digest", &text).unwrap();
    assert_eq!(store.nodes().unwrap(), []);
    assert!(store.layers_of_nodes().unwrap().is_empty());
    // The same import makes it whole again.
    assert_eq!(ingest.node(&text).unwrap(), id);
    assert_eq!(store.nodes().unwrap().len(), 1);
    // A node that is gone needs no removal.
    store.remove_node(&digest(b"none")).unwrap();
}
