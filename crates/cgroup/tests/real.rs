//! Plans on the kernel's own v1, below the caller's cgroup, if root may change it.

#![expect(
    clippy::disallowed_methods,
    reason = "the processes to be limited are programs"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing test may panic anywhere, a skipped one says so"
)]

use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tote_cgroup::{
    Cgroup, CgroupPath, Controllers, Error, Layout, Policy, Request, default_device_rules, plan,
};
use tote_spec::{Cpu, Memory, Pids, Resources};

const NEEDED: Controllers = Controllers::PIDS
    .union(Controllers::MEMORY)
    .union(Controllers::FREEZER);

/// Reads the layout; `None`, with a line that says so, if the machine cannot run the test.
fn layout() -> Option<Layout> {
    let layout = Layout::read().unwrap();
    let writable = layout
        .v1
        .iter()
        .filter(|h| h.controllers.intersects(NEEDED))
        .all(|h| rustix::fs::access(h.own_dir(), rustix::fs::Access::WRITE_OK).is_ok());
    if layout.v1_controllers().contains(NEEDED) && writable {
        return Some(layout);
    }
    println!("skipped: needs root and writable cgroup v1");
    None
}

/// Group that is removed whatever the test's result is.
struct Group(Cgroup);

impl Drop for Group {
    fn drop(&mut self) {
        self.0.kill_all().unwrap();
        assert!(self.0.wait_empty(Duration::from_secs(5)).unwrap());
        self.0.remove().unwrap();
    }
}

fn create(layout: &Layout, name: &str, resources: &Resources, also: Controllers) -> Group {
    let path = CgroupPath::from_id(&format!("test-{name}-{}", std::process::id())).unwrap();
    let request = Request {
        also,
        policy: Policy::Strict,
        ..Request::new(&path, resources)
    };
    let (cgroup, warnings) = Cgroup::create(&plan(layout, &request).unwrap()).unwrap();
    assert_eq!(warnings, []);
    Group(cgroup)
}

#[test]
fn processors_come_from_above_whoever_made_what_is_between() {
    let Some(layout) = layout() else { return };
    let Some(cpuset) = layout
        .v1
        .iter()
        .find(|h| h.controllers.contains(Controllers::CPUSET))
    else {
        println!("skipped: needs cpuset on cgroup v1");
        return;
    };
    let name = format!("tote-test-between-{}", std::process::id());
    let between = cpuset.own_dir().join(&name);
    // It stands for another process's group, as a pod's: without processors, and with an existing leaf.
    std::fs::create_dir_all(between.join("leaf")).unwrap();
    let (path, nothing) = (
        CgroupPath::from_oci(&format!("{name}/leaf")).unwrap(),
        Resources::default(),
    );
    let request = Request {
        also: Controllers::CPUSET,
        policy: Policy::Strict,
        ..Request::new(&path, &nothing)
    };
    let group = Group(Cgroup::create(&plan(&layout, &request).unwrap()).unwrap().0);
    let mut child = sleeper(&group);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(group);
    std::fs::remove_dir(&between).unwrap();
}

fn sleeper(group: &Group) -> Child {
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    group.0.attach(child.id()).unwrap();
    child
}

fn file(group: &Group, controller: Controllers, name: &str) -> String {
    let mut paths = group.0.paths();
    let (_, dir) = paths
        .find(|(controllers, _)| controllers.contains(controller))
        .unwrap();
    std::fs::read_to_string(dir.join(name)).unwrap().trim().to_owned()
}

fn limits() -> Resources {
    Resources {
        devices: default_device_rules(),
        memory: Some(Memory {
            limit: Some(64 << 20),
            swap: Some(128 << 20),
            ..Memory::default()
        }),
        cpu: Some(Cpu {
            quota: Some(50_000),
            period: Some(100_000),
            ..Cpu::default()
        }),
        pids: Some(Pids { limit: Some(20) }),
        ..Resources::default()
    }
}

