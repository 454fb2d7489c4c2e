//! Any bytes as a Totefile, as a document of a node, as a profile and as lists of packages: no panic, an end, and what is accepted
//! keeps its rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tote_graph::packages::{apk, apk_files, dependencies, dpkg, md5sums, unmet};
use tote_graph::{Graph, Node, Profile, Totefile};
use tote_image::Digest;

fuzz_target!(|bytes: &[u8]| {
    // Several documents are separated by newlines, which none has; their ids are made up.
    let mut graph = Graph::default();
    for (number, line) in bytes.split(|byte| *byte == b'\n').take(64).enumerate() {
        if let Ok(node) = serde_json::from_slice::<Node>(line) {
            let written = node.to_json();
            assert_eq!(serde_json::from_slice::<Node>(&written).expect("what was written can be read"), node);
            graph.insert(Digest::sha256([number as u8; 32]), node);
        }
    }
    let ids: Vec<Digest> = graph.iter().map(|(id, _)| *id).collect();
    for id in &ids {
        if let Ok(closure) = graph.closure(&[*id]) {
            assert!(closure.iter().all(|found| graph.get(found).is_some()));
        }
        let _ = (graph.tree(id), graph.program(id), graph.diff(&[*id], &ids));
    }
    let _ = serde_json::from_slice::<Profile>(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(file) = Totefile::parse(text) {
        let is_up = |path: &String| path.split('/').any(|name| name == "..");
        assert!(!file.files.iter().any(|(path, source)| is_up(path) || is_up(source)));
        assert!(file.files.keys().chain(&file.writable).all(|path| path.starts_with('/')));
    }
    for found in [dpkg(text), apk(text)] {
        assert!(dependencies(&found).iter().flatten().all(|at| *at < found.len()));
        let _ = unmet(&found);
    }
    assert_eq!(apk(text).len(), apk_files(text).len());
    let _ = md5sums(text);
});
