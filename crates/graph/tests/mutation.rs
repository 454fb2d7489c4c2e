//! Any text as a Totefile, as a document of a node, as a profile, and as lists of packages: no panic, an end, and what is
//! accepted keeps its rules.

use proptest::prelude::*;
use tote_graph::packages::{apk, apk_files, dependencies, dpkg, md5sums, unmet};
use tote_graph::{Graph, Node, Profile, Totefile};
use tote_image::Digest;

/// Pieces that have a meaning in Totefiles.
const TOTEFILE: [&str; 14] = [
    "packages = [\"a\", \"b=1\"]\n",
    "command = [\"/a\"]\n",
    "writable = [\"/var/x\"]\n",
    "writable = [\"../x\"]\n",
    "workdir = \"/\"\n",
    "[files]\n",
    "\"/etc/x\" = \"./x\"\n",
    "\"/etc/../x\" = \"../x\"\n",
    "[env]\n",
    "A = \"b\"\n",
    "\"=\" = \"\\u0000\"\n",
    "user = 1\n",
    "= [",
    "ä",
];

/// Pieces that have a meaning in lists of packages.
const LISTS: [&str; 14] = [
    "Package: a\n",
    "Version: 1\n",
    "Status: install ok installed\n",
    "Depends: a | b (>= 1), c:any\n",
    "Provides: a (= 1)\n",
    "\n",
    "P:a\n",
    "V:1\n",
    "D:so:a !b c>=1\n",
    "p:so:a=1\n",
    "F:lib\n",
    "R:x\n",
    "0  usr/a\n",
    " : ,|",
];

fn is_inside(path: &str) -> bool {
    let names = path.strip_prefix('/').map(|names| names.split('/'));
    names.is_some_and(|mut names| names.all(|name| !matches!(name, "" | "." | "..")))
}

fn totefile(text: &str) {
    let file = match Totefile::parse(text) {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(
        file.files
            .keys()
            .chain(&file.writable)
            .all(|path| is_inside(path))
    );
    let below = |source: &String| is_inside(&format!("/{}", source.strip_prefix("./").unwrap_or(source)));
    assert!(file.files.values().all(below));
    assert!(
        file.env
            .keys()
            .all(|name| !name.is_empty() && !name.contains('='))
    );
}

fn packages(text: &str) {
    for found in [dpkg(text), apk(text)] {
        assert!(
            found
                .iter()
                .all(|package| !package.name.is_empty() && !package.version.is_empty())
        );
        let depends = dependencies(&found);
        assert_eq!(depends.len(), found.len());
        assert!(depends.iter().flatten().all(|at| *at < found.len()));
        drop(unmet(&found));
    }
    assert_eq!(apk(text).len(), apk_files(text).len(), "{text:?}");
    drop(md5sums(text));
}

fn sum(byte: u8) -> Digest {
    Digest::sha256([byte; 32])
}

/// A document with references to the nodes of these numbers, and in a cycle with others.
fn document(name: u8, references: &[u8], within: &[u8], cycle: u8) -> String {
    let references: Vec<String> = references
        .iter()
        .map(|&to| format!(r#"{{"to":"{}","why":"x"}}"#, sum(to)))
        .collect();
    let within: Vec<String> = within
        .iter()
        .map(|name| format!(r#"{{"name":"{name}","why":"x"}}"#))
        .collect();
    format!(
        r#"{{"name":"{name}","version":"","kind":"package","layer":"{}","size":1,"files":1,"programs":[],"references":[{}],"within":[{}],"cycle":"{}"}}"#,
        sum(0),
        references.join(","),
        within.join(","),
        sum(cycle)
    )
}

proptest! {
    #[test]
    fn any_text(text in ".{0,200}") {
        totefile(&text);
        packages(&text);
        drop(serde_json::from_str::<Profile>(&text));
    }

    #[test]
    fn any_pieces(
        own in prop::collection::vec(prop::sample::select(&TOTEFILE[..]), 0..20),
        lists in prop::collection::vec(prop::sample::select(&LISTS[..]), 0..40)
    ) {
        totefile(&own.concat());
        packages(&lists.concat());
    }

    /// Documents that no import makes: ids that are no hashes, references to nothing and in circles, names that lie.
    #[test]
    fn any_documents(
        nodes in prop::collection::vec(
            (0u8..6, prop::collection::vec(0u8..8, 0..4), prop::collection::vec(0u8..8, 0..4), 0u8..3), 0..8
        ),
        at in any::<prop::sample::Index>(), value in any::<u8>()
    ) {
        let mut graph = Graph::default();
        for (id, (name, references, within, cycle)) in nodes.iter().enumerate() {
            let mut text = document(*name, references, within, *cycle).into_bytes();
            let whole: Node = serde_json::from_slice(&text).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Node>(&whole.to_json()).unwrap(), whole.clone());
            graph.insert(sum(u8::try_from(id).unwrap()), whole);
            let at = at.index(text.len());
            text[at] = value;
            if let Ok(node) = serde_json::from_slice::<Node>(&text) {
                graph.insert(sum(100), node);
            }
        }
        for id in (0..8).map(sum) {
            if let Ok(closure) = graph.closure(&[id]) {
                prop_assert!(closure.iter().all(|found| graph.get(found).is_some()));
                prop_assert!(graph.why(&id, &closure[0]).is_ok());
            }
            if let Ok(lines) = graph.tree(&id) {
                prop_assert!(lines.len() <= 200);
            }
            drop((graph.program(&id), graph.diff(&[id], &[sum(0)])));
        }
    }
}
