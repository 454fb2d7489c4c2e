//! Secrets on the engine's command line are hidden from other users: they can read the arguments of every process on
//! the host, and a container those of every process in it.

use crate::context::Context;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use rustix::process::Signal;
use std::fs;
use std::time::{Duration, Instant};

pub(super) const TESTS: &[Test] = &[
    test("command_lines::no_monitor_shows_one", &[], of_monitors),
    test("command_lines::no_command_that_stays_shows_one", &[], of_commands),
    test("command_lines::an_init_shows_none", &[], of_init),
    test("command_lines::who_comes_by_exec_shows_none", &[], of_newcomers),
];

/// Returns a variable for containers that is unique to this test, because tests run concurrently.
fn secret(cx: &Context) -> Result<String> {
    cx.path("secret").map(|path| format!("PASSWORD={path}"))
}

/// Lists the processes of the host that show the secret.
fn showing(secret: &str) -> Vec<String> {
    let shown = processes::all().into_iter().filter_map(|process| {
        let line = fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    shown.filter(|line| line.contains(secret)).collect()
}

fn of_monitors(cx: &Context) -> Result<()> {
    let (secret, image) = (secret(cx)?, cx.image());
    let words = ["run", "-d", "--name", "c", "--health-cmd", "true", "-e", &secret];
    cx.tote(&[&words[..], &[&image, "sleep", "1000"]].concat())
        .output()?
        .exits(0)?;
    let shown = showing(&secret);
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    ensure!(shown.is_empty(), "{shown:?}");
    Ok(())
}

fn of_commands(cx: &Context) -> Result<()> {
    let (secret, image) = (secret(cx)?, cx.image());
    for kept in [&["--rm"][..], &[]] {
        let words = [&["run", "--name", "c"], kept, &["-e", &secret, &image]].concat();
        let script = ["sh", "-c", "echo ready; exec sleep 1000"];
        let mut run = cx.tote(&[&words[..], &script].concat()).spawn()?;
        run.expect("ready\n")?;
        // The secret may still be visible for a moment after the program has started.
        let limit = Instant::now() + Duration::from_secs(20);
        while !showing(&secret).is_empty() && Instant::now() < limit {
            std::thread::yield_now();
        }
        let shown = showing(&secret);
        cx.tote(&["kill", "c"]).output()?.exits(0)?;
        run.finish()?.exits(128 + Signal::KILL.as_raw())?;
        cx.tote(&["rm", "-f", "c"]).output()?;
        ensure!(shown.is_empty(), "{kept:?}: {shown:?}");
    }
    Ok(())
}

fn of_init(cx: &Context) -> Result<()> {
    let secret = secret(cx)?;
    let shown = cx.shell(
        &["--init", "-e", &secret],
        "tr '\\0' ' ' < /proc/1/cmdline; cat /proc/1/environ; true",
    )?;
    shown.exits(0)?;
    ensure!(
        shown.out().starts_with("tote run ") && !shown.out().contains(&secret),
        "{}",
        shown.transcript()
    );
    Ok(())
}

/// The container watches every process that appears in it.
fn of_newcomers(cx: &Context) -> Result<()> {
    let (secret, image) = (secret(cx)?, cx.image());
    let script = "while :; do for p in /proc/[0-9]*; do
case $p in */1) ;; *) read -r line < $p/cmdline; echo \"$line\" ;; esac
done; done 2>/dev/null";
    cx.tote(&["run", "-d", "--name", "c", &image, "sh", "-c", script])
        .output()?
        .exits(0)?;
    for _ in 0..20 {
        cx.tote(&["exec", "-e", &secret, "c", "true"])
            .output()?
            .exits(0)?;
    }
    let seen = cx.tote(&["logs", "c"]).output()?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    ensure!(!seen.out().contains(&secret), "{}", seen.transcript());
    Ok(())
}
