//! `run --rm` in the foreground: the user may detach from the container at a terminal, and other commands treat it as any
//! other.

use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::invocation::Invocation;
use crate::need::Need;
use crate::processes;
use crate::promise::{Test, test};
use crate::terminal::Terminal;
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::time::Duration;

pub(super) const TESTS: &[Test] = &[
    test("front::it_can_be_left_and_attached_to_again", &[], left),
    test("front::other_keys_leave_it_too", &[], other_keys),
    test("front::a_closed_window_leaves_it", &[], closed_window),
    test("front::others_attach_while_it_is_shown", &[], shared),
    test("front::others_ask_for_a_monitor", &[], asked),
    test(
        "front::whoever_waits_is_told_by_the_next_who_watches",
        &[],
        waited,
    ),
    test("front::what_it_joins_does_not_keep_anybody", &[], joins),
    test("front::the_end_of_any_who_watches_ends_it", &[], killed),
    test(
        "front::a_monitor_that_cannot_be_changes_nothing",
        &[Need::FaultPoints],
        mortal,
    ),
    test(
        "front::other_commands_find_it_before_its_program_begins",
        &[Need::FaultPoints],
        found,
    ),
    test("front::one_with_rm_is_not_restarted", &[], restarted),
    test("front::its_limit_of_time_goes_along", &[], limited),
    test("front::it_lets_go_of_the_terminal", &[], alone),
];

const LEAVE: &[u8] = b"\x10\x11";

/// Starts `run --rm -it` with a shell that announces itself.
fn start(cx: &Context, options: &[&str]) -> Result<(Running, Terminal)> {
    begin(cx, options, "sh", |words| cx.tote(words).env("TERM", "vt100"))
}

/// Starts it with a command whose monitor dies at that point.
fn start_to_die(cx: &Context, point: &str) -> Result<(Running, Terminal)> {
    let mortal = crate::need::mortal().context("no fault points")?;
    begin(cx, &[], "sh", |words| {
        cx.other_tote(&mortal, words).env("TOTE_FAULT", point)
    })
}

fn begin(
    cx: &Context,
    options: &[&str],
    program: &str,
    tote: impl FnOnce(&[&str]) -> Invocation,
) -> Result<(Running, Terminal)> {
    let image = cx.image();
    let words = ["run", "--rm", "-it", "--name", "c"];
    let script = format!("trap '' HUP; echo here; exec {program}");
    let script = [image.as_str(), "sh", "-c", &script];
    let words = [&words[..], options, &script].concat();
    let (mut running, terminal) = tote(&words).spawn_in_terminal(33, 99)?;
    running.expect("here\r\n")?;
    Ok((running, terminal))
}

fn attach(cx: &Context) -> Result<(Running, Terminal)> {
    cx.tote(&["attach", "c"]).spawn_in_terminal(44, 111)
}

/// Waits for the end of a command whose terminal is still open.
fn ends(mut running: Running, terminal: Terminal, code: i32) -> Result<()> {
    let seen = running.wait()?;
    ensure!(
        seen == code,
        "expected exit {code}, saw {seen}:\n{}",
        running.so_far()
    );
    drop(terminal);
    running.finish()?;
    Ok(())
}

/// Attaches to the detached container, and ends it from there.
fn end(cx: &Context) -> Result<()> {
    let (mut running, terminal) = attach(cx)?;
    running.send(b"echo st''ill; exit 9\n");
    running.expect("still\r\n")?;
    ends(running, terminal, 9)?;
    cx.nothing_left()
}

fn left(cx: &Context) -> Result<()> {
    let (mut running, terminal) = start(cx, &[])?;
    running.send(b"word=kept\n");
    let modes = Terminal::open(33, 99)?.modes()?;
    running.send(LEAVE);
    let code = running.wait()?;
    ensure!(code == 0, "it ended with {code}");
    ensure!(terminal.modes()? == modes, "the terminal is not what it was");
    drop(terminal);
    running.finish()?;
    cx.tote(&["ps", "--format", "{{.Names}} {{.State}}"])
        .output()?
        .prints("c running\n")?;
    let (mut running, terminal) = attach(cx)?;
    running.send(b"echo $word $(stty size) e''nd\n");
    running.expect("kept 44 111 end\r\n")?;
    running.send(LEAVE);
    ends(running, terminal, 1)?;
    // The log gets later output a moment after attached clients have seen it.
    super::pool::eventually("its log has it", || {
        let logs = cx.tote(&["logs", "c"]).output()?;
        Ok(logs.exits(0)?.has_out("kept 44 111 end").is_ok())
    })?;
    cx.tote(&["exec", "c", "echo", "exec"])
        .output()?
        .prints("exec\n")?;
    end(cx)
}