#[test]
fn limits_are_in_force_and_nothing_is_left() {
    let Some(layout) = layout() else { return };
    let group = create(
        &layout,
        "limits",
        &limits(),
        Controllers::FREEZER.union(Controllers::CPUSET),
    );
    let mut child = sleeper(&group);
    assert_eq!(group.0.pids().unwrap(), [i32::try_from(child.id()).unwrap()]);
    assert_eq!(file(&group, Controllers::PIDS, "pids.max"), "20");
    assert_eq!(
        file(&group, Controllers::MEMORY, "memory.limit_in_bytes"),
        "67108864"
    );
    assert_eq!(
        file(&group, Controllers::MEMORY, "memory.memsw.limit_in_bytes"),
        "134217728"
    );
    assert_eq!(file(&group, Controllers::CPU, "cpu.cfs_quota_us"), "50000");
    assert!(file(&group, Controllers::DEVICES, "devices.list").contains("c 1:3 rwm"));
    assert!(
        !file(&group, Controllers::CPUSET, "cpuset.cpus").is_empty(),
        "inherited"
    );
    let stats = group.0.stats().unwrap();
    assert_eq!((stats.pids.current, stats.pids.limit), (1, Some(20)));
    assert_eq!(
        (stats.memory.limit, stats.memory.swap_limit),
        (Some(64 << 20), Some(128 << 20))
    );
    assert_eq!(group.0.oom_kills(), 0);

    let record = group.0.record();
    let paths: Vec<_> = group.0.paths().map(|(_, path)| path.to_path_buf()).collect();
    drop(group);
    assert!(!child.wait().unwrap().success());
    assert!(paths.iter().all(|path| !path.try_exists().unwrap()), "{paths:?}");
    let gone = Cgroup::open(&record).unwrap();
    assert!(gone.is_empty());
    gone.remove().unwrap();
}

#[test]
fn both_memory_limits_move_up_and_down() {
    let Some(layout) = layout() else { return };
    let group = create(&layout, "memory", &limits(), Controllers::NONE);
    for (limit, swap) in [
        (256 << 20, 512 << 20),
        (16 << 20, 32 << 20),
        (-1, -1),
        (64 << 20, 64 << 20),
        (-1, 0),
    ] {
        let memory = Memory {
            limit: Some(limit),
            swap: Some(swap),
            ..Memory::default()
        };
        let resources = Resources {
            memory: Some(memory),
            ..Resources::default()
        };
        assert_eq!(
            group.0.update(&resources, Policy::Strict).unwrap(),
            [],
            "{limit} {swap}"
        );
        let stats = group.0.stats().unwrap().memory;
        assert_eq!(stats.limit, u64::try_from(limit).ok(), "{limit}");
        assert_eq!(
            stats.swap_limit,
            u64::try_from(swap).ok().filter(|&s| s > 0),
            "{swap}"
        );
    }
}

#[test]
fn cpu_values_move_in_any_order() {
    let Some(layout) = layout() else { return };
    let group = create(&layout, "cpu", &limits(), Controllers::NONE);
    for (quota, period) in [
        (500_000, 1_000_000),
        (1_000, 1_000),
        (-1, 50_000),
        (200_000, 100_000),
    ] {
        let cpu = Cpu {
            quota: Some(quota),
            period: Some(period),
            shares: Some(100),
            ..Cpu::default()
        };
        let resources = Resources {
            cpu: Some(cpu),
            ..Resources::default()
        };
        assert_eq!(group.0.update(&resources, Policy::Strict).unwrap(), []);
        assert_eq!(
            file(&group, Controllers::CPU, "cpu.cfs_quota_us"),
            quota.to_string()
        );
        assert_eq!(
            file(&group, Controllers::CPU, "cpu.cfs_period_us"),
            period.to_string()
        );
    }
}

