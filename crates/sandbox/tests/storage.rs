//! Images whose lowest layer is a file system in a file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use tote_rootfs::{OwnInodes, Split, Storage, Upper};
use tote_sandbox::{CgroupView, DeviceNodes, Facts, MapOrigin, Request, Root, SecurityModule, Stdin, plan};
use tote_spec::Spec;

fn own() -> Option<OwnInodes> {
    Some(OwnInodes {
        tree: "/trees/chain/image.erofs".into(),
        fs: Some("erofs"),
        contents: "/objects".into(),
        user_namespace: false,
    })
}

fn overlay(upper: Upper) -> Storage {
    Storage::Overlay {
        lowers: vec!["/above".into(), "/trees/chain/root".into()],
        own_inodes: own(),
        upper,
        volatile: false,
    }
}

/// Lists the steps of a plan that concern the layers.
fn planned(storage: Storage, namespaces: &str) -> Vec<String> {
    let text = format!(
        r#"{{"ociVersion": "1.2.0", "root": {{"path": "/r"}}, "process": {{"user": {{"uid": 0, "gid": 0}}, "cwd": "/",
        "args": ["x"]}}, "linux": {{"namespaces": [{{"type": "mount"}}{namespaces}]}}}}"#
    );
    let spec = Spec::parse(&text).unwrap();
    let facts = Facts {
        bounding: 0x1ff_ffff_ffff,
        hard_limit: &|_| Some(4096),
        oom_score_adj: 0,
        cgroup_view: CgroupView::None,
        waits_for_cgroup: false,
        network_comes: false,
        setgroups: true,
        device_nodes: DeviceNodes::Mounted,
        own_executable: None,
        privileged: true,
        becomes_root: false,
        security_module: SecurityModule::None,
    };
    let request = Request {
        id_mapping: if namespaces.is_empty() {
            MapOrigin::None
        } else {
            MapOrigin::ByParent
        },
        stdin: Stdin::Inherited,
        ..Request::bare(&spec, Path::new("/attach"), facts)
    };
    let root = Root::Stored {
        storage,
        binds: Vec::new(),
        private: false,
        nosuid: false,
    };
    let plan = plan(&request, root, Vec::new()).unwrap();
    // The text of a mount leaves its source out.
    let is_mounted = format!("{:?}", plan.ops).contains("/trees/chain/image.erofs");
    let plan = plan.to_string();
    assert_eq!(is_mounted, plan.contains("mount erofs"), "{plan}");
    let of_layers = |line: &&str| {
        ["erofs", "overlay", "/objects"]
            .iter()
            .any(|word| line.contains(word))
    };
    plan.lines().filter(of_layers).map(str::to_owned).collect()
}

#[test]
fn the_file_is_mounted_where_the_root_covers_it() {
    let (upper, work) = ("/c/upper".into(), "/c/work".into());
    for (upper, place) in [
        (Upper::Tmpfs { size: None }, "/attach/lower"),
        (
            Upper::Dir {
                upper,
                work,
                owned: true,
            },
            "/attach",
        ),
        (Upper::None, "/attach"),
    ] {
        let steps = planned(overlay(upper), "");
        let [file, overlay] = &steps[..] else {
            panic!("{steps:?}")
        };
        assert!(file.contains("mount erofs") && file.ends_with(" ro"), "{file}");
        assert!(
            overlay.contains(&format!("lowerdir=/above:{place}::/objects")),
            "{overlay}"
        );
    }
}

#[test]
fn split_has_the_same_image() {
    let split = Split {
        tree: "/trees/chain/root".into(),
        own_inodes: own(),
        copies: None,
        size: None,
        writable: Vec::new(),
        stubs: Vec::new(),
        reflink: false,
    };
    let steps = planned(Storage::Split(split), "");
    assert!(steps[0].contains("mount erofs on /lower"), "{steps:?}");
    assert!(steps[1].contains("lowerdir=/attach/lower::/objects"), "{steps:?}");
}

#[test]
fn attributes_of_root_are_not_for_a_user_namespace() {
    let steps = planned(
        overlay(Upper::None),
        r#", {"type": "user"}], "uidMappings": [{"containerID": 0, "hostID": 5, "size": 1}], "gidMappings": [{"containerID": 0,
        "hostID": 5, "size": 1}"#,
    );
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert!(
        steps[0].contains("lowerdir=/above:/trees/chain/root"),
        "{steps:?}"
    );
}