fn other_keys(cx: &Context) -> Result<()> {
    let (mut running, terminal) = start(cx, &["--detach-keys", "ctrl-a,x"])?;
    running.send(LEAVE);
    running.send(b"echo go''es on\n");
    running.expect("goes on\r\n")?;
    running.send(b"\x01x");
    ends(running, terminal, 0)?;
    end(cx)?;
    let words = [
        "run",
        "--rm",
        "-it",
        "--detach-keys",
        "nokey",
        &cx.image(),
        "true",
    ];
    let (running, terminal) = cx.tote(&words).spawn_in_terminal(33, 99)?;
    ends(running, terminal, 1)?;
    cx.nothing_left()
}

fn closed_window(cx: &Context) -> Result<()> {
    for by_signal in [true, false] {
        let (mut running, terminal) = start(cx, &[])?;
        if by_signal {
            running.signal(Signal::HUP)?;
        } else {
            running.close_input();
            running.close_output();
        }
        drop(terminal);
        let code = running.wait()?;
        ensure!(code == 129, "it ended with {code}");
        end(cx)?;
    }
    Ok(())
}

/// Two terminals share a container: both show its output, and the container reads from both.
fn shared(cx: &Context) -> Result<()> {
    let (mut first, its) = start(cx, &[])?;
    let (mut second, other) = attach(cx)?;
    second.send(b"echo fr''om two\n");
    second.expect("from two\r\n")?;
    first.expect("from two\r\n")?;
    its.is_raw()?;
    first.send(b"echo fr''om one\n");
    first.expect("from one\r\n")?;
    second.expect("from one\r\n")?;
    first.send(b"exit 7\n");
    ends(first, its, 7)?;
    ends(second, other, 7)?;
    cx.nothing_left()
}

fn asked(cx: &Context) -> Result<()> {
    let (mut running, terminal) = start(cx, &[])?;
    cx.tote(&["rename", "c", "d"]).output()?.exits(0)?;
    cx.tote(&["update", "--restart", "no", "d"]).output()?.exits(0)?;
    running.send(b"echo af''ter\n");
    running.expect("after\r\n")?;
    cx.tote(&["exec", "d", "echo", "exec"])
        .output()?
        .prints("exec\n")?;
    cx.tote(&["top", "d"]).output()?.exits(0)?;
    cx.tote(&["stop", "-t", "0", "d"]).output()?.prints("d\n")?;
    ends(running, terminal, 137)?;
    cx.nothing_left()
}

fn waited(cx: &Context) -> Result<()> {
    let (mut running, terminal) = start(cx, &[])?;
    let early = cx.tote(&["wait", "c"]).spawn()?;
    running.send(LEAVE);
    ends(running, terminal, 0)?;
    let late = cx.tote(&["wait", "c"]).spawn()?;
    end(cx)?;
    for waiting in [early, late] {
        let out = waiting.finish()?;
        // A waiter may come too late to find the container.
        ensure!(
            out.out() == "9\n"
                || out.err().contains("No such container")
                || out.err().contains("is not running"),
            "{}",
            out.transcript()
        );
    }
    Ok(())
}

fn joins(cx: &Context) -> Result<()> {
    cx.tote(&["run", "-d", "--name", "other", &cx.image(), "sleep", "1000"])
        .output()?
        .exits(0)?;
    let (mut running, terminal) = start(cx, &["--pid", "container:other"])?;
    running.send(LEAVE);
    ends(running, terminal, 0)?;
    let (mut running, terminal) = attach(cx)?;
    running.send(b"exit 9\n");
    running.wait()?;
    drop(terminal);
    cx.tote(&["rm", "-f", "other"]).output()?.exits(0)?;
    cx.nothing_left()
}

/// Kills the command, the container's parent, and after a detach the monitor.
fn killed(cx: &Context) -> Result<()> {
    for leaves in [false, true] {
        for (index, what) in ["who watches", "the parent"].iter().enumerate() {
            // The end of its terminal alone does not end the program, which reads nothing and ignores SIGHUP.
            let (mut running, terminal) = begin(cx, &[], "sleep 1000", |words| cx.tote(words))?;
            if leaves {
                running.send(LEAVE);
                running.wait()?;
            }
            let init = number(cx, "{{.State.Pid}}")?;
            let end = processes::pidfd(init)?;
            let monitor = if leaves { monitor(cx)? } else { running.pid() };
            let watching = processes::pidfd(monitor)?;
            let victim = if index == 0 { monitor } else { parent(init)? };
            processes::kill(victim, Signal::KILL);
            processes::wait_end(&end, &format!("a container without {what}"), patience())?;
            drop(terminal);
            running.wait()?;
            // The process that still watches the container cleans up after its end.
            processes::wait_end(&watching, "whoever watched it", patience())?;
            gone(cx)?;
        }
    }
    Ok(())
}

fn number(cx: &Context, template: &str) -> Result<i32> {
    let out = cx.tote(&["inspect", "-f", template, "c"]).output()?;
    Ok(out.exits(0)?.out().trim().parse()?)
}

fn parent(pid: i32) -> Result<i32> {
    let found = processes::all().into_iter().find(|process| process.pid == pid);
    Ok(found.context("no such process")?.parent)
}

