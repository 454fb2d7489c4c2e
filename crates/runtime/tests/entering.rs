//! A process in another one's namespaces, whose parent does other things until it hears of it. The caller loses its environment, so the test
//! has a process of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, BorrowedFd};
use std::ffi::CString;
use tote_runtime::{Entering, RuntimeError};
use tote_sandbox::Plan;
use tote_sys::{Ancestry, Birth, Child, Exec, ExitStatus, JoinProcess, Op, Program, Way, birth};

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

fn other() -> Child {
    let request = Birth {
        ops: &[executes(&["/bin/sleep", "60"])],
        namespaces: (NEW_PID | NEW_MOUNTS).into(),
        ancestry: Ancestry::default(),
        cgroup: None,
        timings: false,
        seal: None,
        parcels: &[],
        way: Way::Copied,
    };
    birth(&request).unwrap()
}

fn plan(other: &Child, words: &[&str]) -> Plan {
    Plan {
        namespaces: 0,
        user_namespace: None,
        pid_namespace: None,
        join: Vec::new(),
        net_devices: Vec::new(),
        links: Vec::new(),
        ops: vec![
            Op::HoldProc,
            Op::JoinProcess(JoinProcess {
                pidfd: other.pidfd.try_clone().unwrap(),
                namespaces: NEW_PID | NEW_MOUNTS,
                root: None,
            }),
            Op::Descend { first_closed: 3 },
            executes(words),
        ],
        gates: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Waits until there is something to read.
fn wait(fd: BorrowedFd<'_>) {
    let limit = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&limit)), Ok(1), "nothing in a minute");
}

fn enter(plan: Plan) -> Entering {
    assert!(Entering::is_possible(&plan));
    Entering::begin(plan, &mut |text| panic!("{text}")).unwrap()
}

#[test]
fn the_parent_of_a_process_hears_of_it_when_it_asks() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let other = other();
    let is_inside = ["/bin/sh", "-c", "test $$ -gt 1 && test $PPID = 0 && exit 7"];
    let mut child = enter(plan(&other, &is_inside));
    wait(child.channel());
    assert!(matches!(child.outcome(), Some(Ok(()))));
    assert_eq!(ExitStatus::of(child.process().1), Ok(ExitStatus::Code(7)));

    let mut child = enter(plan(&other, &["/nonexistent"]));
    wait(child.process().1);
    let error = child.outcome().unwrap().unwrap_err();
    assert_eq!(error.exit_code(), 127, "{error}");
    assert!(error.to_string().contains("/nonexistent"), "{error}");
    assert_eq!(ExitStatus::of(child.process().1), Ok(ExitStatus::Code(127)));

    let child = enter(plan(&other, &["/bin/sleep", "60"]));
    child.kill();
    assert_eq!(ExitStatus::of(child.process().1), Ok(ExitStatus::Signal(9)));

    // It fails before it is in the container, and leaves nothing behind.
    let ended = self::other();
    ended.kill();
    let error = Entering::begin(plan(&ended, &is_inside), &mut |text| panic!("{text}")).unwrap_err();
    assert!(matches!(error, RuntimeError::Step(_)), "{error}");
    other.kill();
    // The processes before have ended.
    let rest = loop {
        match rustix::process::wait(rustix::process::WaitOptions::empty()) {
            Ok(Some((_, status))) => assert!(matches!(status.exit_status(), Some(0 | 125)), "{status:?}"),
            rest => break rest,
        }
    };
    assert!(matches!(rest, Err(tote_sys::Errno::CHILD)), "{rest:?}");
}

#[test]
fn a_process_that_asks_its_parent_for_something_is_refused() {
    let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
    let own = own.unwrap();
    let joins = |namespaces| {
        Op::JoinProcess(JoinProcess {
            pidfd: own.as_fd().try_clone_to_owned().unwrap(),
            namespaces,
            root: None,
        })
    };
    let with = |ops: Vec<Op>| Plan {
        namespaces: 0,
        user_namespace: None,
        pid_namespace: None,
        join: Vec::new(),
        net_devices: Vec::new(),
        links: Vec::new(),
        ops,
        gates: Vec::new(),
        warnings: Vec::new(),
    };
    let descends = || Op::Descend { first_closed: 3 };
    let is_possible = |ops| Entering::is_possible(&with(ops));
    assert!(is_possible(vec![joins(NEW_PID), descends()]));
    assert!(!is_possible(vec![joins(NEW_PID)]), "it does not descend");
    assert!(
        !is_possible(vec![joins(NEW_PID | 0x80), descends()]),
        "time namespace"
    );
    let terminal = Op::Terminal {
        size: (24, 80),
        owner: 0,
        plain: false,
    };
    assert!(!is_possible(vec![joins(NEW_PID), terminal, descends()]));
    let listens = Op::Privilege(tote_sys::Privilege {
        credentials: None,
        capabilities: None,
        no_new_privs: false,
        filter: Some((Box::default(), 1 << 3)),
    });
    assert!(!is_possible(vec![joins(NEW_PID), listens, descends()]));
}
