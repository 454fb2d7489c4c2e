//! `tote debug`: what a user is told when there can be no session.

use super::life::done;
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need::Root;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::time::Instant;

pub(super) const TESTS: &[Test] = &[
    test("debug_errors::a_container_may_end_meanwhile", &[], gone),
    test("debug_errors::a_zombie_has_ended", &[], zombie),
    test(
        "debug_errors::root_is_told_which_capability_is_missing",
        &[Root],
        capability,
    ),
    test(
        "debug_errors::an_old_kernel_is_told_to_be_old",
        &[Root],
        old_kernel,
    ),
];

fn gone(cx: &Context) -> Result<()> {
    let image = cx.image();
    for by_pid in [false, true] {
        done(cx, &["run", "-d", "--name", "c", &image, "sleep", "1000"])?;
        // This makes the tools' directory, too.
        done(cx, &["debug", "c", "true"])?;
        let pid = done(cx, &["inspect", "-f", "{{.State.Pid}}", "c"])?;
        let target = match by_pid {
            true => format!("pid:{}", pid.trim()),
            false => "c".to_owned(),
        };
        // A session takes the tools' lock after it has found its container.
        let tools: Vec<_> = std::fs::read_dir(cx.root().join("host"))?.collect::<Result<_, _>>()?;
        let locks = tools
            .iter()
            .map(|tools| File::open(tools.path().join("root")).context("open the tools"))
            .collect::<Result<Vec<_>>>()?;
        for lock in &locks {
            flock(lock, FlockOperation::LockExclusive)?;
        }
        let session = cx.tote(&["debug", &target, "echo", "in"]).spawn()?;
        waits_for_lock(session.pid())?;
        done(cx, &["kill", "c"])?;
        done(cx, &["wait", "c"])?;
        drop(locks);
        session.finish()?.refuses(1, &["is not running"])?;
        done(cx, &["rm", "-f", "c"])?;
    }
    Ok(())
}

/// Waits until a process waits for a lock of flock(2).
fn waits_for_lock(pid: i32) -> Result<()> {
    let deadline = Instant::now() + patience();
    let is_it = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next() == Some("->") && words.nth(3) == Some(&pid.to_string())
    };
    while !std::fs::read_to_string("/proc/locks")?.lines().any(is_it) {
        ensure!(
            Instant::now() < deadline,
            "the session does not wait for the lock"
        );
    }
    Ok(())
}

/// A process that has ended keeps its number until its parent has waited for it.
fn zombie(cx: &Context) -> Result<()> {
    let mut child = std::process::Command::new("true").spawn()?;
    let pid = i32::try_from(child.id())?;
    processes::wait_end(&processes::pidfd(pid)?, "a program", patience())?;
    let target = format!("pid:{pid}");
    cx.tote(&["debug", &target, "true"])
        .output()?
        .refuses(1, &[&target, "has ended"])?;
    child.wait()?;
    Ok(())
}

/// Root in a container sees the machine's processes with `--pid host`, and may look into none of them that has more rights.
fn capability(cx: &Context) -> Result<()> {
    let binary = format!("{}:/tote:ro", cx.binary().display());
    let target = format!("pid:{}", std::process::id());
    let script = format!("/tote --root /tmp/state debug --tools rootfs:/ {target} true");
    cx.shell(&["--pid", "host", "-v", &binary], &script)?.refuses(
        126,
        &[
            &target,
            "tote lacks the capability SYS_PTRACE",
            "--cap-add SYS_PTRACE",
        ],
    )?;
    Ok(())
}

/// A kernel before 5.12 has no mount_setattr(2); a filter of system calls can be one.
fn old_kernel(cx: &Context) -> Result<()> {
    let profile = cx.file(
        "old.json",
        r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mount_setattr", "open_tree", "fsopen"],
            "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]}"#,
    )?;
    let binary = format!("{}:/tote:ro", cx.binary().display());
    let filter = |filter: &str| {
        let words = ["--privileged", "--security-opt", filter, "-v", &binary];
        let script = "sleep 100 & /tote --root /tmp/state debug --tools rootfs:/ pid:$! echo in";
        cx.shell(&words, script)
    };
    filter("seccomp=unconfined")?.prints("in\n")?;
    filter(&format!("seccomp={profile}"))?
        .fails()?
        .has_err("function not implemented")?
        .has_err("this kernel is too old: tote needs Linux 5.12")?;
    Ok(())
}