/// Returns the number of a process's terminal, 0 for none: proc_pid_stat(5).
fn controlling_terminal(pid: i32) -> Result<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("a name in parentheses")?;
    Ok(fields.split(' ').nth(4).context("too few fields")?.parse()?)
}

/// Returns the monitor that the container's record names.
fn monitor(cx: &Context) -> Result<i32> {
    let dir = std::fs::read_dir(cx.root().join("containers"))?.next();
    let dir = dir.context("it has no directory")??.path();
    let state = std::fs::read_to_string(dir.join("state.json"))?;
    let rest = state
        .split("\"monitor\":{\"pid\":")
        .nth(1)
        .context("no monitor")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

/// Checks that the next command removes the container, and that the name is free.
fn gone(cx: &Context) -> Result<()> {
    cx.tote(&["run", "--rm", "--name", "c", &cx.image(), "true"])
        .output()?
        .exits(0)?;
    cx.nothing_left()
}

/// A monitor that dies before it has taken over leaves the container with the command.
fn mortal(cx: &Context) -> Result<()> {
    for point in ["bound", "inherited"] {
        let (mut running, terminal) = start_to_die(cx, point)?;
        running.send(LEAVE);
        running.expect("cannot let a monitor watch the container")?;
        let records = std::fs::read_dir(cx.root().join("containers"))?.count();
        ensure!(records == 0, "the monitor's records are left after {point:?}");
        // The command handles the detach keys again.
        running.send(LEAVE);
        running.expect("cannot let a monitor watch the container")?;
        running.send(b"echo go''es on; exit 5\n");
        running.expect("goes on\r\n")?;
        ends(running, terminal, 5).with_context(|| format!("after a death at {point:?}"))?;
        cx.nothing_left()?;
    }
    let (mut running, terminal) = start_to_die(cx, "succeeded")?;
    let end = processes::pidfd(number(cx, "{{.State.Pid}}")?)?;
    running.send(LEAVE);
    running.wait()?;
    processes::wait_end(&end, "a container whose monitor was killed", patience())?;
    drop(terminal);
    gone(cx)
}

fn restarted(cx: &Context) -> Result<()> {
    cx.tote(&["run", "-d", "--rm", "--name", "c", &cx.image(), "sleep", "1000"])
        .output()?
        .exits(0)?;
    cx.tote(&["restart", "-t", "0", "c"])
        .output()?
        .refuses(1, &["cannot restart container c", "start it without --rm"])?;
    cx.tote(&["ps", "--format", "{{.Names}}"])
        .output()?
        .prints("c\n")?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    cx.nothing_left()
}

/// After the detach only the monitor has a timer, which runs for the remaining time.
fn limited(cx: &Context) -> Result<()> {
    let (mut running, terminal) = start(cx, &["--timeout", "2"])?;
    let end = processes::pidfd(number(cx, "{{.State.Pid}}")?)?;
    running.send(LEAVE);
    ends(running, terminal, 0)?;
    let watching = processes::pidfd(monitor(cx)?)?;
    processes::wait_end(&end, "a container with a limit of time", patience())?;
    processes::wait_end(&watching, "its monitor", patience())?;
    gone(cx)
}

/// The shell from which the command was started keeps the terminal, and the detached processes have none.
fn alone(cx: &Context) -> Result<()> {
    let shell = ["sh", "-c", "\"$@\"; echo left; cat", "sh"];
    let (mut running, terminal) = begin(cx, &[], "sh", |words| cx.tote(words).under(&shell))?;
    running.send(LEAVE);
    running.expect("left\r\n")?;
    for pid in [parent(number(cx, "{{.State.Pid}}")?)?, monitor(cx)?] {
        ensure!(controlling_terminal(pid)? == 0, "process {pid} has the terminal");
    }
    end(cx)?;
    running.send(b"\x04");
    ends(running, terminal, 0)
}

/// The program ends at once if it does not wait for tote, which is stopped before and after it has recorded the container. The
/// record alone does not let other commands in: the container's process may still have the host's root.
fn found(cx: &Context) -> Result<()> {
    let mortal = crate::need::mortal().context("no fault points")?;
    for point in ["stop:unnoted", "stop:noted"] {
        let mut running = cx
            .other_tote(
                &mortal,
                &["run", "--rm", "--name", "c", &cx.image(), "echo", "begun"],
            )
            .env("TOTE_FAULT", point)
            .spawn()?;
        let tote = running.pid();
        ensure!(processes::wait_stop(tote)?, "it did not stop at {point}");
        let init = processes::pidfd(processes::container_init(tote)?)?;
        let ended = processes::readable(&init, Duration::from_millis(300))?;
        ensure!(!ended, "{point}: its program did not wait for tote");
        cx.tote(&["ps", "-aq"]).output()?.prints("")?;
        cx.tote(&["exec", "c", "true"])
            .output()?
            .refuses(1, &["No such container: c"])?;
        running.signal(Signal::CONT)?;
        running.expect("begun\n")?;
        running.finish()?.exits(0)?;
        cx.nothing_left()?;
    }
    Ok(())
}
