//! A process that shares the memory of its caller until it is in the other's namespaces. The caller loses its environment, so the test has
//! a process of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rustix::fd::AsFd as _;
use std::ffi::CString;
use tote_sys::{
    Ancestry, Birth, Child, Errno, Event, Exec, ExitStatus, JoinProcess, Op, Program, Way, birth,
};

const NEW_PID: u32 = 0x2000_0000;
const NEW_MOUNTS: u32 = 0x2_0000;

fn executes(words: &[&str]) -> Op {
    let words: Vec<_> = words.iter().map(|word| CString::new(*word).unwrap()).collect();
    Op::Exec(Box::new(Exec {
        candidates: vec![words[0].clone()],
        program: Program::new(words, Vec::new()),
        never: None,
        file: None,
    }))
}

fn born(ops: &[Op], namespaces: u32, way: Way) -> Child {
    let request = Birth {
        ops,
        namespaces: namespaces.into(),
        ancestry: Ancestry::default(),
        cgroup: None,
        timings: false,
        seal: None,
        parcels: &[],
        way,
    };
    birth(&request).unwrap()
}

/// Has a program executed in the namespaces of another process; returns the last event, and its exit status.
fn joined(other: &Child, words: &[&str], way: Way) -> (Event, ExitStatus) {
    let ops = [
        Op::HoldProc,
        Op::JoinProcess(JoinProcess {
            pidfd: other.pidfd.try_clone().unwrap(),
            namespaces: NEW_PID | NEW_MOUNTS,
            root: None,
        }),
        Op::Descend { first_closed: 3 },
        executes(words),
    ];
    let mut child = born(&ops, 0, way);
    // A descendant that fails may say so before its maker names it.
    let mut first = child.event().unwrap();
    let mut failure = None;
    if !matches!(first, Event::Descended(_)) {
        failure = Some(first);
        first = child.event().unwrap();
    }
    let Event::Descended(pid) = first else {
        panic!("no descendant: {failure:?}, then {first:?}");
    };
    child.descend(pid).unwrap();
    let event = failure.unwrap_or_else(|| child.event().unwrap());
    (event, ExitStatus::of(child.pidfd.as_fd()).unwrap())
}

#[test]
fn a_process_shares_memory_until_it_is_inside() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let other = born(
        &[executes(&["/bin/sleep", "60"])],
        NEW_PID | NEW_MOUNTS,
        Way::Copied,
    );
    assert!(matches!(other.event().unwrap(), Event::Exec));
    let has_environment = || std::env::var_os("PATH").is_some();
    // The first process of its own namespace sees that one alone.
    let is_inside = ["/bin/sh", "-c", "test $$ -gt 1 && test $PPID = 0 && exit 7"];

    let (event, status) = joined(&other, &is_inside, Way::Copied);
    assert!(matches!(event, Event::Exec), "{event:?}");
    assert_eq!(status, ExitStatus::Code(7));
    assert!(has_environment(), "a copy has forgotten its own");

    let (event, status) = joined(&other, &is_inside, Way::Shared);
    assert!(matches!(event, Event::Exec), "{event:?}");
    assert_eq!(status, ExitStatus::Code(7));
    assert!(!has_environment(), "nothing was shared");

    let (event, status) = joined(&other, &["/nonexistent"], Way::Shared);
    assert!(
        matches!(
            event,
            Event::Failed {
                op: 3,
                errno: Errno::NOENT,
                ..
            }
        ),
        "{event:?}"
    );
    assert_eq!(status, ExitStatus::Code(127));
    other.kill();
}
