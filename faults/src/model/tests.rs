use super::tree::{Entry, Kind};
use super::*;

const ID: &str = "71c4f7096cde708e6157353ebdf472dc8f2eddab4bdfcc500b83bd27bb3cf31f";
const LINK: &str = "ccT3CWzecI5hVzU-vfRy3I8u3atL38xQC4O9J7s88x8";

fn tree(entries: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in entries {
        for (at, _) in path.match_indices('/') {
            let kind = Kind::Directory;
            tree.insert(
                &path[..at],
                Entry {
                    kind,
                    text: String::new(),
                    digest: 0,
                },
            );
        }
        let kind = if path.starts_with("names/") {
            Kind::Link
        } else {
            Kind::File
        };
        let digest = text.bytes().map(u64::from).sum();
        tree.insert(
            path,
            Entry {
                kind,
                text: (*text).to_owned(),
                digest,
            },
        );
    }
    tree
}

fn found(entries: &[(&str, &str)], locked: &[&str]) -> Vec<String> {
    let locked = locked.iter().map(|&id| id.to_owned()).collect();
    strangers(&View {
        tree: &tree(entries),
        locked: &locked,
    })
}

/// A container, complete.
fn whole() -> Vec<(String, String)> {
    vec![
        (
            format!("containers/{ID}/container.json"),
            format!(r#"{{"id":"{ID}","name":"x"}}"#),
        ),
        (format!("containers/{ID}/state.json"), "{}".to_owned()),
        ("names/x".to_owned(), LINK.to_owned()),
    ]
}

fn with(more: &[(&str, &str)], locked: &[&str]) -> Vec<String> {
    let whole = whole();
    let mut entries: Vec<_> = whole
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    entries.extend_from_slice(more);
    found(&entries, locked)
}

#[test]
fn what_is_whole_has_no_strangers() {
    assert!(with(&[], &[]).is_empty(), "{:?}", with(&[], &[]));
    let live = format!("live/{ID}");
    assert!(with(&[(&live, "")], &[ID]).is_empty());
    assert!(found(&[("volumes/db/_data/row", "precious"), ("events", "")], &[]).is_empty());
}

#[test]
fn addresses_belong_to_containers_that_run() {
    let lease = "networks/lab/leases/10.7.0.2";
    let record = ("networks/lab/network.json", "{}");
    let up = ("live/lab.network", "");
    let called = ("networks/lab/called/10.7.0.2", "x");
    let live = format!("live/{ID}");
    let state = format!("containers/{ID}/state.json");
    let knows = r#"{"networks":[{"address":"10.7.0.2"}]}"#;
    let runs = [
        record,
        up,
        called,
        (lease, LINK),
        (live.as_str(), ""),
        (state.as_str(), knows),
    ];
    assert_eq!(with(&runs, &[ID]), Vec::<String>::new());
    for (entries, why) in [
        (&[record, up, (lease, LINK)][..], "does not run"),
        (&[record, up][..], "no container is in this network"),
        (&[record, called][..], "nobody has this address"),
        (&[("networks/gone/leases/10.7.0.2", LINK)][..], "without a record"),
        (&[record, ("networks/.forwarding", "")][..], "no network is up"),
    ] {
        let found = with(entries, &[]);
        assert!(found.iter().any(|line| line.contains(why)), "{found:?}");
    }
    let unknown = [record, up, (lease, LINK), (live.as_str(), "")];
    let found = with(&unknown, &[ID]);
    assert!(
        found.iter().any(|line| line.contains("does not know of it")),
        "{found:?}"
    );
}

#[test]
fn every_leftover_is_named() {
    let id = |text: &str| text.replace("ID", ID);
    for (path, text) in [
        ("live/ID", ""),
        ("live/ID.socket", ""),
        ("live/ID.renaming", ""),
        ("live/ID.mounted", ""),
        ("mounts/ID", ""),
        ("names/y", LINK),
        ("names/z", "nonsense"),
        ("containers/ID/removing", ""),
        ("containers/ID/container.json.new", ""),
        ("containers/half", ""),
        ("pods/ID/cgroup", ""),
        ("pools/.p.ID/lock", ""),
        ("pools/p/0123/ID", ""),
        ("volumes/.v", ""),
        ("volumes/v/volume.json", "{}"),
        ("volumes/ID/_data", ""),
        ("volumes/v/_data/../volume.json", "{}"),
        ("host/.building-1-2/root", ""),
        ("mnt/x", ""),
        ("store/.adding-1-2", ""),
        ("store/trash/x", ""),
        ("store/names/docker.io%x", "docker.io/x\nsha256:00"),
        ("store/images/ID/image.json", "{}"),
        ("store/layers/ID/layer.json", "{}"),
        ("store/names/.new-1", ""),
        ("build/kept/ID", ""),
        ("build/work/.ID", ""),
        ("strange", ""),
    ] {
        if path.contains("..") {
            continue;
        }
        let all = with(&[(&id(path), text)], &[]);
        assert!(!all.is_empty(), "{path} is no stranger");
    }
}

#[test]
fn a_record_that_is_lost_is_found() {
    for lost in [0, 2] {
        let mut whole = whole();
        whole.remove(lost);
        let entries: Vec<_> = whole
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        assert!(
            !found(&entries, &[]).is_empty(),
            "without {}",
            self::whole()[lost].0
        );
    }
}

#[test]
fn an_image_needs_its_layers() {
    let config = r#"{"rootfs":{"diff_ids":["sha256:aa"]}}"#;
    let image = ("store/images/bb/config.json", config);
    let layer = ("store/layers/aa/layer.json", "{}");
    assert_eq!(found(&[image, layer], &[]), [""; 0]);
    assert_eq!(
        found(&[image], &[]),
        ["store/layers/aa: an image has it, and it is not there"]
    );
}

#[test]
fn moments_are_compared() {
    let before = tree(&[
        ("volumes/db/_data/row", "precious"),
        ("events", "a"),
        ("names/x", LINK),
    ]);
    assert!(difference(&before, &before).is_empty());
    let after = tree(&[
        ("volumes/db/_data/row", "nonsense"),
        ("events", "b"),
        ("names/y", LINK),
    ]);
    assert_eq!(
        difference(&before, &after),
        [
            "names/y: is new",
            "volumes/db/_data/row: has changed",
            "names/x: is gone"
        ]
    );
}

/// An image gets the owners for `keep-id` with the first start that needs them, whole or not at all.
#[test]
fn parts_of_trees_come_whole() {
    let lease = ("store/trees/T/lease", "");
    for (part, line) in [
        ("inodes-1000-100", None),
        ("root-1-2", None),
        ("other", Some("store/trees/T/other: is new")),
    ] {
        let path = format!("store/trees/T/{part}");
        let changed = difference(&tree(&[lease]), &tree(&[lease, (&path, "")]));
        assert_eq!(changed, line.into_iter().collect::<Vec<_>>());
    }
    assert_eq!(
        found(&[lease, ("store/trees/T/.new-1-2", "")], &[]),
        ["store/trees/T/.new-1-2: is half made"]
    );
}
