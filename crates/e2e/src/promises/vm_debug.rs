//! `debug` of a container that is in a virtual machine: the tools come to a machine that runs.

use super::stored;
use super::vm::{QEMU, prepare_template};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[test(
    "vm::debug_brings_tools_to_a_running_machine",
    &[QEMU, Need::GuestKernel],
    debug,
)
.slow(3)];

/// Imports an image `only` that has one file: a program without a shell beside it.
fn bare_image(cx: &Context) -> Result<()> {
    let dir = cx.directory("only")?;
    fs::copy(
        cx.shared_rootfs().join("bin/busybox"),
        Path::new(&dir).join("sleep"),
    )?;
    let archive = stored::pack(cx, Path::new(&dir), "only")?;
    cx.tote(&["import", &archive, "only"]).output()?.exits(0)?;
    Ok(())
}

fn session(cx: &Context, words: &[&str]) -> Result<Output> {
    cx.tote(&[&["debug", "--tools", "app"], words].concat()).output()
}

/// All of it with one machine.
fn debug(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    bare_image(cx)?;
    // Without --rm, so that what is written to the container stays.
    let run = ["run", "-d", "--name", "vm", "--isolation", "vm", "--rm"];
    let container = ["--cap-drop", "NET_RAW", "-e", "A=b", "only", "/sleep", "1000000"];
    cx.tote(&[&run[..], &container].concat()).output()?.exits(0)?;
    let script = "echo ${A:-none} $TARGET; ls /target; cat /own; ps | grep -c 'sleep 1000000$'; hostname | wc -c; \
                  pwd; touch /own && echo scratch; echo there > /target/there; grep CapBnd /proc/self/status";
    let output = session(cx, &["vm", "sh", "-c", script])?;
    output.exits(0)?.quietly()?;
    // The kernel makes what the image has not.
    let expected =
        "none /target\ndev\netc\nproc\nsleep\nsys\napp1\n13\n/\nscratch\nCapBnd:\t00000000a80405fb\n";
    ensure!(output.out() == expected, "{:?}", output.out());
    // Of one session to the next, the container keeps what was written, and the tools do not.
    session(
        cx,
        &[
            "vm",
            "sh",
            "-c",
            "cat /target/there; test -s /own && echo whole; exit 7",
        ],
    )?
    .exits(7)?
    .has_out("there\nwhole\n")?;
    streams(cx)?;
    other_tools(cx)?;
    files_of_this_machine(cx)?;
    refusals(cx)?;
    killed(cx)?;
    ends(cx)?;
    cx.nothing_left()
}

/// A command that is killed takes its process in the guest along.
fn killed(cx: &Context) -> Result<()> {
    let script = "echo ready; exec sleep 1000003";
    let mut inside = cx
        .tote(&["debug", "--tools", "app", "vm", "sh", "-c", script])
        .spawn()?;
    inside.expect("ready")?;
    let own = processes::descendants(inside.pid());
    ensure!(!own.is_empty(), "a process in the sandbox passes its streams on");
    inside.signal(Signal::KILL)?;
    inside.wait()?;
    let gone = "while ps | grep -q '[s]leep 1000003'; do sleep 0.1; done";
    session(cx, &["vm", "sh", "-c", gone])?.exits(0)?;
    // An orphan is this process's to wait for, and the end of its PID namespace waits for that.
    for process in own {
        waitpid(Pid::from_raw(process.pid), WaitOptions::empty())?;
    }
    Ok(())
}

fn ends(cx: &Context) -> Result<()> {
    // A session ends with its container.
    let mut inside = cx
        .tote(&[
            "debug",
            "--tools",
            "app",
            "vm",
            "sh",
            "-c",
            "echo ready; sleep 1000002",
        ])
        .spawn()?;
    inside.expect("ready")?;
    cx.tote(&["rm", "-f", "-t", "0", "vm"]).output()?.exits(0)?;
    inside.finish()?.exits(137).map(drop)
}

fn streams(cx: &Context) -> Result<()> {
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at * 7) as u8).collect();
    let output = cx
        .tote(&["debug", "--tools", "app", "vm", "cat"])
        .input(&bytes)
        .output()?;
    output.exits(0)?;
    ensure!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
    session(cx, &["vm", "sh", "-c", "echo error >&2"])?
        .exits(0)?
        .has_err("error")?;
    session(cx, &["vm", "absent"])?.refuses(127, &["executable file not found in $PATH"])?;
    let (mut inside, outer) = cx
        .tote(&["debug", "--tools", "app", "--shell", "sh", "vm"])
        .spawn_in_terminal(40, 100)?;
    inside.send(b"stty size; tty | wc -l; exit 5\n");
    inside.expect("40 100\r\n1\r\n")?;
    ensure!(inside.wait()? == 5, "the shell's exit code");
    drop(outer);
    inside.finish().map(drop)
}

/// The machine has place for the tools of one image at a time.
fn other_tools(cx: &Context) -> Result<()> {
    stored::image(cx, "other", &[])?;
    let held = |tools: &str, script: &str| {
        cx.tote(&["debug", "--tools", tools, "vm", "sh", "-c", script])
            .spawn()
    };
    let mut first = held("app", "echo ready; read line")?;
    first.expect("ready")?;
    session(cx, &["vm", "cat", "/own"])?.prints("app")?;
    cx.tote(&["debug", "--tools", "other", "vm", "true"])
        .output()?
        .refuses(
            126,
            &["processes of another session in this virtual machine have other tools"],
        )?;
    first.send(b"\n");
    first.finish()?.exits(0)?;
    for tools in ["other", "app", "other"] {
        cx.tote(&["debug", "--tools", tools, "vm", "cat", "/own"])
            .output()?
            .prints(tools)?;
    }
    Ok(())
}

/// Tools that are files of this machine are read when the guest reads them.
fn files_of_this_machine(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("tools")?;
    fs::write(dir.join("own"), "mine\n")?;
    fs::set_permissions(dir.join("own"), fs::Permissions::from_mode(0o600))?;
    let tools = format!("rootfs:{}", dir.display());
    let script = "cat /own /target/there; stat -c %u /own; echo more >> /own && wc -l < /own";
    cx.tote(&["debug", "--tools", &tools, "vm", "sh", "-c", script])
        .output()?
        .prints("mine\nthere\n0\n2\n")?;
    ensure!(
        fs::read_to_string(dir.join("own"))? == "mine\n",
        "the directory stays as it is"
    );
    let here = Invocation::new(["sh", "-c", "cksum < /usr/bin/env"]).output()?;
    cx.tote(&[
        "debug",
        "vm",
        "sh",
        "-c",
        "ls /target/there >&2 && cksum < /usr/bin/env",
    ])
    .output()?
    .prints(&here.out())?;
    Ok(())
}

fn refusals(cx: &Context) -> Result<()> {
    for (words, reason) in [
        (
            &["--tools", "container:vm"][..],
            "only an image, a directory or this machine can be their disk",
        ),
        (
            &["--tools", "app", "--view", "target"],
            "cannot use --view target",
        ),
        (&["--tools", "app", "--keep"], "cannot use --keep"),
        (
            &["--tools", "app", "--port-forward", "80"],
            "sockets of this machine",
        ),
        (
            &["--tools", "app", "--effective-user", "0"],
            "users of this machine",
        ),
    ] {
        cx.tote(&[&["debug"], words, &["vm", "true"]].concat())
            .output()?
            .refuses(125, &[reason])?;
    }
    cx.tote(&["debug", "--tools", "container:vm", "image:app", "true"])
        .output()?
        .refuses(125, &["cannot take tools from container vm"])?;
    Ok(())
}
