//! `tote top` and `tote stats`: processes of containers, and their use of resources.

use crate::context::Context;
use crate::exchange::Running;
use crate::need::Need::Root;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;

pub(super) const TESTS: &[Test] = &[
    test("usage::top_shows_what_ps_would", &[], top),
    test("usage::top_counts_as_the_container_does", &[], inside),
    test("usage::top_refuses_what_means_nothing", &[], refused),
    test("usage::stats_has_dockers_columns", &[], columns),
    test("usage::stats_counts_memory_and_time", &[Root], counted),
    test("usage::stats_goes_on", &[], stream).waits(),
];

fn running(cx: &Context, options: &[&str], script: &str) -> Result<Running> {
    let image = cx.image();
    let words = [&["-i", "--name", "c"], options, &[&image, "sh", "-c", script]].concat();
    let mut running = cx.run_command(&words).spawn()?;
    running.expect("up\n")?;
    Ok(running)
}

fn over(running: Running) -> Result<()> {
    running.finish()?.exits(0)?;
    Ok(())
}

fn top(cx: &Context) -> Result<()> {
    // A shell's new process has the shell's name until it has been executed.
    let script = "sleep 1000 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; echo up; cat; kill %1";
    let container = running(cx, &[], script)?;
    let init = processes::container_init(container.pid())?;
    let out = cx.tote(&["top", "c"]).output()?;
    out.exits(0)?.quietly()?;
    let text = out.out();
    let mut lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let heading = lines.next().context("no heading")?;
    ensure!(
        heading == ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"],
        "{heading:?}"
    );
    let rows: Vec<_> = lines.collect();
    let sleeper = rows.iter().find(|row| row.ends_with(&["sleep", "1000"]));
    let sleeper = sleeper.with_context(|| format!("no sleep among\n{text}"))?;
    ensure!(
        sleeper[2] == init.to_string(),
        "its parent is not the shell {init}:\n{text}"
    );
    for (words, heading) in [
        (
            &["aux"][..],
            "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND",
        ),
        (&["-o", "pid,comm=NAME"], "PID NAME"),
        (&["-eo", "pid", "-o", "nlwp"], "PID NLWP"),
    ] {
        let out = cx.tote(&[&["top", "c"], words].concat()).output()?;
        let text = out.exits(0)?.out();
        let first: Vec<_> = text
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        ensure!(first.join(" ") == heading, "{words:?}: {text}");
    }
    over(container)
}

fn inside(cx: &Context) -> Result<()> {
    let container = running(cx, &[], "echo up; cat")?;
    let init = processes::container_init(container.pid())?.to_string();
    let out = cx
        .tote(&["top", "c", "pid", "hpid", "user", "seccomp", "args"])
        .output()?;
    let text = out.exits(0)?.out();
    let first: Vec<_> = text
        .lines()
        .nth(1)
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    ensure!(
        first.starts_with(&["1", &init, "root", "filter", "cat"]),
        "{text}"
    );
    over(container)
}

fn refused(cx: &Context) -> Result<()> {
    let container = running(cx, &[], "echo up; cat")?;
    let top = |words: &[&str]| cx.tote(&[&["top"], words].concat()).output();
    top(&["c", "-Z"])?.refuses(1, &["-Z"])?;
    top(&["c", "-o", "nope"])?.refuses(1, &["nope"])?;
    top(&["c", "-o", "comm"])?.refuses(1, &["Couldn't find PID field in ps output"])?;
    top(&["nope"])?.refuses(1, &["No such container: nope"])?;
    over(container)
}

fn columns(cx: &Context) -> Result<()> {
    const HEADING: &str = "CONTAINER ID   NAME      CPU %";
    let stats = |words: &[&str]| cx.tote(&[&["stats", "--no-stream"], words].concat()).output();
    let empty = stats(&[])?;
    ensure!(empty.exits(0)?.out().lines().count() == 1, "{}", empty.out());
    let container = running(cx, &[], "echo up; cat")?;
    let out = stats(&[])?;
    let text = out.exits(0)?.out();
    ensure!(text.starts_with(HEADING), "{text}");
    let row: Vec<_> = text
        .lines()
        .nth(1)
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    ensure!(
        row.first().is_some_and(|id| id.len() == 12) && row.get(1) == Some(&"c"),
        "{text}"
    );
    let json = stats(&["--format", "json", "--no-trunc"])?;
    let json: Value = serde_json::from_str(&json.out())?;
    ensure!(
        json["Name"] == "c" && json["ID"].as_str().is_some_and(|id| id.len() == 64),
        "{json}"
    );
    ensure!(json["NetIO"] == "0B / 0B", "{json}");
    stats(&["--format", "{{.Name}}", "c"])?.prints("c\n")?;
    stats(&["nope"])?.refuses(1, &["No such container: nope"])?;
    over(container)
}

/// Returns the value of `{{.Name}}` of a field for the container.
fn field(cx: &Context, name: &str) -> Result<String> {
    let format = format!("{{{{.{name}}}}}");
    let out = cx
        .tote(&["stats", "--no-stream", "--format", &format, "c"])
        .output()?;
    Ok(out.exits(0)?.out().trim_end().to_owned())
}

fn counted(cx: &Context) -> Result<()> {
    let script = "dd if=/dev/zero of=/dev/shm/x bs=1M count=24 2>/dev/null; echo up; while :; do :; done";
    let options = ["-m", "200m", "--cpus", "1", "--shm-size", "64m"];
    let container = running(cx, &options, script)?;
    let memory = field(cx, "MemUsage")?;
    let (used, limit) = memory.split_once(" / ").context("no limit")?;
    let used: f64 = used
        .trim_end_matches("MiB")
        .parse()
        .with_context(|| memory.clone())?;
    ensure!((24.0..60.0).contains(&used) && limit == "200MiB", "{memory}");
    ensure!(
        field(cx, "Sums")?.split(',').all(|sum| sum != "MemUsage"),
        "memory is added up"
    );
    // A busy loop gets some processor time, whatever else the machine does.
    let share = field(cx, "CPUPerc")?;
    let share: f64 = share.trim_end_matches('%').parse()?;
    ensure!(share > 0.5, "a busy loop uses {share} %");
    container.signal(Signal::KILL)?;
    container.finish()?;
    cx.run(&[&cx.image(), "true"])?.exits(0)?;
    Ok(())
}

fn stream(cx: &Context) -> Result<()> {
    let container = running(cx, &[], "echo up; cat")?;
    let mut stats = cx
        .tote(&["stats", "--format", "{{.Name}} has {{.PIDs}}"])
        .spawn()?;
    stats.expect("c has 1\n")?;
    stats.expect("c has 1\n")?;
    stats.signal(Signal::TERM)?;
    stats.wait()?;
    let (mut stats, outer) = cx.tote(&["stats"]).spawn_in_terminal(40, 100)?;
    stats.expect("\x1b[H")?;
    stats.expect("\x1b[H")?;
    stats.send(b"\x03");
    stats.wait()?;
    drop(outer);
    over(container)
}
