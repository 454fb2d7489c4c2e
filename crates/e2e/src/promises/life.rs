//! The life of containers: creation, start, end, removal; and kills on the way.

use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::need::Need;
use crate::output::Output;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("life::created_started_ended_removed", &[], whole),
    test("life::what_outlives_its_command", &[], detached),
    test("life::exit_codes", &[], exit_codes),
    test("life::who_waits_for_the_foreground", &[], foreground).waits(),
    test("life::names_can_change", &[], names),
    test("life::only_a_name_is_replaced", &[], replaced),
    test("life::restart_policies", &[], restarts),
    test("life::a_killed_monitor_is_noticed", &[], killed_monitor),
    test(
        "life::killed_while_it_is_created",
        &[Need::FaultPoints],
        killed_creating,
    ),
    test(
        "life::killed_while_it_starts",
        &[Need::FaultPoints],
        killed_starting,
    ),
    test("life::killed_while_it_ends", &[Need::FaultPoints], killed_ending),
    test(
        "life::killed_while_it_is_removed",
        &[Need::FaultPoints],
        killed_removing,
    ),
    test("life::fifty_at_once", &[], fifty),
];

/// Runs a command that must succeed. Returns its output without the line end.
pub(super) fn done(cx: &Context, words: &[&str]) -> Result<String> {
    let output = cx.tote(words).output()?;
    output.exits(0)?;
    Ok(output.out().trim_end().to_owned())
}

/// A name may look like the beginning of another container's id.
fn replaced(cx: &Context) -> Result<()> {
    let other = done(cx, &["run", "-d", &cx.image(), "sleep", "1000"])?;
    let name = &other[..4];
    let run = [
        "run",
        "-d",
        "--replace",
        "--name",
        name,
        &cx.image(),
        "sleep",
        "1000",
    ];
    let first = done(cx, &run)?;
    let second = done(cx, &run)?;
    let left = done(cx, &["ps", "-aq", "--no-trunc"])?;
    ensure!(left.contains(&other), "a container of another name was removed");
    ensure!(left.contains(&second) && !left.contains(&first), "{left}");
    let pod = done(cx, &["pod", "create"])?;
    done(cx, &["pod", "create", "--replace", "--name", &pod[..4]])?;
    ensure!(done(cx, &["pod", "ps", "-q", "--no-trunc"])?.contains(&pod));
    done(cx, &["rm", "-f", &other, &second])?;
    done(cx, &["pod", "rm", "-af"])?;
    empty(cx)
}

/// Reads a file of the only container.
fn record(cx: &Context, name: &str) -> Result<String> {
    let mut dirs = fs::read_dir(cx.root().join("containers"))?;
    let dir = dirs.next().context("there is no container")??.path();
    Ok(fs::read_to_string(dir.join(name))?)
}

/// Reads a number from a file of the only container.
fn number(cx: &Context, object: &str, key: &str) -> Result<i32> {
    let state: serde_json::Value = serde_json::from_str(&record(cx, "state.json")?)?;
    let number = state.get(object).and_then(|object| object.get(key));
    Ok(i32::try_from(
        number.and_then(serde_json::Value::as_i64).context("no number")?,
    )?)
}

/// Checks that only shared entries are left.
pub(super) fn empty(cx: &Context) -> Result<()> {
    cx.nothing_left()?;
    let names: Vec<_> = fs::read_dir(cx.root().join("names"))?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    ensure!(names.is_empty(), "names are left: {names:?}");
    Ok(())
}

fn whole(cx: &Context) -> Result<()> {
    let id = done(
        cx,
        &[
            "create",
            "--name",
            "c",
            "-e",
            "A=b",
            &cx.image(),
            "sh",
            "-c",
            "echo $A >> /said; cat /said",
        ],
    )?;
    ensure!(id.len() == 64, "{id}");
    for said in ["b\n", "b\nb\n"] {
        let out = cx.tote(&["start", "-a", "c"]).output()?;
        out.prints(said)?.quietly()?.exits(0)?;
    }
    ensure!(done(cx, &["start", &id[..12]])? == id[..12]);
    ensure!(done(cx, &["wait", "c"])? == "0");
    ensure!(
        record(cx, "log.json")?.lines().count() == 6,
        "three runs said six lines"
    );
    ensure!(done(cx, &["rm", "c"])? == "c");
    cx.tote(&["rm", "c"])
        .output()?
        .refuses(1, &["No such container: c"])?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    empty(cx)
}

