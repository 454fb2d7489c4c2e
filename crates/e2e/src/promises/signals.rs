//! Signals to tote reach the command, `--init` acts as an init, and no process outlives a killed tote.

use crate::cgroup;
use crate::context::Context;
use crate::exchange::patience;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test("signals::are_forwarded", &[], forwarded),
    test("signals::the_third_for_the_end_insists", &[], insistence),
    test("signals::are_forwarded_by_init", &[], forwarded_by_init),
    test("signals::init_is_pid_1_and_reaps_orphans", &[], init_reaps),
    test(
        "signals::what_the_caller_ignores_the_container_does_not",
        &[],
        ignored,
    ),
    test("signals::a_hangup_that_is_ignored_is_not_passed_on", &[], hangup),
    test("signals::what_is_killed_has_ended", &[], killed),
    test("signals::stop_signal_is_recorded", &[], stop_signal),
    test("signals::sigkill_of_tote_ends_the_container", &[], tote_killed),
    test(
        "signals::the_next_command_clears_what_a_killed_one_left",
        &[],
        cleared,
    ),
];

/// Starts a shell that answers a signal with a word and exit 7, sends the signal to tote, and reads the answer.
fn answers(cx: &Context, options: &[&str], name: &str, signal: Signal) -> Result<()> {
    let script = format!("trap 'echo got {name}; exit 7' {name}; echo ready; sleep 1000 & wait");
    let image = cx.image();
    let words = [options, &[&image, "sh", "-c", &script]].concat();
    let mut running = cx.run_command(&words).spawn()?;
    running.expect("ready\n")?;
    running.signal(signal)?;
    running.expect(&format!("got {name}\n"))?;
    running.finish()?.exits(7)?;
    Ok(())
}

const FORWARDED: [(&str, Signal); 6] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

fn forwarded(cx: &Context) -> Result<()> {
    FORWARDED
        .iter()
        .try_for_each(|(name, signal)| answers(cx, &[], name, *signal))
}

/// A shell handles each ^C without ending: the third ends it, or only the command if the container has a monitor.
fn insistence(cx: &Context) -> Result<()> {
    let script = "trap 'echo again' INT; echo ready; while :; do sleep 1000 & wait; done";
    let words = "got 3 SIGTERM/SIGINTs, forcefully exiting";
    for (options, code) in [
        (&["run", "--rm"][..], 128 + Signal::KILL.as_raw()),
        (&["run", "--name", "kept"], 1),
    ] {
        let mut running = cx
            .tote(&[options, &[&cx.image(), "sh", "-c", script]].concat())
            .spawn()?;
        running.expect("ready\n")?;
        for _ in 0..2 {
            running.signal(Signal::INT)?;
            running.expect("again\n")?;
        }
        running.signal(Signal::INT)?;
        running.finish()?.exits(code)?.has_err(words)?;
    }
    let runs = cx.tote(&["ps", "-q"]).output()?;
    ensure!(runs.out().lines().count() == 1, "{}", runs.transcript());
    cx.tote(&["rm", "-f", "kept"]).output()?.exits(0)?;
    Ok(())
}

fn forwarded_by_init(cx: &Context) -> Result<()> {
    FORWARDED
        .iter()
        .try_for_each(|(name, signal)| answers(cx, &["--init"], name, *signal))?;
    // Without a handler, a process other than PID 1 dies of the signal.
    let words = ["--init", &cx.image(), "sh", "-c", "echo ready; exec sleep 1000"];
    let mut running = cx.run_command(&words).spawn()?;
    running.expect("ready\n")?;
    running.signal(Signal::TERM)?;
    running.finish()?.exits(143)?;
    Ok(())
}

/// Shell that starts a command with these signals ignored, as a shell does with two of them for `command &`.
const IGNORING: [&str; 4] = ["sh", "-c", "trap '' HUP INT QUIT USR1 37; exec \"$@\"", "sh"];

fn ignored(cx: &Context) -> Result<()> {
    let look = ["grep", "SigIgn", "/proc/self/status"];
    let image = cx.image();
    let nothing = "SigIgn:\t0000000000000000\n";
    for options in [&["run", "--rm"][..], &["run", "--rm", "--init"], &["run"]] {
        let words = [options, &[&image], &look].concat();
        cx.tote(&words).under(&IGNORING).output()?.prints(nothing)?;
    }
    let start = ["run", "-d", "--name", "goes-on", &image, "sleep", "1000"];
    cx.tote(&start).under(&IGNORING).output()?.exits(0)?;
    let exec = [&["exec", "goes-on"], &look[..]].concat();
    cx.tote(&exec).under(&IGNORING).output()?.prints(nothing)?;
    cx.tote(&["exec", "goes-on", "grep", "SigIgn", "/proc/1/status"])
        .output()?
        .prints(nothing)?;
    let all = cx.tote(&["ps", "-aq"]).output()?.out();
    let all: Vec<&str> = all.lines().collect();
    cx.tote(&[&["rm", "-f"], &all[..]].concat()).output()?.exits(0)?;
    let script = "trap 'echo got INT; exit 7' INT; echo ready; sleep 1000 & wait";
    for options in [&["run", "--rm"][..], &["run", "--name", "kept"]] {
        let words = [options, &[&image, "sh", "-c", script]].concat();
        let mut running = cx.tote(&words).under(&IGNORING).spawn()?;
        running.expect("ready\n")?;
        running.signal(Signal::INT)?;
        running.expect("got INT\n")?;
        running.finish()?.exits(7)?;
    }
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    Ok(())
}

