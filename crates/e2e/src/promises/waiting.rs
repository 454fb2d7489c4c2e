//! A process that waits to become its program has the rights of that program, and no more.

use super::pool::{done, fill, keepers, taking};
use crate::bundle::Bundle;
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need::{Program, Root};
use crate::need::is_root;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::time::Instant;

pub(super) const TESTS: &[Test] = &[
    test("waiting::what_is_created_has_its_programs_rights", &[], created),
    test(
        "waiting::a_filter_that_forbids_the_wait_is_all_that_is_missing",
        &[],
        filtered,
    ),
    test(
        "waiting::exec_gains_nothing_by_what_is_created",
        &[Root, Program("gcc")],
        traced,
    ),
    test(
        "waiting::a_neighbour_gains_nothing_by_what_is_created",
        &[Root, Program("gcc")],
        neighbour,
    ),
    test(
        "waiting::no_command_finds_a_container_before_its_program_executes",
        &[Root, Program("gcc"), Program("strace")],
        held_up,
    )
    .slow(2)
    .waits(),
    test(
        "waiting::exec_gains_nothing_by_what_begins",
        &[Program("gcc")],
        begins,
    )
    .slow(3),
    test("waiting::an_init_has_its_programs_rights", &[], init),
    test("waiting::a_parked_sandbox_has_its_containers_rights", &[], parked),
    test("waiting::a_parked_sandbox_becomes_any_user", &[], users),
];

/// Lines of `/proc/PID/status` that say what a process may do.
const RIGHTS: [&str; 10] = [
    "Uid",
    "Gid",
    "Groups",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
];

/// Reads a line of `/proc/PID/status`.
fn right(pid: i32, name: &str) -> Result<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.context("no such line")?.trim().to_owned())
}

fn rights(pid: i32) -> Result<Vec<String>> {
    RIGHTS
        .iter()
        .map(|name| Ok(format!("{name} {}", right(pid, name)?)))
        .collect()
}

/// Reads a set of capabilities.
fn set(pid: i32, name: &str) -> Result<u64> {
    u64::from_str_radix(&right(pid, name)?, 16).context("no set")
}

/// Gives the bundle's process these capabilities.
fn give(spec: &mut Value, capabilities: &[&str]) {
    for set in ["bounding", "effective", "permitted"] {
        spec["process"]["capabilities"][set] = json!(capabilities);
    }
}

/// Filter that denies these calls.
fn denying(calls: &[&str]) -> Value {
    json!({"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": calls, "action": "SCMP_ACT_ERRNO"}]})
}

/// Creates a container of the bundle, starts it, and returns its rights before and after.
fn both(bundle: &Bundle<'_>) -> Result<[Vec<String>; 2]> {
    bundle.detached(&["create", "c"])?.exits(0)?;
    bundle.is("c", "created")?;
    let pid = bundle.pid("c")?;
    let before = rights(pid)?;
    if is_root() {
        let open: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))?
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .filter(|to| !to.starts_with(bundle.rootfs().with_file_name("")) && !to.starts_with("/dev/null"))
            .collect();
        let sockets = open.iter().all(|to| to.to_string_lossy().starts_with("socket:"));
        ensure!(
            sockets && open.len() <= 2,
            "it has descriptors of its maker: {open:?}"
        );
    }
    bundle.oci(&["start", "c"]).output()?.exits(0)?;
    let after = rights(bundle.pid("c")?)?;
    bundle.oci(&["delete", "-f", "c"]).output()?.exits(0)?;
    Ok([before, after])
}

fn created(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    for no_new_privs in [true, false] {
        for filter in [None, Some(denying(&["mount", "keyctl"]))] {
            for capabilities in [&["CAP_KILL"][..], &[]] {
                bundle.change(|spec| {
                    spec["process"]["noNewPrivileges"] = json!(no_new_privs);
                    spec["linux"]["seccomp"] = json!(filter);
                    give(spec, capabilities);
                })?;
                let [before, after] = both(&bundle)?;
                ensure!(before == after, "before start {before:?}, after it {after:?}");
            }
        }
    }
    bundle.nothing_left()
}