fn detached(cx: &Context) -> Result<()> {
    let mut words = vec!["run", "-d", "--name", "c", "-i"];
    let image = cx.image();
    words.extend([
        &*image,
        "sh",
        "-c",
        "trap 'exit 5' TERM; echo up; while :; do sleep 1 & wait; done",
    ]);
    done(cx, &words)?;
    // The command has ended; starting a running container changes nothing.
    let pid = number(cx, "process", "pid")?;
    done(cx, &["start", "c"])?;
    ensure!(number(cx, "process", "pid")? == pid);
    cx.tote(&["rm", "c"])
        .output()?
        .refuses(1, &["container is running"])?;
    ensure!(done(cx, &["stop", "c"])? == "c");
    ensure!(done(cx, &["wait", "c"])? == "5");
    // A stop of a stopped container succeeds.
    done(cx, &["stop", "c"])?;
    done(cx, &["restart", "c"])?;
    done(cx, &["kill", "-s", "KILL", "c"])?;
    ensure!(done(cx, &["wait", "c"])? == "137");
    cx.tote(&["kill", "c"])
        .output()?
        .refuses(1, &["is not running"])?;
    done(cx, &["start", "c"])?;
    ensure!(done(cx, &["rm", "-f", "c"])? == "c");
    empty(cx)
}

fn exit_codes(cx: &Context) -> Result<()> {
    let image = cx.image();
    for (words, code) in [
        (&["sh", "-c", "exit 9"][..], 9),
        (&["nosuch"], 127),
        (&["/etc"], 126),
    ] {
        let words = [&["run", "--name", "c", &image], words].concat();
        let out = cx.tote(&words).output()?;
        out.exits(code)?;
        // A container that failed to start stays, as with docker.
        ensure!(done(cx, &["rm", "c"])? == "c");
        let words = [&["run", "-d", "--rm", "--name", "c", &image], &words[4..]].concat();
        let out = cx.tote(&words).output()?;
        out.exits(if code == 9 { 0 } else { code })?;
        done(cx, &["rm", "-f", "c"])?;
    }
    cx.tote(&["run", "--rm", "--restart", "always", &image, "true"])
        .output()?
        .refuses(125, &["--restart", "--rm"])?;
    empty(cx)
}

/// Waits until the command has connected to a socket, on which it gets no answer yet.
fn waits(waiting: &Running) -> Result<()> {
    let limit = std::time::Instant::now() + patience();
    let proc = std::path::PathBuf::from(format!("/proc/{}", waiting.pid()));
    loop {
        // The descriptors are not readable while the process executes the program.
        let fds = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
        let links = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
        let files: Vec<_> = links.map(|link| link.to_string_lossy().into_owned()).collect();
        let stat = fs::read_to_string(proc.join("stat"))?;
        if files.iter().any(|file| file.starts_with("socket:")) && stat.contains(") S ") {
            return Ok(());
        }
        if std::time::Instant::now() > limit {
            let call = fs::read_to_string(proc.join("syscall")).unwrap_or_default();
            bail!("it is connected with nothing: {stat} in the system call {call} with {files:?}");
        }
        std::thread::yield_now();
    }
}

fn foreground(cx: &Context) -> Result<()> {
    let image = cx.image();
    let script = "echo up; read line; echo $line; exit 7";
    for (options, code) in [(&["-i"][..], "7"), (&["-i", "--timeout", "4"], "124")] {
        let words = [
            &["run", "--rm", "--name", "c"],
            options,
            &[&image, "sh", "-c", script],
        ];
        let mut runs = cx.tote(&words.concat()).spawn()?;
        runs.expect("up")?;
        let mut waiting = [cx.tote(&["wait", "c"]).spawn()?, cx.tote(&["wait", "c"]).spawn()?];
        waiting.iter().try_for_each(waits)?;
        if code == "7" {
            runs.send(b"now\n");
            runs.expect("now")?;
        }
        for waiting in &mut waiting {
            waiting.expect(&format!("{code}\n"))?;
            ensure!(waiting.wait()? == 0, "it has waited in vain");
        }
        ensure!(runs.wait()?.to_string() == code);
        empty(cx)?;
    }
    // A killed command leaves no record of the container's end, and nothing else.
    let mut runs = cx
        .tote(&["run", "--rm", "-i", "--name", "c", &image, "sh", "-c", script])
        .spawn()?;
    runs.expect("up")?;
    let mut waiting = cx.tote(&["wait", "c"]).spawn()?;
    waits(&waiting)?;
    runs.signal(Signal::KILL)?;
    runs.wait()?;
    ensure!(waiting.wait()? == 1, "it says how it has ended");
    done(cx, &["container", "prune", "-f"])?;
    done(cx, &["run", "--rm", &image, "true"])?;
    let left = fs::read_dir(cx.root().join("live"))?.count();
    ensure!(left == 0, "{left} files are left");
    empty(cx)
}

