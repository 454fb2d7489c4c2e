//! `-t`: a terminal inside that behaves like the one outside, which is restored at the end.

use crate::context::Context;
use crate::exchange::Running;
use crate::promise::{Test, test};
use crate::terminal::Terminal;
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

pub(super) const TESTS: &[Test] = &[
    test("terminal::it_gives_a_terminal", &[], a_terminal),
    test("terminal::its_size_is_the_outer_ones", &[], size),
    test("terminal::a_resize_reaches_the_command", &[], resize),
    test("terminal::ctrl_c_reaches_the_foreground_process", &[], ctrl_c),
    test("terminal::ctrl_d_ends_input", &[], ctrl_d),
    test(
        "terminal::modes_are_restored_after_exit",
        &[],
        restored_after_exit,
    ),
    test(
        "terminal::modes_are_restored_after_sigterm",
        &[],
        restored_after_sigterm,
    ),
    test(
        "terminal::modes_are_restored_when_the_command_cannot_start",
        &[],
        restored_after_failure,
    ),
    test("terminal::t_alone_works_without_one_outside", &[], t_alone),
    test("terminal::it_without_one_outside_is_refused", &[], refused),
];

/// Starts `run --rm -it IMAGE sh -c SCRIPT` on a new terminal of 40 rows and 100 columns.
fn start(cx: &Context, script: &str) -> Result<(Running, Terminal)> {
    cx.run_command(&["-it", &cx.image(), "sh", "-c", script])
        .env("TERM", "vt100")
        .spawn_in_terminal(40, 100)
}

/// Waits for the end, with the outer terminal still open, then closes it and returns the exit code.
fn finish(mut running: Running, terminal: Terminal) -> Result<i32> {
    let code = running.wait()?;
    drop(terminal);
    running.finish()?;
    Ok(code)
}

fn a_terminal(cx: &Context) -> Result<()> {
    let script =
        "test -t 0 && test -t 1 && test -t 2 && echo all; tty; test -c /dev/console && echo console; exit 3";
    let (mut running, terminal) = start(cx, script)?;
    running.expect("all\r\n")?;
    running.expect("/dev/pts/0\r\n")?;
    running.expect("console\r\n")?;
    let code = finish(running, terminal)?;
    ensure!(code == 3, "expected exit 3, saw {code}");
    Ok(())
}

fn size(cx: &Context) -> Result<()> {
    let (mut running, terminal) = start(cx, "echo size $(stty size) end")?;
    let seen = running.expect("end\r\n")?;
    ensure!(
        seen.contains("size 40 100 end"),
        "expected 40 rows and 100 columns, saw {seen:?}"
    );
    ensure!(finish(running, terminal)? == 0, "it failed");
    Ok(())
}

fn resize(cx: &Context) -> Result<()> {
    let script =
        "trap 'echo now $(stty size) end; exit 4' WINCH; echo ready; sleep 1000 & while :; do wait; done";
    let (mut running, terminal) = start(cx, script)?;
    running.expect("ready\r\n")?;
    terminal.resize(55, 132)?;
    let seen = running.expect("end\r\n")?;
    ensure!(
        seen.contains("now 55 132 end"),
        "expected 55 rows and 132 columns, saw {seen:?}"
    );
    let code = finish(running, terminal)?;
    ensure!(code == 4, "expected exit 4, saw {code}");
    Ok(())
}

/// Quotes inside the typed words keep the terminal's echo from looking like the answer.
fn ctrl_c(cx: &Context) -> Result<()> {
    let (mut running, terminal) = cx
        .run_command(&["-it", &cx.image(), "sh"])
        .env("TERM", "vt100")
        .spawn_in_terminal(24, 80)?;
    running.expect("# ")?;
    terminal.is_raw().context("while the container runs")?;
    running.send(b"sh -c 'echo st''arted; exec sleep 1000'\n");
    running.expect("started\r\n")?;
    running.send(b"\x03");
    running.expect("# ")?;
    running.send(b"echo co''de $?\n");
    running.expect("code 130\r\n")?;
    running.send(b"exit 6\n");
    let code = finish(running, terminal)?;
    ensure!(code == 6, "expected exit 6, saw {code}");
    Ok(())
}

fn ctrl_d(cx: &Context) -> Result<()> {
    let (mut running, terminal) = start(cx, "echo ready; cat; echo after; exit 2")?;
    running.expect("ready\r\n")?;
    running.send(b"line\n\x04");
    running.expect("line\r\nline\r\n")?;
    running.expect("after\r\n")?;
    let code = finish(running, terminal)?;
    ensure!(code == 2, "expected exit 2, saw {code}");
    Ok(())
}

/// Returns the modes of an unused terminal.
fn untouched() -> Result<String> {
    Terminal::open(40, 100)?.modes()
}

fn restored(mut running: Running, terminal: Terminal, code: i32) -> Result<()> {
    let seen = running.wait()?;
    let modes = terminal.modes()?;
    let before = untouched()?;
    ensure!(
        modes == before,
        "the terminal's modes are not what they were:\n- {before}\n+ {modes}"
    );
    ensure!(
        seen == code,
        "expected exit {code}, saw {seen}:\n{}",
        running.so_far()
    );
    drop(terminal);
    running.finish()?;
    Ok(())
}

fn restored_after_exit(cx: &Context) -> Result<()> {
    let (mut running, terminal) = start(cx, "stty -echo; echo ready; read x; exit 5")?;
    running.expect("ready\r\n")?;
    terminal.is_raw()?;
    running.send(b"\n");
    restored(running, terminal, 5)
}

fn restored_after_sigterm(cx: &Context) -> Result<()> {
    let (mut running, terminal) = start(cx, "trap 'exit 9' TERM; echo ready; sleep 1000 & wait")?;
    running.expect("ready\r\n")?;
    terminal.is_raw()?;
    running.signal(Signal::TERM)?;
    restored(running, terminal, 9)
}

fn restored_after_failure(cx: &Context) -> Result<()> {
    for (words, code) in [(&["no-such-program"][..], 127), (&["/etc/passwd"], 126)] {
        let image = cx.image();
        let words = [&["-it", image.as_str()], words].concat();
        let (running, terminal) = cx.run_command(&words).spawn_in_terminal(40, 100)?;
        restored(running, terminal, code)?;
    }
    let (running, terminal) = cx
        .run_command(&["-it", "rootfs:/missing", "sh"])
        .spawn_in_terminal(40, 100)?;
    restored(running, terminal, 125)
}

fn t_alone(cx: &Context) -> Result<()> {
    cx.shell(&["-t"], "test -t 1 && echo yes")?
        .prints("yes\r\n")?
        .quietly()?;
    Ok(())
}

fn refused(cx: &Context) -> Result<()> {
    for options in [&["-it"][..], &["-i", "-t"]] {
        let image = cx.image();
        let words = [options, &[&image, "sh"]].concat();
        cx.run_command(&words)
            .input(b"exit 0\n")
            .output()?
            .refuses(1, &["the input device is not a TTY"])?;
    }
    Ok(())
}
