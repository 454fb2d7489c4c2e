//! Places of groups on v2, on directories that look like a hierarchy of systemd.
#![allow(clippy::unwrap_used, reason = "a failing test may panic anywhere")]

use std::fs;
use std::path::{Path, PathBuf};
use tote_cgroup::{Cgroup, CgroupPath, Hierarchy, Layout, Policy, Request, plan};
use tote_spec::{Cpu, Pids, Resources};

/// Makes a hierarchy in which the caller's own group is `own`, with the files in each group that a kernel would make.
fn hierarchy(root: &Path, own: &str, groups: &[(&str, &[(&str, &str)])]) -> Layout {
    for (group, files) in groups {
        let dir = root.join(group);
        fs::create_dir_all(&dir).unwrap();
        files
            .iter()
            .for_each(|(name, text)| fs::write(dir.join(name), text).unwrap());
    }
    Layout {
        v1: vec![],
        v2: Some(Hierarchy {
            controllers: tote_cgroup::Controllers::NONE,
            name: None,
            mount_point: root.to_owned(),
            own_path: own.into(),
        }),
    }
}

fn create(layout: &Layout, resources: &Resources) -> Cgroup {
    let path = CgroupPath::from_id("web").unwrap();
    let request = Request {
        policy: Policy::Strict,
        ..Request::new(&path, resources)
    };
    let (cgroup, warnings) = Cgroup::create(&plan(layout, &request).unwrap()).unwrap();
    assert_eq!(warnings, []);
    cgroup
}

fn place(layout: &Layout, resources: &Resources) -> PathBuf {
    let cgroup = create(layout, resources);
    cgroup.paths().map(|(_, path)| path.to_path_buf()).next().unwrap()
}

fn pids() -> Resources {
    Resources {
        pids: Some(Pids { limit: Some(5) }),
        ..Resources::default()
    }
}

/// The kernel lets a group with processes hand out pids alone, and then no process can be put into any group below.
#[test]
fn a_group_with_processes_hands_out_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (limit, domain) = (("pids.max", ""), ("cgroup.type", "domain\n"));
    let layout = hierarchy(
        dir.path(),
        "a/b",
        &[
            ("a", &[domain, ("cgroup.procs", "")]),
            ("a/tote-web", &[domain, limit]),
            (
                "a/b",
                &[domain, ("cgroup.procs", "1\n"), ("cgroup.subtree_control", "")],
            ),
            ("a/b/tote-web", &[("cgroup.type", "domain invalid\n"), limit]),
        ],
    );
    assert_eq!(place(&layout, &pids()), at("a/tote-web"));
    let enabled = fs::read_to_string(at("a/b/cgroup.subtree_control")).unwrap();
    assert_eq!(enabled, "", "it is left as it was");
    // Another process has made it a threaded domain.
    fs::write(at("a/b/cgroup.subtree_control"), "pids\n").unwrap();
    assert_eq!(place(&layout, &pids()), at("a/tote-web"));
}

/// systemd has memory and pids everywhere, and takes back other controllers that no group below has enabled in turn.
#[test]
fn what_systemd_would_take_back_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join("own").join(name);
    let enabled = ("cgroup.subtree_control", "cpu memory pids\n");
    let layout = hierarchy(
        dir.path(),
        "own",
        &[
            ("own", &[enabled]),
            ("own/tote", &[("cgroup.subtree_control", "")]),
            ("own/tote/tote-web", &[("cpu.max", "")]),
            ("own/tote-web", &[("pids.max", "")]),
        ],
    );
    assert_eq!(place(&layout, &pids()), at("tote-web"));
    let cpu = Resources {
        cpu: Some(Cpu {
            quota: Some(50_000),
            ..Cpu::default()
        }),
        ..Resources::default()
    };
    let record = create(&layout, &cpu).record();
    let held = fs::read_to_string(at("tote/cgroup.subtree_control")).unwrap();
    assert_eq!(held, "+cpu +pids");
    let expected = format!("v2 1 cpu,pids {}\n", at("tote/tote-web").display());
    assert_eq!(record, expected, "what is between goes with it");
}