fn filtered(cx: &Context) -> Result<()> {
    /// CAP_SYS_ADMIN, without which no filter could be loaded after the wait.
    const ADMIN: u64 = 1 << 21;
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    for no_new_privs in [true, false] {
        bundle.change(|spec| {
            spec["process"]["noNewPrivileges"] = json!(no_new_privs);
            spec["linux"]["seccomp"] = denying(&["accept4", "mount"]);
            give(spec, &["CAP_KILL"]);
        })?;
        bundle.detached(&["create", "c"])?.exits(0)?;
        let pid = bundle.pid("c")?;
        let (held, bound) = (set(pid, "CapPrm")?, set(pid, "CapBnd")?);
        let extra = if no_new_privs { 0 } else { ADMIN };
        ensure!(
            held == bound | extra,
            "it holds {held:x} with a bound of {bound:x}"
        );
        let filter = if no_new_privs { "0" } else { "2" };
        ensure!(
            right(pid, "Seccomp")? == filter,
            "its filter is {}",
            right(pid, "Seccomp")?
        );
        bundle.oci(&["start", "c"]).output()?.exits(0)?;
        let (held, seccomp) = (set(pid, "CapPrm")?, right(pid, "Seccomp")?);
        ensure!(
            held == bound && seccomp == "2",
            "the program has {held:x}, and filter {seccomp}"
        );
        bundle.oci(&["delete", "-f", "c"]).output()?.exits(0)?;
    }
    bundle.nothing_left()
}

/// Checks what `tracer` has printed: it may trace, and that is worth nothing.
fn is_worthless(seen: &str) -> Result<()> {
    ensure!(
        !seen.contains("WON"),
        "it has become root of the machine:\n{seen}"
    );
    ensure!(
        seen.contains("CapPrm:") && !seen.contains("000001ff"),
        "it saw:\n{seen}"
    );
    Ok(())
}

