//! Locks of a container: none of tote's is on a file that a container can open.

use super::build::{build, nothing_left, write};
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::time::Instant;

pub(super) const TESTS: &[Test] = &[
    test(
        "locks::a_container_that_holds_all_it_can_open_holds_no_command",
        &[],
        all,
    ),
    test(
        "locks::a_step_that_holds_its_cache_holds_no_build",
        &[Need::ManyIds],
        cache,
    ),
];

/// Commands that read or change the container `holder` while it runs.
const WHILE_IT_RUNS: &[&[&str]] = &[
    &["ps"],
    &["inspect", "holder"],
    &["diff", "holder"],
    &["commit", "holder", "one"],
    &["commit", "holder", "two"],
    &["cp", "holder:/etc/hosts", "taken"],
    &["cp", "taken", "holder:/brought"],
    &["exec", "holder", "true"],
    &["rename", "holder", "other"],
    &["rename", "other", "holder"],
    &["run", "--rm", "-v", "data:/data", "IMAGE", "true"],
    &["volume", "ls"],
    &["volume", "prune", "-af"],
    &["image", "prune", "-f"],
];

/// A container locks each file and directory that it can open; each command ends, and soon.
fn all(cx: &Context) -> Result<()> {
    let bound = cx.directory("bound")?;
    let bound = format!("{bound}:/bound");
    let image = cx.image();
    let words = [
        "run",
        "-d",
        "--name",
        "holder",
        "-v",
        "data:/data",
        "-v",
        &bound,
        "--tmpfs",
        "/memory",
        &image,
        "probe",
        "hold",
    ];
    let holds = |times: usize| -> Result<()> {
        let begun = Instant::now();
        while cx
            .tote(&["logs", "holder"])
            .output()?
            .out()
            .matches("holds ")
            .count()
            < times
        {
            ensure!(begun.elapsed() < patience(), "the container holds nothing");
        }
        Ok(())
    };
    cx.tote(&words).output()?.exits(0)?;
    holds(1)?;
    let soon = |words: &[&str]| -> Result<()> {
        let words: Vec<&str> = words
            .iter()
            .map(|word| if *word == "IMAGE" { &*image } else { word })
            .collect();
        let begun = Instant::now();
        cx.tote(&words).within(cx.scratch()).output()?.exits(0)?;
        ensure!(
            begun.elapsed() < patience() / 2,
            "{words:?} took {:?}",
            begun.elapsed()
        );
        Ok(())
    };
    for words in WHILE_IT_RUNS {
        soon(words)?;
    }
    let state = cx
        .tote(&["inspect", "-f", "{{.State.Status}}", "holder"])
        .output()?;
    state.prints("running\n")?;
    soon(&["restart", "-t", "0", "holder"])?;
    holds(2)?;
    for words in [
        &["stop", "-t", "0", "holder"][..],
        &["rm", "-v", "holder"],
        &["volume", "rm", "data"],
    ] {
        soon(words)?;
    }
    for image in ["one", "two"] {
        cx.tote(&["rmi", image]).output()?.exits(0)?;
    }
    cx.nothing_left()
}

/// While a step has a lock on its cache's directory, another build's step of the same cache takes its turn.
fn cache(cx: &Context) -> Result<()> {
    let shared = cx.directory("shared")?;
    let volume = format!("{shared}:/shared");
    write(cx, "x", "")?;
    fs::copy(
        cx.shared_rootfs().join("bin/probe"),
        cx.scratch().join("context/probe"),
    )?;
    let run = |script: &str| {
        format!("COPY probe /bin/\nRUN --mount=type=cache,id=l,target=/c,sharing=shared {script}\n")
    };
    // A lock that tote had on that directory would not let the step have its own.
    let alone = "echo mine > /c/file && test \"$(probe lock /c)\" = locked";
    build(cx, &[], &run(alone))?.exits(0)?;
    let holds = "probe hold > /shared/begun & while [ ! -e /shared/go ]; do sleep 0.02; done";
    write(cx, "Holder", &format!("FROM it\n{}", run(holds)))?;
    let (file, context) = (cx.path("context/Holder")?, cx.path("context")?);
    let words = ["build", "--no-cache", "-v", &volume, "-f", &file, &context];
    let holder = cx.tote(&words).spawn()?;
    let begun = Instant::now();
    while !fs::read_to_string(cx.scratch().join("shared/begun")).is_ok_and(|said| said.contains("holds")) {
        ensure!(begun.elapsed() < patience(), "the first build has not begun");
        std::thread::yield_now();
    }
    let begun = Instant::now();
    build(cx, &["--no-cache"], &run("grep mine /c/file"))?.exits(0)?;
    ensure!(
        begun.elapsed() < patience() / 2,
        "the second build took {:?}",
        begun.elapsed()
    );
    fs::write(cx.scratch().join("shared/go"), "")?;
    holder.finish()?.exits(0)?;
    cx.tote(&["rmi", "-f", "it"]).output()?.exits(0)?;
    nothing_left(cx)
}
