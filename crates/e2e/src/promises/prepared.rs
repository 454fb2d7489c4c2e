//! Prepared images: split knows the writes of a traced command, and packages become a base image.

use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test(
        "prepared::split_knows_what_was_traced",
        &[Need::Program("tar")],
        traced,
    ),
    test(
        "prepared::a_trace_that_cannot_be_kept_says_why",
        &[Need::Program("tar")],
        not_kept,
    ),
    test(
        "prepared::packages_become_a_base_image",
        &[Need::ManyIds, Need::Program("mmdebstrap"), Need::PackageMirror],
        bootstrap,
    )
    .slow(4),
    test(
        "prepared::a_bootstrap_is_checked_first",
        &[Need::Program("mmdebstrap")],
        checked,
    ),
];

fn image(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("image")?;
    fs::create_dir_all(dir.join("opt/app/data"))?;
    fs::write(dir.join("opt/app/data/file"), "old\n")?;
    let (archive, from) = (cx.path("image.tar")?, cx.path("image")?);
    let words = ["tar", "--owner=0", "--group=0", "-C", &from, "-cf", &archive, "."];
    Invocation::new(words).output()?.exits(0)?;
    cx.tote(&["import", &archive, "base:1"]).output()?.exits(0)?;
    Ok(())
}

const WRITES: &str = "echo new >> /opt/app/data/file && mkdir -p /var/lib/made/deep && touch /var/lib/made/deep/x && \
mkdir -p /fresh && touch /fresh/y && cat /opt/app/data/file";

fn traced(cx: &Context) -> Result<()> {
    image(cx)?;
    let split = |script: &str| cx.run(&["--driver", "split", "base:1", "sh", "-c", script]);
    split(WRITES)?.fails()?.has_err("read-only file system")?;
    cx.tote(&["image", "trace", "base:1", "-e", "A=b", "--", "sh", "-c", WRITES])
        .output()?
        .prints(
            "old\nnew\n/fresh\n    A /fresh\n    A /fresh/y\n/opt/app/data\n    C /opt/app/data/file\n/var\n    A /var/lib\n    \
             A /var/lib/made\n    A /var/lib/made/deep\n    A /var/lib/made/deep/x\n",
        )?;
    ensure!(cx.containers()?.is_empty(), "the traced container is still there");
    split(WRITES)?.prints("old\nnew\n")?;
    split("echo x > /etc/other")?
        .fails()?
        .has_err("read-only file system")?;
    Ok(())
}

fn not_kept(cx: &Context) -> Result<()> {
    image(cx)?;
    let trace = |script: &str| {
        cx.tote(&["image", "trace", "base:1", "--", "sh", "-c", script])
            .output()
    };
    trace("echo x > /opt/app/new; exit 3")?.refuses(3, &["nothing is noted"])?;
    trace("echo x > /at-the-root")?
        .fails()?
        .has_err("A /at-the-root")?;
    cx.run(&["--driver", "split", "base:1", "sh", "-c", "echo x > /opt/app/new"])?
        .fails()?
        .has_err("read-only file system")?;
    ensure!(cx.containers()?.is_empty(), "a traced container is still there");
    Ok(())
}

fn bootstrap(cx: &Context) -> Result<()> {
    // The packages are only unpacked, which takes seconds on an idle machine: mmdebstrap's own tests cover their
    // configuration.
    cx.tote(&[
        "image",
        "bootstrap",
        "--variant",
        "extract",
        "--packages",
        "base-files",
        "-t",
        "made:1",
        "debian:bookworm",
    ])
    .output()?
    .exits(0)?
    .has_err("success")?;
    cx.run(&["made:1", "no-such"])?.refuses(127, &["no-such"])?;
    let listed = cx.tote(&["image", "history", "--no-trunc", "made:1"]).output()?;
    listed.exits(0)?.has_out("--include=base-files bookworm")?;
    Ok(())
}

fn checked(cx: &Context) -> Result<()> {
    for what in ["debian", "debian:", ":bookworm"] {
        cx.tote(&["image", "bootstrap", "--", what])
            .output()?
            .refuses(1, &[what])?;
    }
    Ok(())
}
