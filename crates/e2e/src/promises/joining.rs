//! Processes that join a container have nothing that the container lacks.

use crate::bundle::Bundle;
use crate::context::Context;
use crate::need::Need::{Program, Root};
use crate::need::is_root;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use serde_json::json;

pub(super) const TESTS: &[Test] = &[
    test("joining::exec_brings_nothing_along", &[Program("gcc")], by_exec),
    test(
        "joining::a_neighbour_brings_nothing_along",
        &[Program("gcc")],
        by_run,
    ),
    test(
        "joining::oci_exec_brings_nothing_along",
        &[Program("gcc")],
        by_oci,
    ),
    test(
        "joining::oci_create_brings_nothing_along",
        &[Root, Program("gcc")],
        by_create,
    ),
    test(
        "joining::what_waits_is_known_by_its_own_number",
        &[Root, Program("strace")],
        named,
    )
    .slow(2),
    test(
        "joining::a_stopped_newcomer_is_killed",
        &[Program("gcc")],
        stopped,
    )
    .slow(2)
    .waits(),
    test(
        "joining::session_keyrings_are_the_containers_own",
        &[Program("gcc")],
        keyring,
    ),
    test("joining::the_infra_container_shows_no_root", &[], infra),
];

/// Number of processes that join the watching container.
const TIMES: usize = 30;

/// Checks the output of a container that watches joining processes: it has seen most, and nothing
/// of the host in them.
fn check(seen: &str) -> Result<()> {
    let count = seen.lines().filter(|line| line.starts_with("seen ")).count();
    ensure!(
        count >= TIMES / 2,
        "the container saw {count} newcomers only:\n{seen}"
    );
    let more = seen
        .lines()
        .find(|line| !line.starts_with("seen ") && *line != "ready");
    ensure!(more.is_none(), "a newcomer had more than the container: {more:?}");
    Ok(())
}

/// Options of containers that may inspect all visible processes.
fn curious() -> Vec<&'static [&'static str]> {
    let mut options: Vec<&[&str]> = vec![&["--cap-add", "SYS_PTRACE"]];
    if !is_root() {
        // A privileged container of root has the rights of the host's root.
        options.push(&["--privileged"]);
    }
    options
}

/// Starts a detached container `c` that inspects every new process.
fn watching(cx: &Context, options: &[&str]) -> Result<()> {
    let canary = cx.file("canary", "the host's")?;
    let words = [
        &["-d", "--name", "c", "--health-cmd", "true"],
        options,
        &[&cx.image(), "probe", "catch", &canary],
    ];
    cx.tote(&[&["run"], &words.concat()[..]].concat())
        .output()?
        .exits(0)?;
    Ok(())
}

fn by_exec(cx: &Context) -> Result<()> {
    for options in curious() {
        watching(cx, options)?;
        for _ in 0..TIMES {
            let exec = cx
                .tote(&["exec", "c", "sleep", "0.05"])
                .env("HOST_CANARY", "secret");
            exec.output()?.exits(0)?;
            cx.tote(&["healthcheck", "run", "c"]).output()?.exits(0)?;
        }
        check(&cx.tote(&["logs", "c"]).output()?.out())?;
        cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    }
    Ok(())
}

fn by_run(cx: &Context) -> Result<()> {
    for options in curious() {
        watching(cx, options)?;
        let script = "test -e /proc/self/root && grep -q probe /proc/1/cmdline && sleep 0.05";
        for round in 0..TIMES {
            let init: &[&str] = if round % 4 == 0 { &["--init"] } else { &[] };
            let words = [
                &["run", "--rm", "--pid", "container:c"],
                init,
                &[&cx.image(), "sh", "-c", script],
            ];
            let run = cx.tote(&words.concat()).env("HOST_CANARY", "secret");
            run.output()?.exits(0)?;
        }
        check(&cx.tote(&["logs", "c"]).output()?.out())?;
        cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    }
    Ok(())
}