fn traced(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.change(|spec| give(spec, &["CAP_SYS_PTRACE"]))?;
    bundle.detached(&["create", "c"])?.exits(0)?;
    let seen = bundle.oci(&["exec", "c", "tracer", "1"]).output()?;
    is_worthless(&seen.exits(0)?.out())?;
    bundle.oci(&["start", "c"]).output()?.exits(0)?;
    bundle.is("c", "running")?;
    bundle.oci(&["delete", "-f", "c"]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn neighbour(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.change(|spec| give(spec, &["CAP_SYS_PTRACE"]))?;
    bundle.detached(&["run", "-d", "a"])?.exits(0)?;
    let a = bundle.pid("a")?;
    bundle.joins_pids(a)?;
    bundle.detached(&["create", "b"])?.exits(0)?;
    bundle.is("b", "created")?;
    let b = bundle.pid("b")?;
    let inside = right(b, "NSpid")?;
    let inside = inside.split_whitespace().last().context("no number")?;
    let seen = bundle.oci(&["exec", "a", "tracer", inside]).output()?;
    is_worthless(&seen.exits(0)?.out())?;
    bundle.oci(&["start", "b"]).output()?.exits(0)?;
    bundle.is("b", "running")?;
    ensure!(bundle.pid("b")? == b, "it is another process now");
    bundle
        .oci(&["exec", "b", "sh", "-c", "test -e /proc/1/status"])
        .output()?
        .exits(0)?;
    bundle.end("b")?;
    bundle.oci(&["delete", "-f", "a"]).output()?.exits(0)?;
    bundle.nothing_left()
}

/// Executes a program in the container `c` as soon as a command finds that. Returns its output, and how often no command found it.
fn as_soon_as_found(cx: &Context, words: &[&str]) -> Result<(String, u32)> {
    let (deadline, mut missed) = (Instant::now() + patience(), 0);
    loop {
        let exec = cx.tote(&[&["exec", "c"], words].concat()).output()?;
        if exec.code == 0 {
            return Ok((exec.out(), missed));
        }
        ensure!(
            Instant::now() < deadline,
            "no command finds it: {}",
            exec.transcript()
        );
        missed += 1;
    }
}

/// Each execve(2) of the command and of its container takes a second.
fn held_up(cx: &Context) -> Result<()> {
    let trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=execve"];
    let delayed = [&trace[..], &["-e", "inject=execve:delay_enter=1000000"]].concat();
    for init in [&[][..], &["--init"]] {
        let words = [
            &["run", "--rm", "--name", "c", "--network", "none"],
            init,
            &[&cx.image(), "sleep", "1000"],
        ];
        let running = cx.tote(&words.concat()).under(&delayed).spawn()?;
        let (status, missed) = as_soon_as_found(cx, &["cat", "/proc/1/status"])?;
        let name = status.lines().next().unwrap_or_default();
        let begun = ["sleep", "tote-init"].iter().any(|known| name.ends_with(known));
        ensure!(
            begun && missed > 0,
            "after {missed} misses a command has found {name:?}"
        );
        ensure!(
            !status.contains("CapPrm:\t000001ff"),
            "with the rights of its maker:\n{status}"
        );
        cx.tote(&["kill", "c"]).output()?.exits(0)?;
        running.finish()?;
    }
    cx.nothing_left()
}

fn begins(cx: &Context) -> Result<()> {
    for _ in 0..40 {
        let words = [
            "run",
            "--rm",
            "--name",
            "c",
            "--network",
            "none",
            "--cap-add",
            "SYS_PTRACE",
        ];
        let running = cx
            .tote(&[&words[..], &[&cx.image(), "sleep", "1000"]].concat())
            .spawn()?;
        let (seen, _) = as_soon_as_found(cx, &["tracer", "1"])?;
        is_worthless(&seen)?;
        cx.tote(&["kill", "c"]).output()?.exits(0)?;
        running.finish()?;
    }
    cx.nothing_left()
}

/// Each of the first program's looks at PID 1 sees the container's rights, also the first one.
fn init(cx: &Context) -> Result<()> {
    let script = "grep -E '^(Cap|Seccomp|NoNew|Name)' /proc/1/status; grep -E '^(Cap|Seccomp|NoNew)' /proc/self/status";
    for options in [
        &["--security-opt", "no-new-privileges"][..],
        &["--user", "1000"],
        &[],
    ] {
        let image = cx.image();
        let words = [&["--init"], options, &[&image, "sh", "-c", script]].concat();
        let out = cx.run(&words)?;
        let text = out.exits(0)?.out();
        let (name, rest) = text.split_once('\n').context("nothing")?;
        ensure!(name.ends_with("tote-init"), "PID 1 is {name}");
        let lines: Vec<_> = rest.lines().collect();
        let (first, own) = lines.split_at(lines.len() / 2);
        ensure!(
            first == own && !own.is_empty(),
            "{options:?}: PID 1 has {first:?}, the program {own:?}"
        );
    }
    Ok(())
}

/// Returns the parked process of the only keeper.
fn waits() -> Result<i32> {
    let keeper = keepers().pop().context("no keeper")?;
    let children = processes::descendants(keeper.pid)
        .into_iter()
        .filter(|process| process.ids.len() > 1);
    children
        .map(|process| process.pid)
        .next()
        .context("no sandbox waits")
}

fn parked(cx: &Context) -> Result<()> {
    done(
        cx,
        &[
            "run",
            "-d",
            "--name",
            "n",
            "--cap-add",
            "SYS_PTRACE",
            &cx.image(),
            "sleep",
            "1000",
        ],
    )?;
    for options in [&["--security-opt", "seccomp=unconfined"][..], &[]] {
        let options = [&["--pid", "container:n"], options].concat();
        fill(cx, "1", &options)?;
        let pid = waits()?;
        let (held, bound) = (set(pid, "CapPrm")?, set(pid, "CapBnd")?);
        ensure!(
            held == bound,
            "{options:?}: it holds {held:x} with a bound of {bound:x}"
        );
        let filter = if options.len() > 2 { "0" } else { "2" };
        ensure!(right(pid, "Seccomp")? == filter, "{options:?}: its filter");
        let words = [
            "-w",
            "/new/place",
            "sh",
            "-c",
            "pwd; grep -c . /proc/1/comm; grep CapEff /proc/self/status",
        ];
        let out = done_by(cx, &words)?;
        ensure!(
            out.starts_with("/new/place\n1\n"),
            "{options:?}: the program printed {out}"
        );
        ensure!(
            out.ends_with(&format!("{bound:016x}")),
            "{options:?}: the program has {out}"
        );
        done(cx, &["pool", "rm", "p"])?;
    }
    done(cx, &["rm", "-f", "n"])?;
    Ok(())
}

/// Takes the sandbox, and returns what its program has written.
fn done_by(cx: &Context, words: &[&str]) -> Result<String> {
    let output = taking(cx, words).output()?;
    output.exits(0)?;
    Ok(output.out().trim_end().to_owned())
}

fn users(cx: &Context) -> Result<()> {
    let script = "id -u; id -g; grep CapEff /proc/self/status";
    // The root of a user's container is that user on the host.
    let own = rustix::process::geteuid().to_string();
    for (options, as_root, place) in [
        (&["--user", "1000:1000"][..], true, "/new"),
        (&["--user", "1000:1000", "--cap-drop", "ALL"], false, "/tmp"),
        (&["--cap-drop", "ALL"], true, "/new"),
    ] {
        fill(cx, "1", options)?;
        let pid = waits()?;
        let ids = right(pid, "Uid")?;
        ensure!(
            ids.split_whitespace().all(|id| (id == own) == as_root),
            "{options:?}: parked as {ids}"
        );
        ensure!(
            set(pid, "CapPrm")? & !set(pid, "CapBnd")? == 0,
            "{options:?}: more than its bound"
        );
        let out = done_by(cx, &["-w", place, "sh", "-c", script])?;
        let user = if options.contains(&"--user") { "1000" } else { "0" };
        ensure!(
            out.starts_with(&format!("{user}\n{user}\n")),
            "{options:?}: {out}"
        );
        done(cx, &["pool", "rm", "p"])?;
    }
    Ok(())
}
