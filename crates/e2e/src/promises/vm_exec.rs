//! Reaching into a container that is in a virtual machine: `exec`, health checks, `top` and `cp`.

use super::vm::{QEMU, detach, prepare_template};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs::File;
use std::io::Read as _;

pub(super) const TESTS: &[Test] = &[test(
    "vm::exec_joins_the_container_in_its_machine",
    &[QEMU, Need::GuestKernel],
    exec,
)
.slow(3)];

/// All of `exec` with one machine.
fn exec(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    detach(
        cx,
        &[
            "--env",
            "A=b",
            "--health-cmd",
            "test -e /healthy",
            "--health-interval",
            "1h",
        ],
        &["sleep", "1000000"],
    )?;
    // This waits until the guest is up.
    let script =
        "tr '\\0' ' ' </proc/1/cmdline; echo; id -u; pwd; echo $A; hostname | wc -c; echo error >&2; exit 7";
    let output = cx
        .tote(&[
            "exec",
            "--user",
            "alice",
            "--workdir",
            "/tmp",
            "vm",
            "sh",
            "-c",
            script,
        ])
        .output()?;
    ensure!(
        output.out().starts_with("sleep 1000000 \n1234\n/tmp\nb\n13\n"),
        "{}",
        output.out()
    );
    output.has_err("error")?;
    believes_in_its_clock(cx)?;
    cx.tote(&["exec", "vm", "absent"])
        .output()?
        .refuses(127, &["executable file not found in $PATH"])?;
    let mut random = vec![0; 600_000];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let output = cx.tote(&["exec", "-i", "vm", "cat"]).input(&random).output()?;
    output.exits(0)?;
    ensure!(output.stdout == random, "{} bytes came back", output.stdout.len());
    // What it leaves behind holds its streams, and does not hold it up.
    cx.tote(&["exec", "vm", "sh", "-c", "sleep 1000003 & echo left"])
        .output()?
        .exits(0)?
        .prints("left\n")?;
    exec_terminal(cx)?;
    exec_signals(cx)?;
    exec_checks(cx)?;
    copies(cx)?;
    let output = cx.tote(&["top", "vm", "-o", "pid,user,args"]).output()?;
    output
        .exits(0)?
        .has_out("sleep 1000000")?
        .has_out("sleep 1000001")?;
    ensure!(!output.out().contains("/init"), "{}", output.out());
    // The end of the container is that of its processes.
    let mut inside = cx
        .tote(&["exec", "vm", "sh", "-c", "echo ready; sleep 1000002"])
        .spawn()?;
    inside.expect("ready")?;
    cx.tote(&["rm", "-f", "-t", "0", "vm"]).output()?.exits(0)?;
    inside.finish()?.exits(137)?;
    cx.nothing_left()
}

/// The kernel takes the counter of an emulated processor for its clock some seconds after it has begun, and keeps it: another one loses time on a
/// busy machine, and gives timers steps of 4 ms.
fn believes_in_its_clock(cx: &Context) -> Result<()> {
    let script = "i=0; while test $i -lt 300; do read -r clock < $0; test $clock != tsc || exit 0; sleep 0.1; i=$((i + 1)); done; echo $clock; exit 1";
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let output = cx.tote(&["exec", "vm", "sh", "-c", script, clock]).output()?;
    ensure!(output.out().is_empty(), "{}", output.out());
    output.exits(0).map(drop)
}