/// `nohup tote run`: the first signal that reaches the container is the one after the hangup.
fn hangup(cx: &Context) -> Result<()> {
    let script =
        "trap 'echo got HUP' HUP; trap 'echo got USR2; exit 7' USR2; echo ready; sleep 1000 & wait; wait";
    let image = cx.image();
    for options in [&["run", "--rm"][..], &["run", "--name", "kept"]] {
        let words = [options, &[&image, "sh", "-c", script]].concat();
        let mut running = cx.tote(&words).under(&IGNORING).spawn()?;
        running.expect("ready\n")?;
        running.signal(Signal::HUP)?;
        running.signal(Signal::USR2)?;
        let out = running.finish()?;
        out.exits(7)?;
        ensure!(out.out() == "ready\ngot USR2\n", "it heard of the hangup");
    }
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    Ok(())
}

/// `tote kill X && tote rm X`, for a detached container and one in the foreground.
fn killed(cx: &Context) -> Result<()> {
    let image = cx.image();
    for _ in 0..5 {
        cx.tote(&["run", "-d", "--name", "victim", &image, "sleep", "1000"])
            .output()?
            .exits(0)?;
        cx.tote(&["kill", "victim"]).output()?.prints("victim\n")?;
        cx.tote(&["kill", "victim"]).output()?.fails()?;
        cx.tote(&["rm", "victim"]).output()?.exits(0)?;
    }
    let mut running = cx
        .run_command(&[
            "--name",
            "victim",
            &image,
            "sh",
            "-c",
            "echo ready; exec sleep 1000",
        ])
        .spawn()?;
    running.expect("ready\n")?;
    cx.tote(&["kill", "victim"]).output()?.exits(0)?;
    let known = cx.containers()?;
    ensure!(known.is_empty(), "it is known when kill has come back: {known:?}");
    running.finish()?.exits(137)?;
    Ok(())
}

/// A grandchild without a parent ends: its entry in `/proc` goes only when PID 1 has reaped it.
fn init_reaps(cx: &Context) -> Result<()> {
    let script = "test $$ != 1 || echo I am PID 1
sh -c 'sh -c \"echo \\$\\$ > /tmp/orphan; exit\" & exit 0'
until [ -s /tmp/orphan ]; do :; done; read orphan < /tmp/orphan
while [ -e /proc/$orphan ]; do :; done
grep -l '^State:.Z' /proc/[0-9]*/status; cat /proc/1/comm";
    let out = cx.shell(&["--init"], script)?;
    out.exits(0)?;
    let text = out.out();
    let one_line = text.lines().count() == 1;
    ensure!(
        one_line && (text.contains("init") || text.contains("tote")),
        "expected tote's init alone, saw:\n{text}"
    );
    Ok(())
}

fn stop_signal(cx: &Context) -> Result<()> {
    let mut running = cx
        .run_command(&["-i", "--stop-signal", "SIGUSR2", &cx.image(), "cat"])
        .spawn()?;
    running.send(b"up\n");
    running.expect("up\n")?;
    let mut texts = Vec::new();
    collect_texts(&cx.root().join("live"), &mut texts);
    let recorded = texts.iter().any(|text| {
        let text = text.to_lowercase().replace(['_', '-'], "");
        text.contains("stopsignal") && (text.contains("sigusr2") || text.contains("12"))
    });
    ensure!(
        recorded,
        "no file below live/ records the stop signal: {texts:#?}"
    );
    running.finish()?.exits(0)?;
    cx.run(&["--stop-signal", "SIGNONE", &cx.image(), "true"])?
        .refuses(125, &["SIGNONE"])?;
    Ok(())
}

/// Collects the small text files below a directory, without mounts and links.
fn collect_texts(dir: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(found) if found.is_dir() => collect_texts(&entry.path(), texts),
            Ok(found) if found.is_file() && found.len() < 1 << 20 => {
                texts.extend(fs::read_to_string(entry.path()))
            }
            _ => {}
        }
    }
}

/// Starts a container with a second process, kills tote, and returns the container's cgroups from before.
fn kill_tote(cx: &Context) -> Result<Vec<std::path::PathBuf>> {
    let script = "sleep 1000 & echo ready; exec cat";
    let mut running = cx
        .run_command(&["-i", "--name", "victim", &cx.image(), "sh", "-c", script])
        .spawn()?;
    running.expect("ready\n")?;
    let init = processes::container_init(running.pid())?;
    let own = cgroup::directories(std::process::id().try_into()?)?;
    let cgroups = cgroup::directories(init)?
        .into_iter()
        .filter(|dir| !own.contains(dir))
        .collect();
    let inside: Vec<_> = processes::descendants(init)
        .iter()
        .map(|process| process.pid)
        .chain([init])
        .collect();
    ensure!(inside.len() == 2, "expected two processes inside, saw {inside:?}");
    let handles = inside
        .iter()
        .map(|pid| processes::pidfd(*pid))
        .collect::<Result<Vec<_>>>()?;
    running.signal(Signal::KILL)?;
    for handle in &handles {
        processes::wait_end(
            handle,
            "a process of a container whose tote was killed",
            patience(),
        )?;
    }
    running.finish()?.exits(-9)?;
    Ok(cgroups)
}

fn tote_killed(cx: &Context) -> Result<()> {
    kill_tote(cx)?;
    // This command clears the root, so that the check for leftovers passes.
    cx.run(&[&cx.image(), "true"])?.exits(0)?;
    Ok(())
}

fn cleared(cx: &Context) -> Result<()> {
    let cgroups = kill_tote(cx)?;
    cx.run(&["--name", "victim", &cx.image(), "true"])?
        .exits(0)
        .context("a container of the same name")?;
    let left = cx.containers()?;
    ensure!(left.is_empty(), "left in the state root: {left:?}");
    for dir in cgroups {
        ensure!(!dir.exists(), "{} is left", dir.display());
    }
    Ok(())
}
