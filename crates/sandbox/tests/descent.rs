//! Processes that join a container: they give away everything that the container lacks before they enter it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rustix::fd::OwnedFd;
use tote_sandbox::{CgroupView, DeviceNodes, Facts, Newcomer, Plan, SecurityModule, Stdin, enter};
use tote_spec::Spec;
use tote_sys::{Op, Privilege};

const NEW_PID: u32 = 0x2000_0000;
const NEW_MOUNT: u32 = 0x2_0000;

/// Plans a newcomer with that filter.
fn planned(seccomp: &str, namespaces: u32) -> Plan {
    let text = format!(
        r#"{{"ociVersion": "1.2.0", "process": {{"user": {{"uid": 0, "gid": 0}}, "cwd": "/", "args": ["x"],
        "oomScoreAdj": 5}}, "linux": {{"seccomp": {seccomp}}}}}"#
    );
    enter(Newcomer {
        spec: &Spec::parse(&text).unwrap(),
        pidfd: OwnedFd::from(std::fs::File::open("/dev/null").unwrap()),
        namespaces,
        root: None,
        default_filter: None,
        stdin: Stdin::Null,
        preserve_fds: 1,
        keyring: Some("_ses.x"),
        all_processors: false,
        facts: Facts {
            bounding: 0x1ff_ffff_ffff,
            hard_limit: &|_| Some(4096),
            oom_score_adj: 0,
            cgroup_view: CgroupView::None,
            waits_for_cgroup: true,
            network_comes: false,
            setgroups: true,
            device_nodes: DeviceNodes::Mounted,
            own_executable: None,
            privileged: true,
            security_module: SecurityModule::None,
        },
    })
    .unwrap()
}

fn place(plan: &Plan, is_it: impl Fn(&Op) -> bool) -> usize {
    plan.ops.iter().position(is_it).unwrap()
}

fn descent(plan: &Plan) -> usize {
    place(plan, |op| matches!(op, Op::Descend { first_closed: 4 }))
}

#[test]
fn the_last_steps_are_all_that_is_done_in_there() {
    for seccomp in [
        "null",
        r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#,
        r#"{"defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{"names": ["keyctl", "clone3", "unshare"], "action": "SCMP_ACT_ERRNO"}]}"#,
    ] {
        let plan = planned(seccomp, NEW_PID | NEW_MOUNT);
        let rest = &plan.ops[descent(&plan) + 1..];
        assert!(matches!(rest, [Op::Session, Op::Exec(_)]), "{seccomp}:\n{plan}");
        assert!(matches!(&plan.ops[..2], [Op::Gate, Op::HoldProc]), "{plan}");
    }
}

#[test]
fn a_filter_that_forbids_the_step_comes_after_it() {
    for call in ["clone", "setsid", "ioctl", "exit_group"] {
        for action in ["SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_NOTIFY"] {
            let seccomp = format!(
                r#"{{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{{"names": ["{call}"], "action": "{action}"}}]}}"#
            );
            let plan = planned(&seccomp, NEW_PID | NEW_MOUNT);
            let privilege = place(&plan, |op| {
                matches!(op, Op::Privilege(Privilege { filter: Some(_), .. }))
            });
            assert!(descent(&plan) < privilege, "{seccomp}:\n{plan}");
        }
    }
}

#[test]
fn without_a_pid_namespace_nothing_is_between() {
    let plan = planned("null", NEW_MOUNT);
    assert!(!plan.descends(), "{plan}");
}