fn by_oci(cx: &Context) -> Result<()> {
    let canary = cx.file("canary", "the host's")?;
    let bundle = Bundle::new(cx, &["probe", "catch", &canary])?;
    bundle.change(|spec| {
        for set in ["bounding", "effective", "permitted"] {
            spec["process"]["capabilities"][set] = json!(["CAP_SYS_PTRACE"]);
        }
    })?;
    let id = bundle.group();
    bundle.detached(&["run", "-d", &id])?.exits(0)?;
    for _ in 0..TIMES {
        let exec = bundle
            .oci(&["exec", &id, "sleep", "0.05"])
            .env("HOST_CANARY", "secret");
        exec.output()?.exits(0)?;
    }
    check(&bundle.written()?)?;
    bundle.oci(&["delete", "-f", &id]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn by_create(cx: &Context) -> Result<()> {
    let canary = cx.file("canary", "the host's")?;
    let bundle = Bundle::new(cx, &["probe", "catch", &canary])?;
    bundle.change(|spec| {
        for set in ["bounding", "effective", "permitted"] {
            spec["process"]["capabilities"][set] = json!(["CAP_SYS_PTRACE"]);
        }
    })?;
    bundle.detached(&["run", "-d", "a"])?.exits(0)?;
    bundle.joins_pids(bundle.pid("a")?)?;
    bundle.change(|spec| spec["process"]["args"] = json!(["sleep", "1000"]))?;
    for _ in 0..TIMES {
        let create =
            bundle
                .oci(&["create", "b"])
                .under(&["sh", "-c", r#"exec "$@" < /dev/null > other 2>&1"#, "sh"]);
        create.env("HOST_CANARY", "secret").output()?.exits(0)?;
        bundle.oci(&["start", "b"]).output()?.exits(0)?;
        bundle.end("b")?;
    }
    check(&bundle.written()?)?;
    bundle.oci(&["delete", "-f", "a"]).output()?.exits(0)?;
    bundle.nothing_left()
}

/// Each write(2) of the command and of its container takes a tenth of a second, so the process that waits in the other's PID namespace
/// says that it does before its maker names it.
fn named(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.detached(&["run", "-d", "a"])?.exits(0)?;
    bundle.joins_pids(bundle.pid("a")?)?;
    let delay = "inject=write:delay_enter=100000";
    let script = r#"exec strace -f -qq -o /dev/null -e trace=write -e "$0" "$@" < /dev/null > other 2>&1"#;
    let file = cx.scratch().join("pid");
    let words = ["create", "--pid-file", &file.to_string_lossy(), "b"];
    // strace ends with the last of its processes.
    let traced = bundle.oci(&words).under(&["sh", "-c", script, delay]).spawn()?;
    in_time("wait for its start", || Ok(file.exists()))?;
    bundle.is("b", "created")?;
    let pid = bundle.pid("b")?;
    ensure!(
        std::fs::read_to_string(&file)?.trim() == pid.to_string(),
        "the file has another process than {pid}"
    );
    bundle.oci(&["start", "b"]).output()?.exits(0)?;
    bundle.is("b", "running")?;
    bundle.end("b")?;
    traced.finish()?;
    bundle.oci(&["delete", "-f", "a"]).output()?.exits(0)?;
    bundle.nothing_left()
}

/// Tries again until the container has done what it must: on a busy machine it comes too late at times.
fn in_time(what: &str, is_done: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = std::time::Instant::now() + crate::exchange::patience();
    while !is_done()? {
        ensure!(
            std::time::Instant::now() < deadline,
            "the container does not {what}"
        );
    }
    Ok(())
}

fn stopped(cx: &Context) -> Result<()> {
    let health = [
        "--health-cmd",
        "true",
        "--health-timeout",
        "1s",
        "--health-interval",
        "1h",
    ];
    let words = [
        &["-d", "--name", "c"],
        &health[..],
        &[&cx.image(), "probe", "stop"],
    ];
    cx.tote(&[&["run"], &words.concat()[..]].concat())
        .output()?
        .exits(0)?;
    in_time("begin", || {
        Ok(cx.tote(&["logs", "c"]).output()?.out().contains("ready"))
    })?;
    let exec = || cx.tote(&["exec", "c", "/links/0", "true"]).output();
    in_time("stop exec's process", || {
        let done = exec()?;
        let is_stopped = done.code != 127;
        if is_stopped {
            done.refuses(126, &["was stopped"])?;
        }
        Ok(is_stopped)
    })?;
    in_time("stop the health check's process", || {
        let check = cx.tote(&["healthcheck", "run", "c"]).output()?;
        let is_stopped = check.code != 0;
        if is_stopped {
            check.exits(1)?;
            let log = cx
                .tote(&["inspect", "-f", "{{json .State.Health}}", "c"])
                .output()?;
            log.has_out("exceeded timeout")?;
        }
        Ok(is_stopped)
    })?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    Ok(())
}

fn keyring(cx: &Context) -> Result<()> {
    let probe = cx.shared_rootfs().join("bin/probe");
    let probe = probe.to_string_lossy();
    let with_key = |words: &[&str]| cx.tote(words).under(&[&probe, "key"]);
    let image = cx.image();
    for options in [&["--security-opt", "seccomp=unconfined"][..], &["--privileged"]] {
        let run = [&["run", "--rm"], options, &[&image, "probe", "key"]].concat();
        with_key(&run).output()?.exits(0)?.has_out("no key")?;
        let run = [&["run", "-d", "--name", "c"], options, &[&image, "sleep", "1000"]].concat();
        with_key(&run).output()?.exits(0)?;
        let exec = with_key(&["exec", "c", "probe", "key"]).output()?;
        exec.exits(0)?.has_out("no key")?;
        cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    }
    Ok(())
}

/// The infra container's root has the host's `/usr`, and it is in the PID namespace of all members.
fn infra(cx: &Context) -> Result<()> {
    cx.tote(&["pod", "create", "--name", "p", "--share", "pid"])
        .output()?
        .exits(0)?;
    let script = "ls /proc/1/root/ && echo READ; grep -q pause /proc/1/status && echo there";
    let out = cx.run(&["--pod", "p", &cx.image(), "sh", "-c", script])?;
    ensure!(
        !out.out().contains("READ"),
        "its root is open:\n{}",
        out.transcript()
    );
    out.has_out("there")?;
    cx.tote(&["pod", "rm", "-f", "p"]).output()?.exits(0)?;
    Ok(())
}
