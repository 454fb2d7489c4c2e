//! Users of virtual machines: each of root's has one of its own, and no process of another one reaches the memory of its guest.

use super::vm::{QEMU, prepare};
use crate::context::Context;
use crate::exchange::patience;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::neighbour::NEIGHBOUR;
use crate::processes::{self, Process};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Instant;

const NEEDS: &[Need] = &[QEMU, Need::GuestKernel, Need::Root, Need::Program("setpriv")];

pub(super) const TESTS: &[Test] = &[
    test("vm::no_other_user_reaches_the_memory_of_a_guest", NEEDS, machines).slow(4),
    test(
        "vm::no_other_user_reaches_a_template_that_is_being_made",
        NEEDS,
        template,
    )
    .slow(4),
];

/// Ids of machines' users: no account, no range and no service of systemd has one of them.
const OWN: std::ops::Range<u32> = 0x7800_0000..0x7ffe_0000;

/// Waits for QEMU below this process, until `is_ready` finds something.
fn qemu<T>(of: i32, is_ready: impl Fn(&Process) -> Option<T>) -> Result<(i32, T)> {
    let begin = Instant::now();
    loop {
        let all = processes::descendants(of);
        let mut machines = all.iter().filter(|one| one.name.starts_with("qemu"));
        if let Some(found) = machines.find_map(|one| Some((one.pid, is_ready(one)?))) {
            return Ok(found);
        }
        ensure!(begin.elapsed() < patience(), "there is no QEMU: {all:?}");
    }
}

/// Returns the path in `/proc` of a descriptor that leads to a file of that name.
fn descriptor(pid: i32, name: &str) -> Option<PathBuf> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut paths = all.flatten().map(|entry| entry.path());
    paths.find(|path| fs::read_link(path).is_ok_and(|target| target.ends_with(name)))
}

/// Returns the one user that a process has.
fn user(pid: i32) -> Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let ids: Vec<&str> = line.context("ids")?.split_whitespace().collect();
        ensure!(ids.iter().all(|id| *id == ids[0]), "{name} {ids:?}");
        Ok(ids[0].parse::<u32>()?)
    };
    let user = line("Uid:")?;
    ensure!(user == line("Gid:")?, "{status}");
    Ok(user)
}

/// True if a process of that user can do this in a shell.
fn can(user: u32, script: &str) -> Result<bool> {
    let words = ["sh", "-c", script];
    let user = [format!("--reuid={user}"), format!("--regid={user}")];
    let prefix = ["setpriv", &user[0], &user[1], "--clear-groups", "--"];
    Ok(Invocation::new(words).under(&prefix).output()?.code == 0)
}

/// Checks that the process's own user can do each of these things, which shows that the attempts are right, and other users none.
fn only_own(pid: i32, others: &[u32], scripts: &[String]) -> Result<()> {
    let own = user(pid)?;
    for script in scripts {
        ensure!(can(own, script)?, "user {own} cannot {script}");
        for other in others {
            ensure!(!can(*other, script)?, "user {other} can {script}");
        }
    }
    Ok(())
}

fn machines(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let mut pids = Vec::new();
    for name in ["one", "two"] {
        let words = [
            "run",
            "-d",
            "--name",
            name,
            "--isolation",
            "vm",
            "--network",
            "none",
            "app",
        ];
        let words = [&words[..], &["sleep", "1000000"]].concat();
        cx.tote(&words).output()?.exits(0)?;
        let first = cx.tote(&["inspect", "-f", "{{.State.Pid}}", name]).output()?;
        let attendant = first.out().trim().parse()?;
        let (machine, _) = qemu(attendant, |_| Some(()))?;
        ensure!(
            user(attendant)? == user(machine)?,
            "the attendant is another user"
        );
        pids.push(machine);
    }
    let users = [user(pids[0])?, user(pids[1])?];
    for (place, pid) in pids.iter().enumerate() {
        let others = [NEIGHBOUR, users[1 - place]];
        let memory = format!(": 3<>/proc/{pid}/mem");
        only_own(
            *pid,
            &others,
            &[memory, format!("ls -l /proc/{pid}/fd"), format!("kill -0 {pid}")],
        )?;
    }
    ensure!(
        users[0] != users[1] && users.iter().all(|user| OWN.contains(user)),
        "{users:?}"
    );
    // A visitor comes as the user of the machine that it visits.
    for name in ["one", "two"] {
        cx.tote(&["exec", name, "id", "-u"]).output()?.prints("0\n")?;
    }
    // The user follows from the container.
    cx.tote(&["restart", "-t", "0", "one"]).output()?.exits(0)?;
    let first = cx.tote(&["inspect", "-f", "{{.State.Pid}}", "one"]).output()?;
    let (machine, _) = qemu(first.out().trim().parse()?, |_| Some(()))?;
    ensure!(user(machine)? == users[0]);
    cx.tote(&["rm", "-f", "one", "two"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn template(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let mut making = cx.tote(&["vm", "template", "create", "-m", "256m"]).spawn()?;
    let (machine, path) = qemu(making.pid(), |one| descriptor(one.pid, "memory"))?;
    let tried = processes::stopped(machine, || {
        let own = user(machine)?;
        let path = path.display();
        let scripts = [
            format!(": 3<>{path}"),
            format!(": 3<{path}"),
            format!(": 3<>/proc/{machine}/mem"),
        ];
        only_own(machine, &[NEIGHBOUR, own + 1], &scripts)?;
        ensure!(OWN.contains(&own), "user {own}");
        Ok(())
    });
    ensure!(making.wait()? == 0, "the template was not made");
    tried?;
    let templates = fs::read_dir(cx.root().join("vm/templates"))?.flatten();
    let mut files = templates.map(|entry| entry.path().join("memory"));
    let memory = files.find(|path| path.exists()).context("a template")?;
    let found = fs::metadata(memory)?;
    ensure!(
        (found.uid(), found.gid(), found.mode() & 0o7777) == (0, 0, 0o444),
        "{found:?}"
    );
    cx.run(&[
        "--isolation",
        "vm=memory=256m",
        "app",
        "grep",
        "-c",
        "tote_template",
        "/proc/cmdline",
    ])?
    .prints("1\n")?;
    cx.nothing_left()
}
