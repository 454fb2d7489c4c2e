//! Lost parts of the store are restored: from the registry, or from the remaining parts.

use super::on_disk::content_of;
use super::registry::{forget, layer, publish};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use tote_testkit::FakeRegistry;

pub(super) const TESTS: &[Test] = &[
    test("recovery::what_is_lost_is_fetched_again", &[], fetched_again),
    test("recovery::what_cannot_be_fetched_is_named", &[], named),
    test("recovery::a_lost_tree_is_made_again", &[], tree_again),
    test(
        "recovery::a_tree_of_many_owners_is_made_again",
        &[Need::SubIds],
        tree_of_owners,
    ),
];

fn the_tree(cx: &Context) -> Result<PathBuf> {
    let mut trees = fs::read_dir(cx.root().join("store/trees"))?;
    Ok(trees.next().context("there is a tree")??.path())
}

/// Empties a file of the image, as a power cut does.
fn damage(cx: &Context) -> Result<()> {
    let busybox = content_of(&the_tree(cx)?, "bin/busybox")?;
    let file = fs::OpenOptions::new().write(true).open(busybox)?;
    file.set_len(0)?;
    Ok(())
}

fn fetched_again(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let blob = publish(&registry, "team/app:1", &layer(cx)?);
    let image = format!("{}/team/app:1", registry.host());
    cx.tote(&["pull", "-q", &image]).output()?.exits(0)?;
    damage(cx)?;
    let found = cx.tote(&["store", "verify"]).output()?;
    found.exits(1)?.has_out("damaged: ")?.has_err("--repair")?;
    let mended = cx.tote(&["store", "verify", "--repair"]).output()?;
    mended.exits(0)?.has_out("repaired: layer sha256:")?;
    ensure!(
        registry.count("GET", &blob) == 2,
        "the layer was not fetched again"
    );
    cx.tote(&["store", "verify", "--full"]).output()?.exits(0)?;
    cx.run(&["--pull", "never", &image])?
        .exits(0)?
        .prints("registry\n")?;
    forget(cx, &[&image])
}

fn named(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    publish(&registry, "team/app:1", &layer(cx)?);
    let image = format!("{}/team/app:1", registry.host());
    cx.tote(&["pull", "-q", &image]).output()?.exits(0)?;
    cx.tote(&["tag", &image, "mine:1"]).output()?.exits(0)?;
    damage(cx)?;
    // The registry is gone.
    drop(registry);
    let lost = cx.tote(&["store", "verify", "--repair"]).output()?;
    lost.exits(1)?.has_out("lost: layer sha256:")?.has_out("app:1")?;
    lost.has_err("1 layers are lost")?;
    forget(cx, &["mine:1", &image])
}

fn tree_again(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    publish(&registry, "team/app:1", &layer(cx)?);
    let image = format!("{}/team/app:1", registry.host());
    cx.tote(&["pull", "-q", &image]).output()?.exits(0)?;
    let tree = the_tree(cx)?;
    fs::rename(&tree, cx.path("lost")?)?;
    cx.run(&["--pull", "never", &image])?
        .exits(0)?
        .prints("registry\n")?;
    ensure!(
        content_of(&tree, "bin/busybox")?.exists(),
        "the tree is not there again"
    );
    fs::remove_dir_all(cx.path("lost")?)?;
    forget(cx, &[&image])
}

/// Another boot has written the tree, and this user may not even search all of it.
fn tree_of_owners(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("owners")?;
    let archive = cx.path("owners.tar")?;
    let closed = dir.join("closed");
    fs::create_dir(&closed)?;
    fs::write(closed.join("file"), "inside\n")?;
    fs::File::open(&closed)?.set_permissions(fs::Permissions::from_mode(0o700))?;
    let words = [
        "--owner=7",
        "--group=42",
        "--numeric-owner",
        "-cf",
        &archive,
        "-C",
    ];
    let made = std::process::Command::new("tar")
        .args(words)
        .arg(&dir)
        .arg(".")
        .output()?;
    ensure!(
        made.status.success(),
        "tar: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    cx.tote(&["import", &archive, "owners"]).output()?.exits(0)?;
    fs::write(the_tree(cx)?.join("lease"), "another boot")?;
    cx.run(&[
        "-u",
        "0",
        "owners",
        "sh",
        "-c",
        "stat -c '%u:%g %a' /closed && cat /closed/file",
    ])?
    .exits(0)?
    .prints("7:42 700\ninside\n")?;
    forget(cx, &["owners"])
}