fn names(cx: &Context) -> Result<()> {
    // No id can begin with these letters.
    let image = cx.image();
    done(cx, &["create", "--name", "x", &image, "true"])?;
    done(cx, &["create", "--name", "y", &image, "true"])?;
    cx.tote(&["rename", "x", "y"])
        .output()?
        .refuses(1, &["already in use"])?;
    done(cx, &["rename", "x", "z"])?;
    cx.tote(&["start", "x"])
        .output()?
        .refuses(1, &["No such container: x"])?;
    done(cx, &["create", "--name", "x", &image, "true"])?;
    done(cx, &["start", "z"])?;
    // Answers of docker about links that are not there.
    cx.tote(&["rm", "--link", "z"]).output()?.refuses(
        1,
        &["Conflict, cannot remove the default link name of the container"],
    )?;
    cx.tote(&["rm", "-l", "x/z"])
        .output()?
        .refuses(1, &["No such container: x/z"])?;
    ensure!(done(cx, &["rm", "-f", "x", "y", "z"])? == "x\ny\nz");
    empty(cx)
}

fn restarts(cx: &Context) -> Result<()> {
    let script = "echo x >> /count; exit 3";
    done(
        cx,
        &[
            "run",
            "-d",
            "--name",
            "c",
            "--restart",
            "on-failure:2",
            &cx.image(),
            "sh",
            "-c",
            script,
        ],
    )?;
    ensure!(done(cx, &["wait", "c"])? == "3");
    let state: serde_json::Value = serde_json::from_str(&record(cx, "state.json")?)?;
    ensure!(
        state["restart_count"] == 2 && state["status"] == "exited",
        "{state}"
    );
    done(cx, &["rm", "c"])?;
    // A container that is always restarted can be stopped, also while it waits for a restart.
    done(
        cx,
        &[
            "run",
            "-d",
            "--name",
            "c",
            "--restart",
            "always",
            &cx.image(),
            "false",
        ],
    )?;
    done(cx, &["stop", "c"])?;
    let state: serde_json::Value = serde_json::from_str(&record(cx, "state.json")?)?;
    ensure!(state["status"] == "exited", "{state}");
    done(cx, &["rm", "c"])?;
    empty(cx)
}

/// Starts a container with this restart policy, and kills its monitor, with which its process ends. Returns the pid
/// that it had.
fn orphan(cx: &Context, policy: &str) -> Result<i32> {
    done(
        cx,
        &[
            "run",
            "-d",
            "--name",
            "c",
            "--restart",
            policy,
            &cx.image(),
            "sleep",
            "1000",
        ],
    )?;
    let (monitor, process) = (number(cx, "monitor", "pid")?, number(cx, "process", "pid")?);
    let ends = processes::pidfd(process)?;
    processes::kill(monitor, Signal::KILL);
    processes::wait_end(&ends, "the container", patience())?;
    Ok(process)
}

fn killed_monitor(cx: &Context) -> Result<()> {
    let process = orphan(cx, "always")?;
    // The next command that changes any state starts the container again.
    done(cx, &["rm", "-f", "another"])?;
    ensure!(number(cx, "process", "pid")? != process);
    done(cx, &["rm", "-f", "c"])?;
    empty(cx)?;
    orphan(cx, "no")?;
    ensure!(done(cx, &["wait", "c"])? == "137", "who asks is told");
    done(cx, &["start", "c"])?;
    done(cx, &["rm", "-f", "c"])?;
    empty(cx)?;
    orphan(cx, "no")?;
    // The state after a reboot of the machine.
    let dir = fs::read_dir(cx.root().join("containers"))?
        .next()
        .context("none")??
        .path();
    let state = record(cx, "state.json")?;
    let at = state.find("\"boot\":\"").context("no boot")? + 8;
    fs::write(
        dir.join("state.json"),
        format!("{}another{}", &state[..at], &state[at..]),
    )?;
    ensure!(done(cx, &["wait", "c"])? == "255");
    done(cx, &["start", "c"])?;
    done(cx, &["stop", "-t", "0", "c"])?;
    done(cx, &["rm", "c"])?;
    empty(cx)
}

