//! Specs and their plans: each `NAME.json` below `plans/` beside its `NAME.plan`, or the error in its place.
//!
//! `UPDATE=1 cargo test -p tote-sandbox` writes the plans anew; review the difference.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rustix::fd::OwnedFd;
use std::path::Path;
use tote_sandbox::{CgroupView, DeviceNodes, Facts, MapOrigin, Request, Root, SecurityModule, Stdin, plan};
use tote_spec::{NamespaceType, Spec};

/// Plans for a host with two v1 hierarchies.
fn planned(text: &str) -> String {
    planned_among(text, &["cpu,cpuacct", "pids"])
}

fn planned_among(text: &str, hierarchies: &[&str]) -> String {
    let spec = match Spec::parse(text) {
        Ok(spec) => spec,
        Err(error) => return format!("error: {error}\n"),
    };
    let linux = spec.linux.clone().unwrap_or_default();
    let hierarchies: Vec<_> = hierarchies
        .iter()
        .map(|name| ((*name).to_owned(), format!("/sys/fs/cgroup/{name}/c")))
        .collect();
    let facts = Facts {
        bounding: 0x1ff_ffff_ffff,
        hard_limit: &|_| Some(4096),
        oom_score_adj: 0,
        cgroup_view: CgroupView::Legacy(&hierarchies),
        waits_for_cgroup: true,
        network_comes: false,
        setgroups: true,
        device_nodes: DeviceNodes::Ruled,
        own_executable: None,
        privileged: true,
        becomes_root: false,
        security_module: SecurityModule::AppArmor,
    };
    let request = Request {
        id_mapping: if linux.uid_mappings.is_empty() {
            MapOrigin::None
        } else {
            MapOrigin::ByParent
        },
        stdin: Stdin::Inherited,
        ..Request::bare(&spec, Path::new("/run/attach"), facts)
    };
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let joins: Vec<(NamespaceType, OwnedFd)> = spec
        .namespaces()
        .iter()
        .filter(|namespace| namespace.path.is_some())
        .map(|namespace| (namespace.kind, null()))
        .collect();
    match plan(&request, Root::Bind("/bundle/rootfs".into()), joins) {
        Ok(plan) => {
            let mut text = plan.to_string();
            for errands in &plan.gates {
                text += &format!("\ngate: {errands:?}");
            }
            for warning in &plan.warnings {
                text += &format!("\nwarning: {warning}");
            }
            text + "\n"
        }
        Err(error) => format!("error: {error}\n"),
    }
}

#[test]
fn plans_are_as_recorded() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let update = std::env::var_os("UPDATE").is_some();
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        seen += 1;
        let plan = planned(&std::fs::read_to_string(&path).unwrap());
        let recorded = path.with_extension("plan");
        if update {
            std::fs::write(&recorded, &plan).unwrap();
        } else {
            let text = std::fs::read_to_string(&recorded).unwrap_or_default();
            assert_eq!(plan, text, "{}", path.display());
        }
    }
    assert!(seen >= 4, "the fixtures are gone");
}

#[test]
fn a_busy_parent_leaves_the_network_namespace_to_the_process() {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans/default.json");
    let plan = planned_among(
        &std::fs::read_to_string(default).unwrap(),
        &["cpu,cpuacct", "pids", "memory"],
    );
    let unshared = plan.find("network").unwrap();
    let loopback = plan.find("bring up the loopback interface").unwrap();
    let gate = plan.find("wait for").unwrap();
    assert!(unshared < loopback && loopback < gate, "{plan}");
    assert!(plan.contains("gate: [Cgroup]"), "{plan}");
}

