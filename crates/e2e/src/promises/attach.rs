//! `tote attach`, and the service of a monitor to attached clients.

use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use rustix::process::Signal;

pub(super) const TESTS: &[Test] = &[
    test("attach::a_closed_window_leaves_the_container", &[], closed_window),
    test("attach::output_and_input_of_several", &[], several),
    test("attach::no_stdin_leaves_input_alone", &[], no_stdin),
    test("attach::the_exit_code_is_the_containers", &[], exit_code),
    test("attach::a_terminal_is_shared_and_can_be_left", &[], terminal),
    test("attach::other_keys_leave_it_too", &[], other_keys),
    test("attach::signals_go_to_the_container", &[], signals),
    test("attach::without_proxy_they_end_the_command_alone", &[], no_proxy),
    test("attach::only_what_runs_can_be_attached_to", &[], refused),
    test(
        "attach::a_reader_that_goes_leaves_the_container",
        &[],
        reader_goes,
    ),
    test(
        "attach::a_reader_that_stops_does_not_stop_the_container",
        &[],
        reader_stops,
    )
    .waits(),
];

fn detach(cx: &Context, options: &[&str], script: &str) -> Result<()> {
    let image = cx.image();
    let start = ["run", "-d", "--name", "c"];
    cx.tote(&[&start, options, &[&image, "sh", "-c", script]].concat())
        .output()?
        .exits(0)?;
    Ok(())
}

fn remove(cx: &Context) -> Result<()> {
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    cx.nothing_left()
}

/// A shell that answers each line on both streams.
const ECHO: &str =
    "while read line; do echo \"got $line\"; echo \"err $line\" >&2; [ \"$line\" != end ] || exit 3; done";

fn several(cx: &Context) -> Result<()> {
    detach(cx, &["-i"], ECHO)?;
    let mut one = cx.tote(&["attach", "c"]).spawn()?;
    one.send(b"1\n");
    one.expect("got 1\n")?;
    let mut two = cx.tote(&["container", "attach", "c"]).spawn()?;
    two.send(b"2\n");
    two.expect("got 2\n")?;
    one.expect("got 2\n")?;
    one.send(b"end\n");
    for running in [one, two] {
        let out = running.finish()?;
        out.exits(3)?;
        ensure!(out.out().ends_with("got end\n"), "it saw {:?}", out.out());
        ensure!(out.err().ends_with("err end\n"), "it saw {:?}", out.err());
    }
    remove(cx)
}

fn no_stdin(cx: &Context) -> Result<()> {
    let script = "(while :; do echo tick; sleep 0.1; done) & read line; echo \"got $line\"";
    detach(cx, &["-i"], script)?;
    let mut one = cx.tote(&["attach", "--no-stdin", "c"]).spawn()?;
    one.send(b"from one\n");
    one.expect("tick\n")?;
    one.expect("tick\n")?;
    let mut two = cx.tote(&["attach", "c"]).spawn()?;
    two.send(b"from two\n");
    two.expect("got from two\n")?;
    one.expect("got from two\n")?;
    one.finish()?.exits(0)?;
    two.finish()?.exits(0)?;
    remove(cx)
}

fn exit_code(cx: &Context) -> Result<()> {
    detach(cx, &["-i"], ECHO)?;
    let mut one = cx.tote(&["attach", "c"]).spawn()?;
    one.send(b"up\n");
    one.expect("got up\n")?;
    cx.tote(&["kill", "-s", "KILL", "c"]).output()?.exits(0)?;
    one.finish()?.exits(137)?;
    remove(cx)
}

fn terminal(cx: &Context) -> Result<()> {
    detach(cx, &["-it"], "echo ready; exec sh")?;
    let attach = || cx.tote(&["attach", "c"]).spawn_in_terminal(33, 99);
    let (mut one, outer) = attach()?;
    one.send(b"stty size; echo do''ne\n");
    let seen = one.expect("done\r\n")?;
    ensure!(seen.contains("33 99"), "the size is of neither: {seen:?}");
    outer.is_raw()?;
    outer.resize(44, 111)?;
    one.send(b"while [ \"$(stty size)\" != '44 111' ]; do :; done; echo resi''zed\n");
    one.expect("resized\r\n")?;
    one.send(b"\x10\x11");
    one.expect("read escape sequence")?;
    let code = one.wait()?;
    ensure!(code == 1, "expected exit 1, saw {code}");
    drop(outer);
    one.finish()?;
    let (mut two, outer) = attach()?;
    two.send(b"echo still he''re; exit 9\n");
    two.expect("still here\r\n")?;
    let code = two.wait()?;
    ensure!(code == 9, "expected exit 9, saw {code}");
    drop(outer);
    two.finish()?;
    remove(cx)
}

