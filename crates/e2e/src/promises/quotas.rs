//! `--disk-size` of a snapshot: a limit of btrfs quotas, which a test enables on a file system of its own.

use super::disks::on_btrfs;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;

const NEEDS: &[Need] = &[Need::Root, Need::Program("mkfs.btrfs"), Need::Program("btrfs")];

pub(super) const TESTS: &[Test] = &[
    test("quotas::a_snapshot_has_a_size", NEEDS, |cx| on_btrfs(cx, size)),
    test("quotas::others_have_room_at_the_limit", NEEDS, |cx| {
        on_btrfs(cx, others)
    }),
    test("quotas::nothing_is_known_of_what_is_removed", NEEDS, |cx| {
        on_btrfs(cx, gone)
    }),
    test("quotas::inconsistent_ones_limit_nothing", NEEDS, |cx| {
        on_btrfs(cx, inconsistent)
    }),
    test("quotas::where_they_are_off_the_remedy_is_named", NEEDS, |cx| {
        on_btrfs(cx, off)
    }),
];

/// Script that fills its disk, then makes room and goes on.
const FILL: &str =
    "cd /home && dd if=/dev/zero of=big bs=1M count=40; rm big && echo goes on > small && cat small";

const SIZED: [&str; 4] = ["--driver", "btrfs", "--disk-size", "20m"];

fn btrfs(cx: &Context, words: &[&str]) -> Result<Output> {
    let root = cx.path("at")?;
    let words = [&["btrfs"], words, &[&*root]].concat();
    let output = cx.among_mounts(Invocation::new(words)).output()?;
    output.exits(0)?;
    Ok(output)
}

fn enable(cx: &Context) -> Result<()> {
    btrfs(cx, &["quota", "enable"])?;
    btrfs(cx, &["quota", "rescan", "-w"]).map(drop)
}

/// Starts a container that is kept, and waits for its end.
fn kept(cx: &Context, name: &str, script: &str) -> Result<Output> {
    let image = cx.image();
    let words = [
        &["run", "--name", name][..],
        &SIZED,
        &[&image, "sh", "-c", script],
    ]
    .concat();
    cx.tote(&words).output()
}

fn size(cx: &Context) -> Result<()> {
    enable(cx)?;
    let image = cx.image();
    let plan = cx.tote(&[&["run", "--plan"], &SIZED[..], &[&image, "true"]].concat());
    plan.output()?
        .exits(0)?
        .has_out("/tree to 20971520 bytes of its own\n")?;
    cx.tote(&["info"])
        .output()?
        .exits(0)?
        .has_out("btrfs: yes, with --disk-size")?;
    let full = |output: &Output| -> Result<()> {
        output
            .exits(0)?
            .has_out("goes on\n")?
            .has_err("quota exceeded")
            .map(drop)
    };
    full(&cx.shell(&SIZED, FILL)?)?;
    full(&kept(cx, "one", FILL)?)?;
    // The next start has the same limit, also after a loss of the quotas' records.
    full(&cx.tote(&["start", "-a", "one"]).output()?)?;
    btrfs(cx, &["quota", "disable"])?;
    let refused = cx.tote(&["start", "-a", "one"]).output()?;
    refused.fails()?.has_err("btrfs quota enable")?;
    enable(cx)?;
    full(&cx.tote(&["start", "-a", "one"]).output()?)?;
    // A copy out of a stopped container does not need a limit.
    btrfs(cx, &["quota", "disable"])?;
    cx.tote(&["cp", "one:/home/small", "-"])
        .output()?
        .exits(0)?
        .has_out("goes on\n")?;
    enable(cx)?;
    cx.tote(&["commit", "one", "committed"]).output()?.exits(0)?;
    cx.run(&["--driver", "btrfs", "committed", "cat", "/home/small"])?
        .prints("goes on\n")?;
    cx.tote(&["rm", "one"]).output()?.exits(0).map(drop)
}

fn others(cx: &Context) -> Result<()> {
    enable(cx)?;
    let image = cx.image();
    let script = "dd if=/dev/zero of=/home/big bs=1M count=40; echo full; cat";
    let words = [&["-i"][..], &SIZED, &[&image, "sh", "-c", script]].concat();
    let mut full = cx.run_command(&words).spawn()?;
    full.expect("full")?;
    let writes = "dd if=/dev/zero of=/home/big bs=1M count=15 && wc -c < /home/big";
    for options in [&SIZED[..], &["--driver", "btrfs"]] {
        cx.shell(options, writes)?.has_out("15728640\n")?.exits(0)?;
    }
    fs::write(cx.root().join("written"), vec![1; 30 << 20])?;
    full.close_input();
    full.finish()?.exits(0)?.has_err("quota exceeded").map(drop)
}