/// Values that make a valid spec wrong: a pointer to the property, the value, and a part of the error.
const CONTRADICTIONS: &[(&str, &str, &str)] = &[
    ("/root", "null", "root must be specified"),
    ("/process/cwd", "\"\"", "Cwd property must not be empty"),
    ("/process/cwd", "\"tmp\"", "Cwd must be an absolute path"),
    ("/process/args", "[]", "args must not be empty"),
    ("/process/oomScoreAdj", "1001", "oomScoreAdj is not between"),
    (
        "/process/rlimits",
        r#"[{"type":"RLIMIT_CORE","hard":1,"soft":2}]"#,
        "above its hard one",
    ),
    (
        "/process/rlimits",
        r#"[{"type":"RLIMIT_CORE","hard":1,"soft":1},{"type":"RLIMIT_CORE","hard":1,"soft":1}]"#,
        "more than once",
    ),
    (
        "/process/rlimits",
        r#"[{"type":"RLIMIT_X","hard":1,"soft":1}]"#,
        "setrlimit(2)",
    ),
    (
        "/process/scheduler",
        r#"{"policy":"SCHED_FIFO","priority":100}"#,
        "invalid scheduler.priority",
    ),
    (
        "/process/ioPriority",
        r#"{"class":"x"}"#,
        "invalid ioPriority.Class",
    ),
    (
        "/process/selinuxLabel",
        "\"x\"",
        "selinux label is specified in config, but selinux is disabled",
    ),
    (
        "/hostname",
        "\"0123456789012345678901234567890123456789012345678901234567890123456789\"",
        "longer than 64",
    ),
    ("/mounts", r#"[{"destination":"/"}]"#, "on the top of rootfs"),
    (
        "/mounts",
        r#"[{"destination":""}]"#,
        "destination must not be empty",
    ),
    (
        "/mounts",
        r#"[{"destination":"/x","options":["bind"]}]"#,
        "mounts.source",
    ),
    (
        "/mounts",
        r#"[{"destination":"/x","type":"tmpfs","options":["idmap"]}]"#,
        "only supported for bind-mounts",
    ),
    (
        "/mounts",
        r#"[{"destination":"/x","source":"/","options":["bind","idmap"]}]"#,
        "both uid and gid mappings",
    ),
    ("/hooks", r#"{"prestart":[{"path":"x"}]}"#, "not an absolute path"),
    (
        "/hooks",
        r#"{"poststop":[{"path":"/x","timeout":0}]}"#,
        "greater than zero",
    ),
    (
        "/linux/namespaces",
        r#"[{"type":"mount"},{"type":"mount"}]"#,
        "duplicated ns \"mount\"",
    ),
    (
        "/linux/namespaces",
        r#"[{"type":"mount","path":"x"}]"#,
        "not an absolute path",
    ),
    (
        "/linux/namespaces",
        r#"[{"type":"mount"}]"#,
        "unable to set hostname without a private UTS namespace",
    ),
    (
        "/linux/namespaces",
        r#"[{"type":"uts"},{"type":"ipc"}]"#,
        "without a private MNT namespace",
    ),
    (
        "/linux/namespaces",
        r#"[{"type":"mount"},{"type":"uts"},{"type":"user"}]"#,
        "no namespace path to join nor mappings",
    ),
    (
        "/linux/uidMappings",
        r#"[{"containerID":0,"hostID":0,"size":1}]"#,
        "user namespace isn't enabled",
    ),
    (
        "/linux/timeOffsets",
        r#"{"boottime":{"secs":1}}"#,
        "time namespace isn't enabled",
    ),
    (
        "/linux/rootfsPropagation",
        "\"x\"",
        "rootfsPropagation=x is not supported",
    ),
    ("/linux/maskedPaths", "[\"x\"]", "not an absolute path"),
    (
        "/linux/sysctl",
        r#"{"vm.swappiness":"1"}"#,
        "not in a separate kernel namespace",
    ),
    (
        "/linux/devices",
        r#"[{"type":"c","path":"x"}]"#,
        "not an absolute path",
    ),
    (
        "/linux/devices",
        r#"[{"type":"c","path":"/x","major":-1}]"#,
        "not a device number",
    ),
    (
        "/linux/netDevices",
        r#"{"a b":{}}"#,
        "invalid network device name \"a b\"",
    ),
    (
        "/linux/netDevices",
        r#"{"a":{"name":"0123456789abcdef"}}"#,
        "invalid network device name",
    ),
    ("/linux/memoryPolicy", "{}", "invalid memory policy mode"),
    (
        "/linux/personality",
        r#"{"domain":"SUN"}"#,
        "invalid personality domain SUN",
    ),
    ("/linux/intelRdt", "{}", "intelRdt"),
    (
        "/linux/seccomp",
        r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#,
        "cannot be used as default action",
    ),
];

#[test]
fn every_contradiction_has_its_words() {
    let fine: serde_json::Value = serde_json::from_str(include_str!("plans/default.json")).unwrap();
    for (pointer, value, words) in CONTRADICTIONS {
        let mut spec = fine.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[key] = serde_json::from_str(value).unwrap();
        let said = planned(&spec.to_string());
        assert!(
            said.starts_with("error: ") && said.contains(words),
            "{pointer} {value}: {said}"
        );
    }
}

#[test]
fn what_is_shared_with_nobody_and_owned_by_nobody_else_may_come_early() {
    let spec = |namespaces: serde_json::Value| -> Spec {
        serde_json::from_value(
            serde_json::json!({"ociVersion": "1.2.0", "linux": {"namespaces": namespaces}}),
        )
        .unwrap()
    };
    let own = serde_json::json!([{"type": "network"}, {"type": "pid", "path": ""}]);
    assert!(tote_sandbox::network_may_come(&spec(own)));
    for others in [
        serde_json::json!([{"type": "pid"}]),
        serde_json::json!([{"type": "network", "path": "/n"}]),
        serde_json::json!([{"type": "network"}, {"type": "time", "path": "/n"}]),
        serde_json::json!([{"type": "network"}, {"type": "user"}]),
    ] {
        assert!(!tote_sandbox::network_may_come(&spec(others.clone())), "{others}");
    }
}

#[test]
fn cgroups_are_mounted_last_where_nothing_is_about_them() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans/default.json"));
    let mut spec: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
    let order = |spec: &serde_json::Value| {
        let plan = planned(&spec.to_string());
        let place = |words: &str| plan.find(words).unwrap_or_else(|| panic!("{words}: {plan}"));
        (
            place("mask /proc/kcore"),
            place("on /sys/fs/cgroup "),
            place("remount /sys/fs/cgroup ro"),
        )
    };
    let (mask, mount, read_only) = order(&spec);
    assert!(mask < mount && mount < read_only);
    for path in ["/sys/fs/cgroup/pids", "/sys"] {
        spec["linux"]["readonlyPaths"] = serde_json::json!([path]);
        let (mask, mount, read_only) = order(&spec);
        assert!(mount < read_only && read_only < mask, "{path}");
    }
}
