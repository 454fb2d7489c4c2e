//! The process: schedulers, personality, memory, devices, capabilities, listener.

use crate::container::{Bundle, perform_telling};
use crate::needs;
use rustix::pipe::PipeFlags;
use serde_json::json;
use std::time::Duration;
use tote_runtime::{Outcome, Parting};
use tote_sys::{Birth, Event, Op, Parcel, Way, birth};

#[test]
fn schedulers_and_policies() {
    needs!();
    let script = "awk '{ print $41, $19 }' /proc/self/stat; ionice -p 1; uname -m; head -n 1 /proc/self/numa_maps | cut -d ' ' -f 2";
    let bundle = Bundle::new(script)
        .with("/process/scheduler", json!({"policy": "SCHED_BATCH", "nice": 19}))
        .with(
            "/process/ioPriority",
            json!({"class": "IOPRIO_CLASS_BE", "priority": 4}),
        )
        .with("/linux/personality", json!({"domain": "LINUX32"}))
        .with(
            "/linux/memoryPolicy",
            json!({"mode": "MPOL_INTERLEAVE", "nodes": "0"}),
        );
    assert_eq!(
        bundle.run().as_deref(),
        Ok("3 19\nbest-effort: prio 4\ni686\ninterleave:0\n")
    );
}

#[test]
fn every_processor() {
    needs!();
    let thread = std::thread::spawn(|| {
        let all = rustix::thread::sched_getaffinity(None).unwrap();
        let mut one = rustix::thread::CpuSet::new();
        one.set(
            (0..rustix::thread::CpuSet::MAX_CPU)
                .find(|&cpu| all.is_set(cpu))
                .unwrap(),
        );
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        let said = Bundle::new("grep Cpus_allowed_list /proc/self/status | cut -f 2")
            .run()
            .unwrap();
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
        assert_eq!(said, online);
    });
    thread.join().unwrap();
}

#[test]
fn device_nodes() {
    needs!();
    let devices = json!([
        {"type": "c", "path": "/dev/mine", "major": 1, "minor": 11, "fileMode": 0o640, "uid": 3, "gid": 4},
        {"type": "p", "path": "/run/pipe", "fileMode": 0o600},
        {"type": "c", "path": "/dev/tty", "major": 5, "minor": 0},
        {"type": "c", "path": "/dev/ptmx", "major": 5, "minor": 2},
        {"type": "c", "path": "/dev/null", "major": 1, "minor": 3, "fileMode": 0o444},
    ]);
    let script = "stat -c '%n %a %u:%g %F %t:%T' /dev/mine /run/pipe /dev/tty /dev/null; readlink /dev/ptmx; readlink /dev/core";
    let bundle = Bundle::new(script).with("/linux/devices", devices);
    assert_eq!(
        bundle.run().as_deref(),
        Ok(
            "/dev/mine 640 3:4 character special file 1:b\n/run/pipe 600 0:0 fifo 0:0\n\
            /dev/tty 666 0:0 character special file 5:0\n/dev/null 444 0:0 character special file 1:3\n\
            pts/ptmx\n/proc/kcore\n"
        )
    );
}