/// `cp` in all directions, with the machine of [`exec`].
fn copies(cx: &Context) -> Result<()> {
    let inside = |script: &str| -> Result<String> {
        let output = cx.tote(&["exec", "vm", "sh", "-c", script]).output()?;
        output.exits(0)?;
        Ok(output.out())
    };
    let tree = cx.directory("tree/sub")?;
    let tree = tree.strip_suffix("/sub").context("it was made so")?;
    let mut random = vec![0; 300_000];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    std::fs::write(format!("{tree}/sub/file"), &random)?;
    std::os::unix::fs::symlink("/etc/passwd", format!("{tree}/link"))?;
    cx.tote(&["cp", tree, "vm:/new"]).output()?.exits(0)?;
    ensure!(inside("readlink /new/link; stat -c %u /new/sub/file")? == "/etc/passwd\n0\n");
    // A directory that exists gets the source into it, under its own name.
    cx.tote(&["cp", &format!("{tree}/sub/file"), "vm:/new"])
        .output()?
        .exits(0)?;
    let back = cx.path("back")?;
    cx.tote(&["cp", "vm:/new", &back]).output()?.exits(0)?;
    for path in ["file", "sub/file"] {
        ensure!(std::fs::read(format!("{back}/{path}"))? == random, "{path}");
    }
    ensure!(std::fs::read_link(format!("{back}/link"))? == std::path::Path::new("/etc/passwd"));
    // The same as archives.
    let archive = cx.tote(&["cp", "vm:/new/.", "-"]).output()?;
    archive.exits(0)?;
    inside("mkdir /other")?;
    cx.tote(&["cp", "-", "vm:/other"])
        .input(&archive.stdout)
        .output()?
        .exits(0)?;
    ensure!(inside("cmp /new/sub/file /other/file && echo same")? == "same\n");
    for (from, to, reason) in [
        (
            "vm:/absent",
            back.as_str(),
            "Could not find the file /absent in container vm",
        ),
        (
            tree,
            "vm:/absent/below",
            "Could not find the file /absent in container vm",
        ),
        (
            tree,
            "vm:/new/file",
            "cannot copy directory: vm:/new/file is a file",
        ),
    ] {
        cx.tote(&["cp", from, to]).output()?.refuses(1, &[reason])?;
    }
    Ok(())
}

fn exec_signals(cx: &Context) -> Result<()> {
    // Signals go to the process, and not to its neighbours.
    let script = "trap 'echo asked; exit 4' TERM; echo ready; while :; do sleep 0.1; done";
    let mut inside = cx.tote(&["exec", "vm", "sh", "-c", script]).spawn()?;
    inside.expect("ready")?;
    inside.signal(Signal::TERM)?;
    inside.expect("asked")?;
    inside.finish()?.exits(4).map(drop)
}

fn exec_checks(cx: &Context) -> Result<()> {
    // The check is a process in the guest.
    cx.tote(&["exec", "vm", "touch", "/healthy"]).output()?.exits(0)?;
    cx.tote(&["healthcheck", "run", "vm"]).output()?.exits(0)?;
    cx.tote(&["exec", "-d", "vm", "sh", "-c", "rm /healthy; sleep 1000001"])
        .output()?
        .exits(0)?;
    cx.tote(&[
        "exec",
        "vm",
        "sh",
        "-c",
        "while test -e /healthy; do sleep 0.1; done",
    ])
    .output()?
    .exits(0)?;
    cx.tote(&["healthcheck", "run", "vm"])
        .output()?
        .exits(1)
        .map(drop)
}

fn exec_terminal(cx: &Context) -> Result<()> {
    let script = "test -t 0 && test -t 1 && test -t 2 && echo all $(stty size) $TERM
trap 'echo now $(stty size) end; exit 4' WINCH; echo ready; sleep 1000 & while :; do wait; done";
    let (mut inside, outer) = cx
        .tote(&["exec", "-it", "vm", "sh", "-c", script])
        .spawn_in_terminal(40, 100)?;
    inside.expect("all 40 100 xterm\r\n")?;
    inside.expect("ready\r\n")?;
    outer.is_raw()?;
    outer.resize(55, 132)?;
    inside.expect("now 55 132 end\r\n")?;
    let seen = inside.wait()?;
    ensure!(seen == 4, "expected exit 4, saw {seen}");
    ensure!(outer.is_raw().is_err(), "the outer terminal is left raw");
    drop(outer);
    inside.finish().map(drop)
}