fn other_keys(cx: &Context) -> Result<()> {
    detach(cx, &["-it"], "exec cat")?;
    let words = ["attach", "--detach-keys", "ctrl-x,y", "c"];
    let (mut one, outer) = cx.tote(&words).spawn_in_terminal(24, 80)?;
    one.send(b"\x10\x11wo''rd\r");
    one.expect("wo''rd\r\n")?;
    one.send(b"\x18y");
    let code = one.wait()?;
    ensure!(code == 1, "expected exit 1, saw {code}");
    drop(outer);
    one.finish()?;
    cx.tote(&["attach", "--detach-keys", "strg-x", "c"])
        .output()?
        .refuses(1, &["detach keys", "strg-x"])?;
    remove(cx)
}

fn signals(cx: &Context) -> Result<()> {
    detach(
        cx,
        &["-i"],
        "trap 'echo hup; exit 5' HUP; echo ready; while read line; do echo $line; done",
    )?;
    let mut one = cx.tote(&["attach", "c"]).spawn()?;
    one.send(b"up\n");
    one.expect("up\n")?;
    one.signal(Signal::HUP)?;
    // A trap runs only after the current builtin has ended.
    one.send(b"\n");
    let out = one.finish()?;
    out.exits(5)?;
    ensure!(out.out().contains("hup\n"), "it saw {:?}", out.out());
    remove(cx)
}

/// The container does not get the hangup signal of a closed window, nor the end of its input; docker does the same.
fn closed_window(cx: &Context) -> Result<()> {
    detach(cx, &["-it"], "echo ready; exec sh")?;
    for by_signal in [true, false] {
        let (mut one, outer) = cx.tote(&["attach", "c"]).spawn_in_terminal(30, 90)?;
        one.send(b"echo he''re\n");
        one.expect("here\r\n")?;
        if by_signal {
            one.signal(Signal::HUP)?;
            ensure!(one.wait()? == 129, "it ended otherwise");
        } else {
            one.close_input();
            one.close_output();
        }
        drop(outer);
        one.wait()?;
    }
    let (mut two, outer) = cx.tote(&["attach", "c"]).spawn_in_terminal(30, 90)?;
    two.send(b"echo st''ill; exit 4\n");
    two.expect("still\r\n")?;
    ensure!(two.wait()? == 4, "it ended otherwise");
    drop(outer);
    remove(cx)
}

fn no_proxy(cx: &Context) -> Result<()> {
    detach(cx, &["-i"], ECHO)?;
    let mut one = cx.tote(&["attach", "--sig-proxy=false", "c"]).spawn()?;
    one.send(b"up\n");
    one.expect("got up\n")?;
    one.signal(Signal::TERM)?;
    let code = one.finish()?.code;
    ensure!(code == 143 || code == -15, "it ended with {code}");
    let mut two = cx.tote(&["attach", "c"]).spawn()?;
    two.send(b"end\n");
    two.finish()?.exits(3)?;
    remove(cx)
}

fn refused(cx: &Context) -> Result<()> {
    let attach = || cx.tote(&["attach", "c"]).output();
    attach()?.refuses(1, &["No such container", "c"])?;
    cx.tote(&["create", "--name", "c", &cx.image(), "true"])
        .output()?
        .exits(0)?;
    attach()?.refuses(1, &["stopped container", "start it first"])?;
    remove(cx)
}

fn reader_goes(cx: &Context) -> Result<()> {
    detach(
        cx,
        &["-i"],
        "read line; head -c 3000000 /dev/zero; echo; echo do''ne; read line",
    )?;
    let mut one = cx.tote(&["attach", "c"]).spawn()?;
    one.send(b"go\n");
    one.expect("\0")?;
    one.close_output();
    one.finish()?;
    let mut follow = cx.tote(&["logs", "-f", "--tail", "1", "c"]).spawn()?;
    follow.expect("done\n")?;
    remove(cx)?;
    follow.finish()?;
    Ok(())
}

fn reader_stops(cx: &Context) -> Result<()> {
    detach(
        cx,
        &["-i"],
        "read line; head -c 3000000 /dev/zero; echo; echo do''ne; exec sleep 1000",
    )?;
    let mut one = cx.tote(&["attach", "c"]).spawn()?;
    one.send(b"go\n");
    one.expect("\0")?;
    one.signal(Signal::STOP)?;
    let mut follow = cx.tote(&["logs", "-f", "--tail", "1", "c"]).spawn()?;
    follow.expect("done\n")?;
    one.signal(Signal::CONT)?;
    let out = one.finish()?;
    out.exits(1)?;
    ensure!(out.err().contains("too slowly"), "it says {:?}", out.err());
    remove(cx)?;
    follow.finish()?;
    Ok(())
}