#[test]
fn too_little_memory_names_the_usage() {
    let Some(layout) = layout() else { return };
    let group = create(&layout, "usage", &limits(), Controllers::FREEZER);
    let pipe = std::process::Stdio::piped;
    let script = "read x; i=0; while [ $i -lt 16 ]; do x=$x$x$x; i=$((i+1)); done; echo done; read y";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(pipe())
        .stdout(pipe())
        .spawn()
        .unwrap();
    group.0.attach(child.id()).unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"abc\n").unwrap();
    let mut said = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut said).unwrap();
    group.0.freeze().unwrap();
    let memory = Memory {
        limit: Some(4096),
        swap: Some(128 << 20),
        ..Memory::default()
    };
    let resources = Resources {
        memory: Some(memory),
        ..Resources::default()
    };
    let error = group.0.update(&resources, Policy::Warn).unwrap_err();
    assert!(
        matches!(error, Error::MemoryInUse { usage, .. } if usage > 4096),
        "{error}"
    );
    group.0.kill_all().unwrap();
    child.wait().unwrap();
}

#[test]
fn device_rules_change_without_a_moment_of_denial() {
    let Some(layout) = layout() else { return };
    let group = create(&layout, "devices", &limits(), Controllers::NONE);
    let mut rules = default_device_rules();
    rules.pop();
    let resources = Resources {
        devices: rules,
        ..Resources::default()
    };
    assert_eq!(group.0.update(&resources, Policy::Strict).unwrap(), []);
    let list = file(&group, Controllers::DEVICES, "devices.list");
    assert!(!list.contains("136") && list.contains("c 1:3 rwm"), "{list}");
}

#[test]
fn frozen_processes_wait_and_die() {
    let Some(layout) = layout() else { return };
    let group = create(&layout, "freeze", &Resources::default(), Controllers::FREEZER);
    let mut child = sleeper(&group);
    group.0.freeze().unwrap();
    assert!(group.0.is_frozen().unwrap());
    assert_eq!(file(&group, Controllers::FREEZER, "freezer.state"), "FROZEN");
    group.0.thaw().unwrap();
    assert!(!group.0.is_frozen().unwrap());
    group.0.freeze().unwrap();
    group.0.kill_all().unwrap();
    assert!(!child.wait().unwrap().success(), "killed though frozen");
}