/// Lists the ids of the subvolumes that the quotas know.
fn known(cx: &Context) -> Result<Vec<String>> {
    let shown = btrfs(cx, &["qgroup", "show"])?.out();
    let ids = shown
        .lines()
        .filter_map(|line| line.strip_prefix("0/")?.split(' ').next());
    Ok(ids.map(ToOwned::to_owned).collect())
}

/// Waits until the kernel has freed the space of all removed subvolumes.
fn dropped(cx: &Context) -> Result<()> {
    btrfs(cx, &["filesystem", "sync"])?;
    btrfs(cx, &["subvolume", "sync"]).map(drop)
}

fn gone(cx: &Context) -> Result<()> {
    enable(cx)?;
    // The image's template stays.
    cx.shell(&["--driver", "btrfs"], "true")?.exits(0)?;
    dropped(cx)?;
    cx.shell(&["--driver", "btrfs"], "true")?.exits(0)?;
    let first = known(cx)?;
    for name in ["one", "two"] {
        kept(cx, name, "echo x > /home/x")?.exits(0)?;
    }
    let with_two = known(cx)?;
    let new = |known: &[String]| {
        known
            .iter()
            .filter(|id| !first.contains(id))
            .cloned()
            .collect::<Vec<_>>()
    };
    let of_two = new(&with_two);
    ensure!(of_two.len() == 2, "of two containers: {of_two:?} of {with_two:?}");
    cx.tote(&["rm", "one", "two"]).output()?.exits(0)?;
    // Notes of a command that was killed before it removed anything, and of an unknown subvolume.
    let noted = cx.root().join("containers/.subvolumes-gone");
    let (of_template, of_nobody) = (first.get(1).context("of a template")?, "99999");
    for id in [of_template, of_nobody] {
        fs::write(noted.join(id), "")?;
    }
    // The kernel frees the space some time later; remaining entries go with the next removal.
    dropped(cx)?;
    cx.shell(&SIZED, "true")?.exits(0)?;
    let left = known(cx)?;
    ensure!(
        !left.iter().any(|id| of_two.contains(id)),
        "{of_two:?} of removed containers are known: {left:?}"
    );
    ensure!(
        left.contains(of_template),
        "what is there was forgotten: {left:?}"
    );
    for id in of_two.iter().map(String::as_str).chain([of_nobody]) {
        ensure!(!noted.join(id).exists(), "{id} is still noted");
    }
    Ok(())
}

/// A limit needs consistent counts.
fn inconsistent(cx: &Context) -> Result<()> {
    enable(cx)?;
    kept(cx, "one", "echo x > /home/x")?.exits(0)?;
    btrfs(cx, &["filesystem", "sync"])?;
    let known = known(cx)?;
    let last = format!("0/{}", known.last().context("of a container")?);
    btrfs(cx, &["qgroup", "create", "1/1"])?;
    // Only a rescan finds the sums of shared data, and the program reports that by its exit code.
    let words = [
        "btrfs",
        "qgroup",
        "assign",
        "--no-rescan",
        &last,
        "1/1",
        &cx.path("at")?,
    ];
    cx.among_mounts(Invocation::new(words)).output()?;
    cx.shell(&SIZED, "true")?
        .refuses(125, &["--disk-size", "inconsistent", "btrfs quota rescan -w"])?;
    // An existing container starts: its limit is unchanged.
    cx.tote(&["start", "-a", "one"]).output()?.exits(0)?;
    btrfs(cx, &["quota", "rescan", "-w"])?;
    cx.shell(&SIZED, "true")?.exits(0)?;
    cx.tote(&["rm", "one"]).output()?.exits(0).map(drop)
}

fn off(cx: &Context) -> Result<()> {
    let refused = cx.shell(&SIZED, "true")?;
    refused.refuses(
        125,
        &["--disk-size", "quotas", "btrfs quota enable", "--driver loop"],
    )?;
    ensure!(cx.containers()?.is_empty(), "left: {:?}", cx.containers()?);
    cx.tote(&["info"])
        .output()?
        .exits(0)?
        .has_out("btrfs: yes, without --disk-size")?;
    // By default root's containers with a size get a disk, also on btrfs.
    let image = cx.image();
    let words = ["create", "--name", "later", "--disk-size", "20m", &image, "true"];
    cx.tote(&words).output()?.exits(0)?;
    let said = cx
        .tote(&["inspect", "--format", "{{.Driver}}", "later"])
        .output()?;
    said.prints("loop\n")?;
    cx.tote(&["rm", "later"]).output()?.exits(0).map(drop)
}
