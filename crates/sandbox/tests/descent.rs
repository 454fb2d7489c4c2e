//! Processes that join a container: they give away everything that the container lacks before they enter it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rustix::fd::OwnedFd;
use std::path::Path;
use tote_rootfs::{Bind, Storage, Upper};
use tote_sandbox::{
    Aside, Brought, CgroupView, DeviceNodes, DeviceOf, Facts, HostFile, Newcomer, OwnDev, Plan, Root,
    RootLink, SecurityModule, Stdin, Tools, Whole, WrittenFile, enter,
};
use tote_spec::Spec;
use tote_sys::{JoinProcess, Op, Privilege, Quirk, Source};

const NEW_PID: u32 = 0x2000_0000;
const NEW_MOUNT: u32 = 0x2_0000;

/// Plans a newcomer with that filter.
fn planned(seccomp: &str, namespaces: u32) -> Plan {
    planned_with(seccomp, namespaces, None)
}

/// Plans a newcomer that may bring tools.
fn planned_with(seccomp: &str, namespaces: u32, tools: Option<Tools<'_>>) -> Plan {
    planned_as("", SecurityModule::None, (seccomp, namespaces), tools)
}

/// Plans a newcomer with a property of the process by which a security module treats it.
fn planned_as(
    label: &str,
    module: SecurityModule,
    (seccomp, namespaces): (&str, u32),
    tools: Option<Tools<'_>>,
) -> Plan {
    let text = format!(
        r#"{{"ociVersion": "1.2.0", "process": {{"user": {{"uid": 0, "gid": 0}}, "cwd": "/", "args": ["x"], {label}
        "oomScoreAdj": 5}}, "linux": {{"seccomp": {seccomp}}}}}"#
    );
    enter(Newcomer {
        spec: &Spec::parse(&text).unwrap(),
        pidfd: OwnedFd::from(std::fs::File::open("/dev/null").unwrap()),
        namespaces,
        root: None,
        tools,
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
            becomes_root: false,
            security_module: module,
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

/// Tools with the container in a directory of them, or beside the container's tree.
fn tools(aside: Option<Aside<'static>>, at: &str) -> Tools<'static> {
    Tools {
        root: Root::Stored {
            storage: Storage::Overlay {
                lowers: vec!["/tools".into()],
                own_inodes: None,
                upper: Upper::Tmpfs { size: None },
                volatile: false,
            },
            binds: Vec::new(),
            private: false,
            nosuid: false,
        },
        aside,
        mapped: false,
        attach_point: Path::new("/attach"),
        brought: vec![Brought {
            from: Whole::Process(OwnedFd::from(std::fs::File::open("/dev/null").unwrap())),
            path: "/".to_owned(),
            at: at.to_owned(),
        }],
        dev: None,
        links: Vec::new(),
        binds: vec![HostFile {
            path: "/socket".into(),
            at: "/run/socket".to_owned(),
        }],
        files: vec![WrittenFile {
            path: "/bin/script".to_owned(),
            mode: 0o755,
            content: b"text".to_vec(),
        }],
        filter: None,
    }
}

#[test]
fn tools_are_mounted_before_anything_is_joined() {
    let tools = tools(None, "/target");
    let plan = planned_with("null", NEW_PID | NEW_MOUNT, Some(tools));
    assert_eq!(
        plan.namespaces,
        u64::from(NEW_MOUNT),
        "the mounts are its own:\n{plan}"
    );
    let joined = place(&plan, |op| {
        matches!(
            op,
            Op::JoinProcess(JoinProcess {
                namespaces: NEW_PID,
                ..
            })
        )
    });
    let pivot = place(&plan, |op| matches!(op, Op::Pivot));
    let mounts = |op: &Op| matches!(op, Op::Mount(_) | Op::Propagation(_));
    let last = plan.ops.iter().rposition(mounts).unwrap();
    assert!(last < pivot && pivot < joined, "{plan}");
    let text = plan.to_string();
    for part in ["on /target", "bind /socket on /run/socket", "/bin/script"] {
        assert!(text.contains(part), "no {part:?}: {text}");
    }
    // The session ends with its parent, which holds the tools.
    place(&plan, |op| matches!(op, Op::DieWithParent));
}

/// In the image `host`, which has binds, what is written is below the root before that is mounted; its parts come from the tree that
/// has been brought as a whole.
#[test]
fn what_the_image_host_gets_is_below_its_root() {
    let mut tools = tools(None, "/target");
    if let Root::Stored { binds, .. } = &mut tools.root {
        binds.push(Bind {
            source: "/usr".into(),
            target: "usr".into(),
            read_only: true,
            nosuid: true,
            nodev: true,
            recursive: false,
        });
    }
    tools.links.push(RootLink {
        text: "/target".to_owned(),
        path: "link".to_owned(),
        replaces: true,
    });
    tools.brought.push(Brought {
        from: Whole::Shown("/target"),
        path: "/proc".to_owned(),
        at: "/proc".to_owned(),
    });
    let text = planned_with("null", NEW_PID | NEW_MOUNT, Some(tools)).to_string();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?}: {text}"));
    let order = [
        "/upper/bin/script",
        "/upper/link",
        "mount overlay",
        "bind another container's / on /target",
        "bind /attach/target/proc and what is mounted below it on /proc",
    ]
    .map(at);
    assert!(order.is_sorted(), "{order:?}: {text}");
}

/// The container's `/dev` is in the hands of its root, so the session has another one, with what is the kernel's alone.
#[test]
fn the_tools_have_a_dev_of_their_own() {
    let mut tools = tools(None, "/target");
    tools.dev = Some(OwnDev {
        container: "/target",
        devices: vec![DeviceOf {
            name: "net/tun".to_owned(),
            block: false,
            number: rustix::fs::makedev(10, 200),
        }],
    });
    let plan = planned_with("null", NEW_PID | NEW_MOUNT, Some(tools));
    let text = plan.to_string();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?}: {text}"));
    let order = [
        "bind another container's / on /target",
        "mount tmpfs on /dev",
        "make device /dev/null 1:3",
        "link /dev/fd to /proc/self/fd",
        "mount devpts on /dev/pts",
        "mount tmpfs on /dev/shm",
        "bind /attach/target/dev/mqueue on /dev/mqueue",
        "bind /attach/target/dev/net/tun on /dev/net/tun if it is the character device 10:200",
    ]
    .map(at);
    assert!(order.is_sorted(), "{order:?}: {text}");
    for op in &plan.ops {
        let Op::Mount(mount) = op else { continue };
        let Source::Clone(source) = &mount.source else {
            continue;
        };
        let is_checked = matches!(mount.quirk, Quirk::OnlyOf { .. } | Quirk::OnlyDevice { .. });
        let of_container = source.path.to_bytes().starts_with(b"/attach/target");
        assert!(is_checked || !of_container, "{plan}");
    }
}

#[test]
fn files_of_the_root_come_after_the_tools_that_are_set_aside() {
    let aside = Aside {
        at: "/.tote/.tools",
        layer: Path::new("/launchers"),
    };
    let plan = planned_with("null", NEW_PID | NEW_MOUNT, Some(tools(Some(aside), "/etc")));
    let text = plan.to_string();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?}: {text}"));
    let order = [
        "mount overlay",
        "set the root aside",
        "lowerdir=/launchers",
        "on /.tote/.tools",
        "/bin/script",
        "on /etc",
    ]
    .map(at);
    assert!(order.is_sorted(), "{order:?}: {text}");
    let covers = text.matches("mount tmpfs as the root").count();
    assert_eq!(
        covers, 2,
        "for the writes among the tools, and for the others: {text}"
    );
}

/// A label takes effect at the exec, and is inherited by the process in between: none of the container's rules hold while the mounts
/// are made.
#[test]
fn the_label_is_set_behind_the_mounts_and_before_the_descent() {
    let tools = || Some(tools(None, "/target"));
    for (label, module, path, value) in [
        (
            r#""apparmorProfile": "docker-default","#,
            SecurityModule::AppArmor,
            "self/attr/apparmor/exec",
            "exec docker-default",
        ),
        (
            r#""selinuxLabel": "system_u:system_r:container_t:s0","#,
            SecurityModule::SeLinux,
            "self/attr/exec",
            "system_u:system_r:container_t:s0",
        ),
    ] {
        let plan = planned_as(label, module, ("null", NEW_PID | NEW_MOUNT), tools());
        let set = place(&plan, |op| {
            matches!(op, Op::Proc { path: at, value: text, optional: false }
                if at.to_bytes() == path.as_bytes() && text == value.as_bytes())
        });
        let pivot = place(&plan, |op| matches!(op, Op::Pivot));
        assert!(pivot < set && set < descent(&plan), "{plan}");
    }
}