#[test]
fn capabilities_as_the_spec_has_them() {
    needs!();
    let script = "grep ^Cap /proc/self/status | cut -f 2";
    let sets = json!({"inheritable": ["CAP_CHOWN", "CAP_SYSLOG"], "permitted": ["CAP_KILL", "CAP_CHOWN"],
        "effective": ["CAP_KILL"], "bounding": ["CAP_KILL", "CAP_CHOWN", "CAP_SYSLOG"], "ambient": ["CAP_CHOWN", "CAP_KILL"]});
    let of_user = |uid: u32, sets: &serde_json::Value| {
        let bundle = Bundle::new(script).with("/process/capabilities", sets.clone());
        bundle.with("/process/user", json!({"uid": uid, "gid": 0}))
    };
    let warned = |uid, sets| {
        let plan = of_user(uid, sets).plan().unwrap();
        let ambient = plan.warnings.iter().filter(|line| line.contains("ambient"));
        ambient
            .map(|line| {
                line.split([' ', ':'])
                    .find(|word| word.starts_with("CAP_"))
                    .unwrap()
                    .to_owned()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (warned(0, &sets), warned(5, &sets)),
        (vec!["CAP_KILL".to_owned()], vec!["CAP_KILL".to_owned()])
    );
    // Engines that make nothing inheritable still list root's capabilities.
    let mut nothing = sets.clone();
    nothing["inheritable"] = json!([]);
    let both = vec!["CAP_CHOWN".to_owned(), "CAP_KILL".to_owned()];
    assert_eq!((warned(0, &nothing), warned(5, &nothing)), (vec![], both));
    let said = of_user(0, &sets).run().unwrap();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "0000000400000001", "inheritable");
    assert_eq!(lines[3], "0000000400000021", "bounding");
    assert_eq!(lines[4], "0000000000000001", "ambient");
    let none = Bundle::new(script)
        .with("/process/capabilities", json!(null))
        .run()
        .unwrap();
    assert_eq!(none, "0000000000000000\n".repeat(5));
}

#[test]
fn the_listener_of_a_filter() {
    needs!();
    for no_new_privileges in [false, true] {
        let bundle = Bundle::new("mkdir /tmp/x")
            .with("/process/noNewPrivileges", json!(no_new_privileges))
            .with(
                "/linux/seccomp",
                json!({"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/x",
                    "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}]}),
            );
        let mut bundle = bundle;
        bundle.namespace(json!({"type": "network", "path": "/proc/self/ns/net"}));
        let plan = bundle.plan().unwrap();
        let child = birth(&Birth {
            ops: &plan.ops,
            namespaces: plan.namespaces,
            ancestry: tote_runtime::ancestry(&plan),
            cgroup: None,
            timings: false,
            seal: None,
            parcels: &[],
            way: Way::Copied,
        })
        .unwrap();
        for _ in &plan.gates {
            child.open_gate(&Parcel::default()).unwrap();
        }
        let Event::Seccomp(listener) = child.event().unwrap() else {
            panic!("no listener");
        };
        assert!(matches!(child.event().unwrap(), Event::Exec));
        // No process answers: the call fails when the last listener is gone.
        drop(listener);
        let wait = tote_sys::Wait::within(Duration::from_secs(60));
        let status = wait.reap(rustix::fd::AsFd::as_fd(&child.pidfd));
        assert_eq!(status.unwrap().unwrap().exit_status(), Some(1));
    }
}

#[test]
fn a_listener_needs_a_path_and_a_call_to_send_it_by() {
    needs!();
    let of = |path: &str, name: &str| {
        let seccomp = json!({"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": path,
            "syscalls": [{"names": [name], "action": "SCMP_ACT_NOTIFY"}]});
        Bundle::new("true")
            .with("/linux/seccomp", seccomp)
            .run()
            .unwrap_err()
    };
    assert!(of("", "mkdir").contains("listenerPath"));
    assert!(of("/x", "write").contains("cannot be used for the write syscall"));
    assert!(of("/x", "mkdir").contains("not supported for a container in the foreground"));
}

#[test]
fn a_program_waits_until_its_process_is_recorded() {
    needs!();
    let bundle = Bundle::new("echo begun");
    let mut plan = bundle.plan().unwrap();
    plan.await_record();
    let (said, says) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    plan.insert_stdio(vec![Op::Stdio { fd: says, number: 1 }]);
    // Much longer than the program takes to its first word if it does not wait.
    let moment = Duration::from_millis(300);
    let speaks = |limit| {
        let wait = tote_sys::Wait::within(limit);
        wait.readable(rustix::fd::AsFd::as_fd(&said)).unwrap()
    };
    let mut spoke_before = None;
    let parting = perform_telling(&plan, &mut |_, _| spoke_before = Some(speaks(moment))).unwrap();
    assert!(matches!(parting, Parting::Ended(ended) if ended.outcome == Outcome::Exited(0)));
    assert_eq!(spoke_before, Some(false));
    assert!(speaks(moment));
}