#[test]
fn a_forking_group_is_killed_whole() {
    let Some(layout) = layout() else { return };
    for also in [Controllers::NONE, Controllers::FREEZER] {
        let resources = Resources {
            pids: Some(Pids { limit: Some(40) }),
            ..Resources::default()
        };
        let group = create(&layout, "fork", &resources, also);
        let mut child = Command::new("sh")
            .args([
                "-c",
                "read x; f() { while :; do sleep 0.01 & wait; done; }; for i in 1 2 3 4; do f & done; wait",
            ])
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        group.0.attach(child.id()).unwrap();
        drop(child.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        while group.0.pids().unwrap().len() < 5 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        group.0.kill_all().unwrap();
        child.wait().unwrap();
        assert!(group.0.wait_empty(Duration::from_secs(5)).unwrap());
        assert_eq!(group.0.pids().unwrap(), [] as [i32; 0]);
    }
}

#[test]
fn nested_groups_and_made_parents_go_too() {
    let Some(layout) = layout() else { return };
    let name = format!("tote-test-deep-{}", std::process::id());
    let path = CgroupPath::from_oci(&format!("{name}/b/c")).unwrap();
    let resources = Resources {
        pids: Some(Pids { limit: Some(5) }),
        ..Resources::default()
    };
    let request = Request {
        also: Controllers::CPUSET,
        ..Request::new(&path, &resources)
    };
    let group = Group(Cgroup::create(&plan(&layout, &request).unwrap()).unwrap().0);
    let dirs: Vec<_> = group.0.paths().map(|(_, path)| path.to_path_buf()).collect();
    std::fs::create_dir_all(dirs[0].join("inside/deeper")).unwrap();
    let mut child = sleeper(&group);
    let bare = child.id().to_string();
    std::fs::write(dirs[0].join("inside/deeper/cgroup.procs"), &bare)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(group.0.pids().unwrap().len(), 1, "members of groups below count");
    drop(group);
    child.wait().unwrap();
    let tops = dirs.iter().map(|dir| dir.parent().unwrap().parent().unwrap());
    assert!(
        tops.clone()
            .all(|top| top.ends_with(&name) && !top.try_exists().unwrap()),
        "{dirs:?}"
    );
}

#[test]
fn a_group_in_use_is_not_removed() {
    let Some(layout) = layout() else { return };
    let group = create(&layout, "busy", &Resources::default(), Controllers::NONE);
    let mut child = sleeper(&group);
    assert!(matches!(group.0.remove(), Err(Error::Remove { .. })));
    group.0.kill_all().unwrap();
    child.wait().unwrap();
}

#[test]
fn v2_kills_and_freezes_as_one_step() {
    let layout = Layout::read().unwrap();
    let Some(v2) = &layout.v2 else {
        println!("skipped: needs a mounted cgroup v2");
        return;
    };
    if rustix::fs::access(v2.own_dir(), rustix::fs::Access::WRITE_OK).is_err() {
        println!("skipped: needs a writable cgroup v2");
        return;
    }
    let only = Layout {
        v1: vec![],
        v2: layout.v2.clone(),
    };
    let path = CgroupPath::from_id(&format!("test-v2-{}", std::process::id())).unwrap();
    let (cgroup, _) =
        Cgroup::create(&plan(&only, &Request::new(&path, &Resources::default())).unwrap()).unwrap();
    let group = Group(cgroup);
    let mut child = sleeper(&group);
    group.0.freeze().unwrap();
    assert!(group.0.is_frozen().unwrap());
    assert!(!group.0.wait_empty(Duration::from_millis(1)).unwrap());
    group.0.kill_all().unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(group.0.wait_empty(Duration::from_secs(5)).unwrap());
    assert!(group.0.stats().unwrap().cpu.usage_ns > 0);
}

#[test]
fn a_child_joins_by_itself() {
    let Some(layout) = layout() else { return };
    let group = create(&layout, "join", &limits(), Controllers::FREEZER);
    assert_eq!(group.0.open_tasks().unwrap().len(), group.0.paths().count());
    let script = "for f in \"$@\"; do echo 0 > \"$f\"; done; exec cat /proc/self/cgroup";
    let mut child = Command::new("sh");
    child.args(["-c", script, "sh"]).args(group.0.tasks_files());
    let output = child.output().unwrap();
    assert!(output.status.success());
    let joined = String::from_utf8(output.stdout).unwrap();
    let leaf = group
        .0
        .paths()
        .next()
        .unwrap()
        .1
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        joined.lines().filter(|l| l.ends_with(&leaf)).count(),
        group.0.paths().count(),
        "{joined}"
    );
}

#[test]
fn a_failed_creation_leaves_nothing_behind() {
    let Some(layout) = layout() else { return };
    let path = CgroupPath::from_oci(&format!("tote-test-fail-{}/x", std::process::id())).unwrap();
    let cpu = Cpu {
        cpus: Some("9999".into()),
        ..Cpu::default()
    };
    let resources = Resources {
        cpu: Some(cpu),
        ..limits()
    };
    let request = Request {
        policy: Policy::Strict,
        ..Request::new(&path, &resources)
    };
    let plan = plan(&layout, &request).unwrap();
    let error = Cgroup::create(&plan).unwrap_err();
    assert!(
        matches!(&error, Error::Write { value, .. } if value == "9999"),
        "{error}"
    );
    let mut made = plan
        .to_string()
        .lines()
        .filter_map(|l| l.strip_prefix("mkdir ").map(str::to_owned))
        .collect::<Vec<_>>();
    made.retain(|dir| std::path::Path::new(dir).parent().unwrap().try_exists().unwrap());
    assert_eq!(made, [] as [&str; 0]);
}
