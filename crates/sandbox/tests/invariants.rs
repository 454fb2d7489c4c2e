//! The rules of every plan, for requests of all kinds: no process that others may see has more rights than its program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use rustix::fd::OwnedFd;
use std::path::Path;
use tote_sandbox::{
    CgroupView, DeviceNodes, Errand, Facts, Joins, Lifecycle, Lifetime, MapOrigin, Newcomer, Plan, Request,
    Root, SecurityModule, Stdin, clone_flag, enter, plan,
};
use tote_spec::{NamespaceType, Spec};
use tote_sys::Op;

fn null() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

fn facts(waits_for_cgroup: bool) -> Facts<'static> {
    Facts {
        bounding: 0x1ff_ffff_ffff,
        hard_limit: &|_| Some(4096),
        oom_score_adj: 0,
        cgroup_view: CgroupView::None,
        waits_for_cgroup,
        network_comes: false,
        setgroups: true,
        device_nodes: DeviceNodes::Mounted,
        own_executable: None,
        privileged: true,
        becomes_root: false,
        security_module: SecurityModule::AppArmor,
    }
}

/// Filters, from none to one that forbids nearly everything.
fn filter() -> impl Strategy<Value = String> {
    let calls = prop::sample::subsequence(
        vec![
            "accept4", "sendto", "close", "prctl", "clone", "setsid", "ioctl", "mmap", "write", "capset",
            "mount",
        ],
        0..4,
    );
    let action = prop::sample::select(vec!["SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_LOG"]);
    let some = (calls, action).prop_map(|(calls, action)| {
        let names = serde_json::to_string(&calls).unwrap();
        let rules = match calls.is_empty() {
            true => String::new(),
            false => format!(r#"{{"names": {names}, "action": "{action}"}}"#),
        };
        format!(r#"{{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{rules}]}}"#)
    });
    let narrow = r#"{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["execve", "write"], "action": "SCMP_ACT_ALLOW"}]}"#;
    prop_oneof![Just("null".to_owned()), Just(narrow.to_owned()), some]
}

/// A process with its filter, in namespaces of its own or of others.
#[derive(Clone, Debug)]
struct Case {
    uid: u32,
    capabilities: Vec<&'static str>,
    no_new_privs: bool,
    filter: String,
    scheduler: bool,
    terminal: bool,
    pid: &'static str,
    init: bool,
    of_parent: bool,
    waits_for_cgroup: bool,
}

impl Case {
    fn spec(&self) -> Spec {
        let sets = serde_json::to_string(&self.capabilities).unwrap();
        let scheduler = match self.scheduler {
            true => r#""scheduler": {"policy": "SCHED_BATCH", "nice": 1},"#,
            false => "",
        };
        let text = format!(
            r#"{{"ociVersion": "1.2.0", "root": {{"path": "rootfs"}},
            "process": {{"user": {{"uid": {uid}, "gid": {uid}}}, "cwd": "/srv", "args": ["x"], "terminal": {terminal},
                "noNewPrivileges": {nnp}, "apparmorProfile": "p", {scheduler} "ioPriority": {{"class": "IOPRIO_CLASS_BE", "priority": 4}},
                "capabilities": {{"bounding": {sets}, "permitted": {sets}, "effective": {sets}}}}},
            "mounts": [{{"destination": "/proc", "type": "proc", "source": "proc"}},
                {{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}},
                {{"destination": "/dev/pts", "type": "devpts", "source": "devpts"}}],
            "linux": {{"namespaces": [{{"type": "mount"}}, {pid}], "seccomp": {filter}}}}}"#,
            uid = self.uid,
            terminal = self.terminal,
            nnp = self.no_new_privs,
            pid = match self.pid {
                "own" => r#"{"type": "pid"}"#,
                "joined" => r#"{"type": "pid", "path": "/proc/7/ns/pid"}"#,
                _ => r#"{"type": "uts"}"#,
            },
            filter = self.filter,
        );
        Spec::parse(&text).unwrap()
    }

    fn plan(&self) -> Plan {
        let spec = self.spec();
        let request = Request {
            id_mapping: MapOrigin::None,
            stdin: Stdin::Null,
            init: self.init,
            lifetime: if self.of_parent {
                Lifetime::OfParent
            } else {
                Lifetime::Detached
            },
            keyring: Some("_ses.x"),
            ..Request::bare(&spec, Path::new("/run/attach"), facts(self.waits_for_cgroup))
        };
        let joined = self.pid == "joined";
        let joins = Joins {
            namespaces: joined.then(|| (NamespaceType::Pid, null())).into_iter().collect(),
            shm: None,
            proc: joined.then(null),
        };
        plan(&request, Root::Bind("/bundle/rootfs".into()), joins).unwrap()
    }

    fn newcomer(&self) -> Plan {
        let pid = if self.pid == "joined" {
            clone_flag(NamespaceType::Pid)
        } else {
            0
        };
        enter(Newcomer {
            spec: &self.spec(),
            pidfd: null(),
            namespaces: pid | clone_flag(NamespaceType::Mount),
            root: None,
            tools: None,
            default_filter: None,
            stdin: Stdin::Null,
            preserve_fds: 1,
            keyring: Some("_ses.x"),
            all_processors: true,
            facts: facts(self.waits_for_cgroup),
        })
        .unwrap()
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let names = vec![
        "CAP_CHOWN",
        "CAP_DAC_OVERRIDE",
        "CAP_SETUID",
        "CAP_SETGID",
        "CAP_SYS_ADMIN",
        "CAP_SYS_PTRACE",
    ];
    let process = (
        prop::sample::select(vec![0, 1000]),
        prop::sample::subsequence(names, 0..=6),
        any::<bool>(),
        filter(),
        prop::bool::weighted(0.2),
        any::<bool>(),
    );
    let place = (
        prop::sample::select(vec!["own", "joined", "host"]),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    (process, place).prop_map(|(process, place)| {
        let (uid, capabilities, no_new_privs, filter, scheduler, terminal) = process;
        let (pid, init, of_parent, waits_for_cgroup) = place;
        Case {
            uid,
            capabilities,
            no_new_privs,
            filter,
            scheduler,
            terminal,
            pid,
            init,
            of_parent,
            waits_for_cgroup,
        }
    })
}

fn keeps(plan: &Plan) -> Result<(), TestCaseError> {
    prop_assert!(
        plan.pid_namespace.is_none(),
        "its process is born into the PID namespace of others at last"
    );
    plan.invariants()
        .map_err(|broken| TestCaseError::fail(format!("{broken}\n{plan}")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_process_that_others_see_has_more_rights_than_its_program(case in cases(), known in any::<bool>(), hooks in any::<bool>()) {
        keeps(&case.newcomer())?;
        let mut foreground = case.plan();
        foreground.await_record();
        keeps(&foreground)?;
        let mut watched = case.plan();
        watched.watch_root();
        watched.listen(&["openat"]).unwrap();
        watched.insert_stdio(vec![Op::NoOutput { number: 1 }]);
        keeps(&watched)?;
        let mut created = case.plan();
        created.live(Lifecycle { runtime_hooks: hooks, gate: Some(null()), ..Lifecycle::default() });
        keeps(&created)?;
        let mut parked = case.plan();
        // A known filter is one that lets the wait through.
        parked.park(null(), known && case.filter == "null");
        keeps(&parked)?;
    }
}

fn ordinary() -> Case {
    Case {
        uid: 0,
        capabilities: vec!["CAP_CHOWN"],
        no_new_privs: true,
        filter: r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#.to_owned(),
        scheduler: false,
        terminal: false,
        pid: "own",
        init: false,
        of_parent: true,
        waits_for_cgroup: false,
    }
}

fn place(plan: &Plan, is_it: fn(&Op) -> bool) -> usize {
    plan.ops.iter().position(is_it).unwrap()
}

/// Moves an operation in front of the one by which the process gives its rights away.
fn too_early(plan: &mut Plan, is_it: fn(&Op) -> bool) {
    let op = plan.ops.remove(place(plan, is_it));
    let at = place(plan, |op| matches!(op, Op::Privilege(_)));
    plan.ops.insert(at, op);
}

#[test]
fn the_order_of_earlier_versions_is_refused() {
    let rule = |plan: &Plan| plan.invariants().unwrap_err().rule;
    let mut created = ordinary().plan();
    created.live(Lifecycle {
        gate: Some(null()),
        ..Lifecycle::default()
    });
    too_early(&mut created, |op| matches!(op, Op::AwaitStart(_)));
    assert_eq!(rule(&created), "it has given its capabilities away", "{created}");
    let mut parked = ordinary().plan();
    parked.park(null(), true);
    too_early(&mut parked, |op| matches!(op, Op::Park(_)));
    assert_eq!(rule(&parked), "it has given its capabilities away", "{parked}");
    let init = Case {
        init: true,
        ..ordinary()
    };
    let mut split = init.plan();
    too_early(&mut split, |op| matches!(op, Op::Pid1(_)));
    assert_eq!(rule(&split), "it has given its capabilities away", "{split}");
}

#[test]
fn what_is_kept_until_after_the_wait_needs_a_reason() {
    let rule = |plan: &Plan| plan.invariants().unwrap_err().rule;
    let created = || {
        let mut created = ordinary().plan();
        created.live(Lifecycle {
            gate: Some(null()),
            ..Lifecycle::default()
        });
        created
    };
    assert_eq!(created().invariants(), Ok(()));
    let mut filtered = created();
    let at = place(&filtered, |op| matches!(op, Op::Privilege(_)));
    let Op::Privilege(given) = &mut filtered.ops[at] else {
        unreachable!()
    };
    let later = tote_sys::Privilege {
        credentials: None,
        capabilities: None,
        no_new_privs: true,
        filter: given.filter.take(),
    };
    let exec = filtered.ops.len() - 1;
    filtered.ops.insert(exec, Op::Privilege(later));
    assert_eq!(
        rule(&filtered),
        "its filter is in force unless that forbids this",
        "{filtered}"
    );
    let mut open = created();
    open.ops.retain(|op| !matches!(op, Op::CloseFrom(_)));
    assert_eq!(rule(&open), "it has no descriptors but those that are needed");
    let mut outside = created();
    let pivot = outside.ops.remove(outside.switch_position());
    let exec = outside.ops.len() - 1;
    outside.ops.insert(exec, pivot);
    assert_eq!(rule(&outside), "its root is that of the program");
    let mut busy = created();
    let exec = busy.ops.len() - 1;
    busy.ops.insert(
        exec,
        Op::MakeDir {
            path: c"/x".into(),
            mode: 0o755,
        },
    );
    assert_eq!(rule(&busy), "nothing else is left to do");
}

/// The parent opens the user namespace when it writes the maps, before the process becomes root there and cannot be looked into for a
/// moment; one that is joined is open already.
#[test]
fn the_owner_of_a_network_is_known_before_the_process_becomes_root() {
    let text = r#"{"ociVersion": "1.2.0", "root": {"path": "rootfs"}, "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "args": ["x"]},
        "linux": {"namespaces": [{"type": "user"}, {"type": "mount"}, {"type": "network"}],
            "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}], "gidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}]}}"#;
    let spec = Spec::parse(text).unwrap();
    let facts = Facts {
        becomes_root: true,
        privileged: false,
        ..facts(false)
    };
    let planned = |id_mapping| {
        let request = Request {
            id_mapping,
            ..Request::bare(&spec, Path::new("/run/attach"), facts)
        };
        plan(&request, Root::Bind("/bundle/rootfs".into()), Joins::default()).unwrap()
    };
    let mut made = planned(MapOrigin::ByParent);
    assert!(
        made.gates
            .iter()
            .flatten()
            .any(|errand| *errand == Errand::Network)
    );
    assert_eq!(made.invariants(), Ok(()), "{made}");
    made.gates
        .iter_mut()
        .for_each(|errands| errands.retain(|errand| *errand != Errand::Maps));
    let rule = made.invariants().unwrap_err().rule;
    assert_eq!(
        rule, "its user namespace is open before it becomes root",
        "{made}"
    );
    made.user_namespace = Some(null());
    assert_eq!(made.invariants(), Ok(()), "{made}");
}