/// Runs a command that dies at that point, or whose monitor does.
pub(super) fn dying(cx: &Context, point: &str, words: &[&str]) -> Result<Output> {
    let mortal = crate::need::mortal().context("no fault points")?;
    cx.other_tote(&mortal, words).env("TOTE_FAULT", point).output()
}

/// Checks that `rm -f` removes any leftovers, and that the name is free.
fn cleared(cx: &Context, point: &str) -> Result<()> {
    let clear = || {
        done(cx, &["rm", "-f", "victim"])?;
        empty(cx)?;
        done(cx, &["create", "--name", "victim", &cx.image(), "true"])?;
        done(cx, &["rm", "victim"])?;
        empty(cx)
    };
    clear().with_context(|| format!("after a death at {point:?}"))
}

fn killed_creating(cx: &Context) -> Result<()> {
    let image = cx.image();
    for point in ["claimed", "named", "state-new", "recorded", "created"] {
        let died = dying(
            cx,
            point,
            &["create", "--name", "victim", "-v", "/data", &image, "true"],
        )?;
        ensure!(died.exits(0).is_err(), "it did not die at {point:?}");
        cleared(cx, point)?;
        dying(
            cx,
            point,
            &["run", "-d", "--name", "victim", &image, "sleep", "1000"],
        )?;
        cleared(cx, point)?;
    }
    Ok(())
}

fn killed_starting(cx: &Context) -> Result<()> {
    let image = cx.image();
    for point in [
        "unmarked", "planned", "forked", "bound", "born", "running", "told",
    ] {
        done(cx, &["create", "--name", "victim", &image, "sleep", "1000"])?;
        dying(cx, point, &["start", "victim"])?;
        if point != "forked" {
            // No unwatched process runs, so the container can be started.
            done(cx, &["start", "victim"]).with_context(|| format!("after a death at {point:?}"))?;
        }
        cleared(cx, point)?;
    }
    Ok(())
}

fn killed_ending(cx: &Context) -> Result<()> {
    let image = cx.image();
    for point in ["ended", "cgroup-gone", "state-ended", "released", "restarting"] {
        let policy = if point == "restarting" { "always" } else { "no" };
        dying(
            cx,
            point,
            &[
                "run",
                "-d",
                "--name",
                "victim",
                "--restart",
                policy,
                &image,
                "cat",
            ],
        )?;
        // `cat` without input has ended; the waiting command gets its end from whichever process records it.
        let code = done(cx, &["wait", "victim"]).with_context(|| format!("after a death at {point:?}"))?;
        ensure!(["0", "137"].contains(&&*code), "{point}: {code}");
        cleared(cx, point)?;
    }
    Ok(())
}

fn killed_removing(cx: &Context) -> Result<()> {
    let image = cx.image();
    for point in ["killed", "marked", "nameless", "emptied"] {
        done(
            cx,
            &[
                "run", "-d", "--name", "victim", "-v", "/data", &image, "sleep", "1000",
            ],
        )?;
        let died = dying(cx, point, &["rm", "-f", "victim"])?;
        ensure!(died.exits(0).is_err(), "it did not die at {point:?}");
        cleared(cx, point)?;
    }
    Ok(())
}

/// Fifty commands at once, on fewer names.
fn fifty(cx: &Context) -> Result<()> {
    let image = cx.image();
    let names: Vec<String> = (0..50).map(|number| format!("n{}", number % 30)).collect();
    let at_once = |words: &dyn Fn(&str) -> Vec<String>| -> Result<Vec<Output>> {
        let start = |name: &String| {
            let words = words(name);
            cx.tote(&words.iter().map(String::as_str).collect::<Vec<_>>())
                .spawn()
        };
        let running = names.iter().map(start).collect::<Result<Vec<Running>>>()?;
        running.into_iter().map(Running::finish).collect()
    };
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let created = at_once(&|name| own(&["create", "--name", name, &image, "cat"]))?;
    let made = created.iter().filter(|output| output.exits(0).is_ok()).count();
    ensure!(made == 30, "{made} were made");
    // One of two concurrent commands may be refused because of the other.
    at_once(&|name| own(&["start", name]))?;
    at_once(&|name| own(&["rm", "-f", name]))?;
    let all: Vec<&str> = names.iter().take(30).map(String::as_str).collect();
    done(cx, &[&["rm", "-f"], &*all].concat())?;
    empty(cx)
}
