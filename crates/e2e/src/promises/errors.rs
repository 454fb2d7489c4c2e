//! Failures of the machine, and tote's reports on its work: `--plan` and `--timings`.

use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test(
        "errors::a_full_disk",
        &[Need::Root, Need::Program("unshare")],
        full_disk,
    ),
    test("errors::bench_becomes_the_program_beside_tote", &[], bench),
    test("errors::a_state_root_that_cannot_be_written", &[], bad_root),
    test(
        "errors::no_user_namespaces_names_the_sysctl",
        &[Need::Unprivileged, Need::Program("unshare")],
        no_userns,
    ),
    test("errors::plan_lists_operations_and_changes_nothing", &[], plan),
    test("errors::timings_explain_the_total", &[], timings),
    test("errors::version_and_help_are_no_errors", &[], version),
];

/// The state root is on a full file system of our own: first without inodes, then without blocks. The mount lives in
/// a mount namespace that goes with the shell, which also looks for leftovers.
fn full_disk(cx: &Context) -> Result<()> {
    let tote = cx.binary().to_str().context("the binary's path is not text")?;
    let image = cx.image();
    let root = cx.directory("full")?;
    let script = "mount -t tmpfs -o $1 none $2 && head -c 1000000 /dev/zero 2>/dev/null > $2/ballast
\"$3\" --root $2/root run --rm $4 echo ran; code=$?
left=$(ls -A $2/root/containers $2/root/live 2>/dev/null | grep -v :); [ -z \"$left\" ] || echo left: $left; exit $code";
    for (options, must_fail) in [("size=1m,nr_inodes=2", true), ("size=64k", false)] {
        let words = [
            "unshare", "-m", "sh", "-c", script, "sh", options, &root, tote, &image,
        ];
        let out = crate::invocation::Invocation::new(words).output()?;
        if out.code == 0 && !must_fail {
            out.prints("ran\n")?;
        } else {
            out.refuses(125, &["no space left on device"])
                .with_context(|| options.to_owned())?;
        }
    }
    Ok(())
}

fn bad_root(cx: &Context) -> Result<()> {
    let file = cx.file("file", "not a directory")?;
    for root in [file.as_str(), "/proc/no-such"] {
        let binary = cx.binary().as_os_str();
        let image = cx.image();
        let words = [
            binary,
            "--root".as_ref(),
            root.as_ref(),
            "run".as_ref(),
            image.as_ref(),
            "true".as_ref(),
        ];
        crate::invocation::Invocation::new(words)
            .output()?
            .refuses(125, &[root])?;
    }
    Ok(())
}

fn no_userns(cx: &Context) -> Result<()> {
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let as_root = ["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh"];
    let as_user = [
        "unshare",
        "--user",
        "--map-current-user",
        "--keep-caps",
        "sh",
        "-c",
        forbid,
        "sh",
    ];
    // Root of a user namespace does not need another one.
    let plain = cx.run_command(&[&cx.image(), "true"]).under(&as_root).output()?;
    plain.exits(0)?;
    let out = cx.run_command(&[&cx.image(), "true"]).under(&as_user).output()?;
    out.refuses(125, &["user namespace", "user.max_user_namespaces"])?;
    Ok(())
}

fn plan(cx: &Context) -> Result<()> {
    let missing = cx.path("missing")?;
    let volume = format!("{missing}:/vol");
    // The first command creates the state root itself.
    cx.run(&[&cx.image(), "true"])?.exits(0)?;
    let before = tree::listing(&cx.root())?;
    let out = cx.run(&[
        "--plan",
        "-v",
        &volume,
        "--hostname",
        "planned",
        &cx.image(),
        "echo",
        "ran",
    ])?;
    out.exits(0)?.quietly()?;
    let text = out.out();
    ensure!(
        text.lines().count() > 10,
        "expected many operations, one a line, saw:\n{text}"
    );
    ensure!(
        text.lines().all(|line| !line.trim().is_empty()),
        "expected no empty line, saw:\n{text}"
    );
    for word in ["planned", "/vol", "proc", "pivot", "seccomp"] {
        ensure!(
            text.to_lowercase().contains(word),
            "expected {word:?} in the plan, saw:\n{text}"
        );
    }
    ensure!(
        !text.lines().any(|line| line == "ran"),
        "the command ran:\n{text}"
    );
    ensure!(!Path::new(&missing).exists(), "{missing} was made");
    tree::unchanged(&cx.root(), &before)
}

fn timings(cx: &Context) -> Result<()> {
    let out = cx.run(&["--timings", &cx.image(), "echo", "ran"])?;
    out.prints("ran\n")?;
    let text = out.err();
    let mut total = None;
    let mut sum = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("timings: ")) {
        let (number, label) = line
            .trim()
            .split_once(' ')
            .with_context(|| format!("no label in {line:?}"))?;
        let microseconds: u64 = number.parse().with_context(|| format!("no number in {line:?}"))?;
        match label.trim() {
            "total" => total = Some(microseconds),
            _ => sum += microseconds,
        }
    }
    let total = total.with_context(|| format!("no total in:\n{text}"))?;
    ensure!(
        total > 0 && sum * 10 >= total * 9,
        "{sum} of {total} µs are explained:\n{text}"
    );
    ensure!(
        sum <= total * 11 / 10,
        "more than the total is explained: {sum} of {total} µs\n{text}"
    );
    Ok(())
}

/// The program that measures is not a part of tote, which says what it lacks, or becomes it.
fn bench(cx: &Context) -> Result<()> {
    let place = cx.directory("beside")?;
    let tote = format!("{place}/tote");
    std::fs::copy(cx.binary(), &tote).with_context(|| format!("copy tote to {tote}"))?;
    let words = [&tote, "bench", "run", "--quick", "--out", "x"];
    let lacking = crate::invocation::Invocation::new(words).output()?;
    lacking.refuses(125, &["cannot execute", "tote-bench"])?;
    let beside = format!("{place}/tote-bench");
    std::fs::write(&beside, "#!/bin/sh\necho \"$@\"; exit 3\n")?;
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o755))?;
    let out = crate::invocation::Invocation::new(words).output()?;
    out.exits(3)?.prints("run --quick --out x\n")?;
    Ok(())
}

fn version(cx: &Context) -> Result<()> {
    let out = cx.tote(&["--version"]).output()?;
    out.exits(0)?.quietly()?;
    ensure!(
        out.out().starts_with("tote "),
        "expected `tote VERSION`, saw:\n{}",
        out.transcript()
    );
    let help = cx.tote(&["run", "--help"]).output()?;
    help.exits(0)?.quietly()?.has_out("--read-only")?;
    Ok(())
}
