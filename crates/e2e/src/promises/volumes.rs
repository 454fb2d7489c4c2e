//! A volume begins with what the image has at its place.

use super::test;
use crate::context::Context;
use crate::need::Need;
use crate::suite::Test;
use anyhow::{Result, ensure};
use std::fs;
use std::process::Command;

pub(super) const TESTS: &[Test] = &[
    test("volumes::a_named_one_begins_with_the_images_files", &[], named),
    test(
        "volumes::an_anonymous_one_begins_with_the_images_files",
        &[],
        anonymous,
    ),
    test(
        "volumes::owners_and_modes_are_the_images",
        &[Need::ManyIds],
        owners,
    ),
    test("volumes::what_has_something_in_it_stays", &[], stays),
];

/// An image with files at `/data`.
fn image(cx: &Context, owner: &str, changes: &[&str]) -> Result<()> {
    let (dir, _) = cx.own_rootfs("data")?;
    fs::create_dir_all(dir.join("data/sub"))?;
    fs::write(dir.join("data/file"), "the image's\n")?;
    fs::write(dir.join("data/sub/below"), "below\n")?;
    let archive = cx.path("data.tar")?;
    let owner = [format!("--owner={owner}"), format!("--group={owner}")];
    let made = Command::new("tar")
        .args(owner)
        .args(["--numeric-owner", "-cf", &archive, "-C"])
        .arg(&dir)
        .arg(".")
        .output()?;
    ensure!(
        made.status.success(),
        "tar: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let mut words = vec!["import"];
    for change in changes {
        words.extend(["-c", change]);
    }
    words.extend([archive.as_str(), "data"]);
    cx.tote(&words).output()?.exits(0).map(drop)
}

const LOOK: &str = "cat /data/file /data/sub/below";

fn named(cx: &Context) -> Result<()> {
    image(cx, "0", &[])?;
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", LOOK])?
        .prints("the image's\nbelow\n")?;
    cx.run(&[
        "-v",
        "vol:/data",
        "data",
        "sh",
        "-c",
        "echo mine > /data/file; rm -r /data/sub",
    ])?
    .exits(0)?;
    // What was removed does not come back.
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", "cat /data/file; ls /data"])?
        .prints("mine\nfile\n")?;
    cx.run(&["-v", "other:/data:ro", "data", "sh", "-c", LOOK])?
        .prints("the image's\nbelow\n")?;
    cx.run(&["-v", "third:/data:nocopy", "data", "ls", "-A", "/data"])?
        .prints("")?;
    cx.run(&[
        "--mount",
        "source=fourth,target=/data,volume-nocopy",
        "data",
        "ls",
        "-A",
        "/data",
    ])?
    .prints("")?;
    cx.run(&["data", "sh", "-c", LOOK])?
        .prints("the image's\nbelow\n")?;
    Ok(())
}

fn anonymous(cx: &Context) -> Result<()> {
    image(cx, "0", &["VOLUME /data"])?;
    let script = format!("{LOOK} && echo changed > /data/file && grep -c ' /data ' /proc/self/mountinfo");
    for driver in ["overlay", "split", "copy"] {
        for _ in 0..2 {
            cx.run(&["--driver", driver, "data", "sh", "-c", &script])?
                .prints("the image's\nbelow\n1\n")?;
        }
    }
    cx.run(&["-v", "/data", "data", "sh", "-c", LOOK])?
        .prints("the image's\nbelow\n")?;
    cx.nothing_left()
}

fn owners(cx: &Context) -> Result<()> {
    image(cx, "33", &[])?;
    let script = "chmod 2751 /data";
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", script])?
        .exits(0)?;
    cx.run(&[
        "-v",
        "vol:/data",
        "data",
        "stat",
        "-c",
        "%u:%g %a",
        "/data",
        "/data/file",
    ])?
    .prints("33:33 2751\n33:33 644\n")?;
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", "rm -r /data/*"])?
        .exits(0)?;
    cx.tote(&["rmi", "-f", "data"]).output()?.exits(0).map(drop)
}

fn stays(cx: &Context) -> Result<()> {
    image(cx, "0", &[])?;
    cx.run(&[
        "-v",
        "vol:/elsewhere",
        "data",
        "sh",
        "-c",
        "echo first > /elsewhere/mine",
    ])?
    .exits(0)?;
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", "ls /data; cat /data/mine"])?
        .prints("mine\nfirst\n")?;
    // A directory of the host is no volume.
    let source = cx.directory("source")?;
    cx.run(&["-v", &format!("{source}:/data"), "data", "ls", "-A", "/data"])?
        .prints("")
        .map(drop)
}
