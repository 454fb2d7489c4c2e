//! `cp` of containers in virtual machines that are stopped, and from one container to another.

use super::life::done;
use super::vm::{QEMU, prepare_template, ready};
use crate::context::Context;
use crate::need::{Need, is_root};
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::os::unix::fs::PermissionsExt as _;

const NEEDS: &[Need] = &[QEMU, Need::GuestKernel, Need::Program("mkfs.ext4")];

pub(super) const TESTS: &[Test] = &[
    test("vm_cp::a_stopped_one_has_a_machine_for_it", NEEDS, stopped).slow(5),
    test("vm_cp::from_one_container_to_another", NEEDS, across).slow(5),
];

/// Starts a container in a machine that says `ready` and waits.
fn start(cx: &Context, name: &str, options: &[&str]) -> Result<()> {
    let run = ["run", "-d", "--name", name, "--isolation", "vm"];
    let script = "echo ready; trap 'exit 5' TERM; while :; do sleep 0.2; done";
    done(cx, &[&run[..], options, &["app", "sh", "-c", script]].concat()).map(drop)
}

/// Makes a directory `tree` with a file in it.
fn tree(cx: &Context) -> Result<String> {
    let tree = cx.directory("tree")?;
    let file = cx.file("tree/file", "kept\n")?;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o640))?;
    Ok(tree)
}

fn stopped(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    let (tree, back) = (tree(cx)?, cx.path("back")?);
    let volume = ["-v", "disk:data,size=64m:/data"];
    let create = ["create", "--name", "vm", "--isolation", "vm"];
    let script = "cat /tree/file /data/tree/file; stat -c '%a %u' /tree/file; echo ready";
    done(cx, &[&create[..], &volume, &["app", "sh", "-c", script]].concat())?;
    // What it writes and what is on its volume are those that its program will see.
    done(cx, &["cp", &tree, "vm:/"])?;
    done(cx, &["cp", &tree, "vm:/data"])?;
    cx.tote(&["start", "-a", "vm"])
        .output()?
        .prints("kept\nkept\n640 0\nready\n")?;
    done(cx, &["cp", "vm:/data/tree", &back])?;
    ensure!(std::fs::read_to_string(format!("{back}/file"))? == "kept\n");
    let archive = cx.tote(&["cp", "vm:/tree", "-"]).output()?;
    archive.exits(0)?;
    cx.tote(&["cp", "-", "vm:/data"])
        .input(&archive.stdout)
        .output()?
        .exits(0)?;
    cx.tote(&["cp", "vm:/absent", &back])
        .output()?
        .refuses(1, &["Could not find the file /absent in container vm"])?;
    cx.tote(&["diff", "vm"])
        .output()?
        .prints("A /tree\nA /tree/file\n")?;
    done(cx, &["rm", "vm"])?;
    done(
        cx,
        &[
            "create",
            "--read-only",
            "--name",
            "vm",
            "--isolation",
            "vm",
            "app",
            "true",
        ],
    )?;
    cx.tote(&["cp", &tree, "vm:/"])
        .output()?
        .refuses(1, &["container rootfs is marked read-only"])?;
    done(cx, &["cp", "vm:/own", &back])?;
    ensure!(std::fs::read_to_string(format!("{back}/own"))? == "app");
    done(cx, &["rm", "vm"])?;
    done(cx, &["volume", "rm", "data"])?;
    cx.nothing_left()
}

fn across(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    let tree = tree(cx)?;
    start(cx, "vm", &[])?;
    ready(cx, "ready")?;
    done(cx, &["create", "--name", "here", "app", "true"])?;
    done(
        cx,
        &["create", "--name", "still", "--isolation", "vm", "app", "true"],
    )?;
    done(cx, &["cp", &tree, "here:/one"])?;
    // From this machine's kernel to the guest's, to that of another one, back, and within one.
    for (from, to) in [
        ("here:/one", "vm:/two"),
        ("vm:/two/.", "still:/three"),
        ("still:/three", "still:/again"),
        ("still:/again", "here:/four"),
        ("vm:/two", "vm:/five"),
    ] {
        done(cx, &["cp", "-a", from, to])?;
    }
    let back = cx.path("back")?;
    done(cx, &["cp", "here:/four", &back])?;
    ensure!(std::fs::read_to_string(format!("{back}/file"))? == "kept\n");
    let seen = done(
        cx,
        &[
            "exec",
            "vm",
            "sh",
            "-c",
            "cat /five/file; stat -c '%a %u' /five/file",
        ],
    )?;
    // A user is root of its containers; root's -a keeps owners, and this is root's file.
    ensure!(seen == "kept\n640 0", "{seen} (root: {})", is_root());
    for (from, to, reason) in [
        (
            "vm:/absent",
            "here:/x",
            "Could not find the file /absent in container vm",
        ),
        (
            "here:/absent",
            "vm:/x",
            "Could not find the file /absent in container here",
        ),
        (
            "here:/one",
            "vm:/absent/below",
            "Could not find the file /absent in container vm",
        ),
        (
            "vm:/absent",
            "still:/x",
            "Could not find the file /absent in container vm",
        ),
        (
            "vm:/two",
            "still:/own",
            "cannot copy directory: still:/own is a file",
        ),
    ] {
        cx.tote(&["cp", from, to]).output()?.refuses(1, &[reason])?;
    }
    done(cx, &["rm", "-f", "-t", "0", "vm", "here", "still"])?;
    cx.nothing_left()
}
