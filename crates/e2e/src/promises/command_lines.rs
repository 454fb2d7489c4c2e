//! Secrets on the engine's command line are hidden from other users: they can read the arguments of every process on
//! the host, and a container those of every process in it.

use crate::bundle::Bundle;
use crate::context::Context;
use crate::need::Need::Root;
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
    test(
        "command_lines::what_comes_into_a_pid_namespace_shows_none",
        &[],
        of_newcomers,
    ),
    test("command_lines::what_comes_by_oci_shows_none", &[Root], of_bundles),
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

/// Script of a container that prints the command line of every process which it sees.
const WATCH: &str = "while :; do for p in /proc/[0-9]*; do
case $p in */1) ;; *) tr '\\0' ' ' < $p/cmdline; echo ;; esac
done; done 2>/dev/null";

/// A neighbour in the PID namespace watches every process that appears there, whatever command it comes from.
fn of_newcomers(cx: &Context) -> Result<()> {
    let (secret, image) = (secret(cx)?, cx.image());
    cx.tote(&["pod", "create", "--name", "p", "--share", "pid"])
        .output()?
        .exits(0)?;
    let commands: [&[&str]; 7] = [
        &["exec", "-e", &secret, "c", "true"],
        &["debug", "-e", &secret, "c", "true"],
        &[
            "run",
            "--rm",
            "-e",
            &secret,
            "--pid",
            "container:c",
            &image,
            "true",
        ],
        &[
            "run",
            "--rm",
            "--init",
            "-e",
            &secret,
            "--pid",
            "container:c",
            &image,
            "true",
        ],
        &[
            "run",
            "-d",
            "--rm",
            "-e",
            &secret,
            "--pid",
            "container:c",
            &image,
            "true",
        ],
        &["run", "--rm", "-e", &secret, "--pod", "p", &image, "true"],
        &[
            "pool",
            "fill",
            "p",
            "-n",
            "2",
            "-e",
            &secret,
            "--pid",
            "container:c",
            &image,
        ],
    ];
    for place in [&["--pod", "p"][..], &[]] {
        let words = [&["run", "-d", "--name", "c"], place, &[&image, "sh", "-c", WATCH]];
        cx.tote(&words.concat()).output()?.exits(0)?;
        for words in commands {
            if words.contains(&"--pod") == place.is_empty() {
                continue;
            }
            for _ in 0..20 {
                cx.tote(words).output()?.exits(0)?;
                if words[0] == "pool" {
                    cx.tote(&["pool", "rm", "p"]).output()?.exits(0)?;
                }
            }
            let seen = cx.tote(&["logs", "c"]).output()?.out();
            let shown = seen.lines().find(|line| line.contains(&secret));
            ensure!(shown.is_none(), "{words:?} shows {shown:?}");
        }
        cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    }
    cx.tote(&["pod", "rm", "-f", "p"]).output()?.exits(0)?;
    Ok(())
}

fn of_bundles(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", WATCH])?;
    bundle.detached(&["run", "-d", "a"])?.exits(0)?;
    bundle.joins_pids(bundle.pid("a")?)?;
    bundle.change(|spec| spec["process"]["args"] = serde_json::json!(["sleep", "1000"]))?;
    // The directory of the state is a word of each of these command lines.
    let secret = cx.scratch().to_string_lossy().into_owned();
    for _ in 0..20 {
        let script = r#"exec "$@" < /dev/null > other 2>&1"#;
        let create = bundle.oci(&["create", "b"]).under(&["sh", "-c", script, "sh"]);
        create.output()?.exits(0)?;
        bundle.oci(&["start", "b"]).output()?.exits(0)?;
        bundle.end("b")?;
        bundle.oci(&["exec", "a", "true"]).output()?.exits(0)?;
    }
    let seen = bundle.written()?;
    let shown = seen.lines().find(|line| line.contains(&secret));
    ensure!(shown.is_none(), "{shown:?}");
    bundle.oci(&["delete", "-f", "a"]).output()?.exits(0)?;
    bundle.nothing_left()
}
