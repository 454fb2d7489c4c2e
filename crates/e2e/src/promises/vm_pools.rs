//! Pools of virtual machines: their guests are up, and wait for the program of their container.

use super::pool::{self, done, eventually, gone, ready, taking};
use super::vm::{QEMU, prepare, prepare_template};
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need;
use crate::processes::{self, Process};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::collections::BTreeSet;

const NEEDS: &[Need] = &[QEMU, Need::GuestKernel];

pub(super) const TESTS: &[Test] = &[
    test("vm::a_pool_has_machines_that_are_up", NEEDS, up).slow(6),
    test(
        "vm::programs_streams_and_ends_in_a_machine_of_a_pool",
        NEEDS,
        programs,
    )
    .slow(8),
    test(
        "vm::a_machine_of_a_pool_dies_with_its_keeper_and_its_taker",
        NEEDS,
        killed,
    )
    .slow(6),
    test("vm::a_machine_that_does_not_come_up_is_in_no_pool", NEEDS, broken).slow(3),
];

const MACHINE: &str = "vm=memory=256m";

/// Fills a pool with machines, from a template.
fn fill(cx: &Context, size: &str, options: &[&str]) -> Result<()> {
    prepare_template(cx)?;
    let words = ["pool", "fill", "p", "-n", size, "--isolation", MACHINE];
    let ready = done(
        cx,
        &[&words[..], options, &["--network", "none", "app", "--", "true"]].concat(),
    )?;
    ensure!(ready == size, "{ready} wait and not {size}");
    Ok(())
}

/// The processes of QEMU.
fn machines() -> Vec<Process> {
    let all = processes::descendants(rustix::process::getpid().as_raw_pid());
    all.into_iter()
        .filter(|process| process.name.starts_with("qemu-system"))
        .collect()
}

/// Waits until the pool is full again, and has as many machines: one that is about to boot is listed as ready.
fn full(cx: &Context, size: &str) -> Result<()> {
    pool::full(cx, size)?;
    eventually(
        "each has its machine",
        || Ok(machines().len().to_string() == size),
    )
}

fn up(cx: &Context) -> Result<()> {
    fill(cx, "2", &[])?;
    ensure!(machines().len() == 2, "{} machines", machines().len());
    ensure!(
        done(cx, &["ps", "-aq"])?.is_empty(),
        "a machine that waits is a container already"
    );
    let script = "grep -q tote_template /proc/cmdline && echo resumed; test ! -e /seen && touch /seen && echo $HOSTNAME $(hostname); \
                  cat /proc/sys/kernel/random/uuid; head -c 16 /dev/urandom | busybox sha256sum; date +%s";
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let before: BTreeSet<i32> = machines().iter().map(|machine| machine.pid).collect();
        let output = taking(cx, &["sh", "-c", script]).output()?;
        output.exits(0)?.quietly()?;
        let said = output.out();
        let lines: Vec<&str> = said.lines().collect();
        ensure!(lines.len() == 5 && lines[0] == "resumed", "{said}");
        let (variable, name) = lines[1].split_once(' ').context("two words")?;
        ensure!(variable == name && name.len() == 12, "{said}");
        for line in &lines[1..4] {
            ensure!(seen.insert((*line).to_owned()), "{line} came twice");
        }
        // Its clock went on while it waited.
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)?
            .as_secs();
        let time: u64 = lines[4].parse()?;
        ensure!(
            (now.saturating_sub(patience().as_secs())..=now + 1).contains(&time),
            "{time} {now}"
        );
        // It was one of those that waited, and another one takes its place.
        eventually("another one takes the place of one that waited", || {
            let after: BTreeSet<i32> = machines().iter().map(|machine| machine.pid).collect();
            Ok(after.len() == 2 && before.difference(&after).count() == 1)
        })?;
        full(cx, "2")?;
    }
    gone(cx)
}

fn programs(cx: &Context) -> Result<()> {
    fill(cx, "3", &["-e", "A=pool", "-e", "B=pool", "-w", "/tmp"])?;
    taking(
        cx,
        &["-e", "A=run", "sh", "-c", "echo $A $B $PWD; echo err >&2; exit 7"],
    )
    .output()?
    .exits(7)?
    .has_out("run pool /tmp\n")?
    .has_err("err\n")?;
    full(cx, "3")?;
    taking(cx, &["-w", "/made/here", "sh", "-c", "pwd"])
        .output()?
        .prints("/made/here\n")?;
    full(cx, "3")?;
    // As with every pool, the next command that runs has both places filled.
    taking(cx, &["nope"]).output()?.refuses(127, &["nope"])?;
    taking(cx, &["cat"]).input(b"unread").output()?.prints("")?;
    let long = "x".repeat(300_000);
    let copied = taking(cx, &["-i", "cat"]).input(long.as_bytes()).output()?;
    ensure!(copied.out() == long, "{} bytes came back", copied.out().len());
    full(cx, "3")?;
    let words: Vec<String> = (0..3_000).map(|number| format!("{number:060}")).collect();
    let mut many = vec!["sh", "-c", "echo $#", "sh"];
    many.extend(words.iter().map(String::as_str));
    taking(cx, &many).output()?.prints("3000\n")?;
    full(cx, "3")?;
    // A machine that a command has taken is a container as others are.
    let mut running = taking(cx, &["--name", "c", "sleep", "1000"]).spawn()?;
    eventually("it is a container", || Ok(done(cx, &["ps", "-q"])?.len() == 12))?;
    cx.tote(&[
        "exec",
        "c",
        "sh",
        "-c",
        "grep -c tote_template /proc/cmdline; echo $A",
    ])
    .output()?
    .prints("1\npool\n")?;
    cx.tote(&["stop", "-t", "0", "c"]).output()?.exits(0)?;
    ensure!(running.wait()? == 137, "it was killed");
    gone(cx)
}

fn killed(cx: &Context) -> Result<()> {
    fill(cx, "1", &[])?;
    let keepers = pool::keepers();
    ensure!(keepers.len() == 1, "{} keepers", keepers.len());
    let machine = processes::pidfd(machines().first().context("a machine")?.pid)?;
    processes::kill(keepers[0].pid, Signal::KILL);
    processes::wait_end(&machine, "QEMU", patience())?;
    ensure!(ready(cx)? == "0", "a machine waits without its keeper");
    // Without one a machine is made in the usual way.
    taking(cx, &["echo", "well"]).output()?.prints("well\n")?;
    full(cx, "1")?;
    let machine = processes::pidfd(machines().first().context("a machine")?.pid)?;
    let mut taker = taking(cx, &["sleep", "1000"]).spawn()?;
    eventually("it is a container", || Ok(!done(cx, &["ps", "-q"])?.is_empty()))?;
    taker.signal(Signal::KILL)?;
    taker.wait()?;
    processes::wait_end(&machine, "QEMU", patience())?;
    full(cx, "1")?;
    gone(cx)
}

fn broken(cx: &Context) -> Result<()> {
    prepare(cx)?;
    // A kernel that cannot boot.
    let kernel = super::vm::programs(cx)?.join("vmlinux");
    std::fs::remove_file(&kernel)?;
    std::fs::write(&kernel, "no kernel")?;
    let words = [
        "pool",
        "fill",
        "p",
        "--isolation",
        MACHINE,
        "--network",
        "none",
        "app",
        "--",
        "true",
    ];
    cx.tote(&words).output()?.refuses(
        125,
        &["cannot make a virtual machine for a sandbox of the pool: "],
    )?;
    ensure!(ready(cx)? == "0", "a machine waits that does not boot");
    ensure!(machines().is_empty(), "no machine is left");
    gone(cx)
}
