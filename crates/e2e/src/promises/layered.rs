//! An image of several layers that was pushed and pulled runs on every storage driver, where its
//! files behave as usual.

use super::disks::on_btrfs;
use super::drivers::{WORK, image, remove_kept, script};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;
use tote_testkit::{FakeRegistry, digest, manifest};

/// Makes a row for each driver.
macro_rules! promises {
    ($($driver:literal: $($need:expr),*;)*) => {
        &[$(
            test(concat!("layered::", $driver, "::a_pulled_image_behaves"), &[Need::Program("gcc"), $($need),*], |cx| behaves(cx, $driver)),
        )*]
    };
}

pub(super) const ON_BTRFS: &[Test] = &[test(
    "layered::btrfs::a_pulled_image_behaves",
    &[Need::Program("gcc"), Need::Root, Need::Program("mkfs.btrfs")],
    |cx| on_btrfs(cx, |cx| behaves(cx, "btrfs")),
)];

pub(super) const TESTS: &[Test] = each_driver!(promises);

const TAR: &str = "application/vnd.oci.image.layer.v1.tar";

fn pack(dir: &Path) -> Result<Vec<u8>> {
    let tar = Command::new("tar")
        .args([
            "--format=pax",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--xattrs",
            "-cC",
        ])
        .arg(dir)
        .arg(".")
        .output()
        .context("run tar")?;
    let said = String::from_utf8_lossy(&tar.stderr);
    ensure!(tar.status.success(), "tar: {said}");
    Ok(tar.stdout)
}

/// Makes the image of the drivers' tests in three layers: the first has wrong and superfluous entries, the others
/// correct them.
fn layers(cx: &Context) -> Result<[Vec<u8>; 3]> {
    let (dir, _) = image(cx)?;
    let work = dir.join(WORK);
    let upper = |name: &str| -> Result<std::path::PathBuf> {
        let place = Path::new(&cx.directory(name)?).join(WORK);
        fs::create_dir_all(&place)?;
        Ok(place)
    };
    let (second, third) = (upper("second")?, upper("third")?);
    // A file that an upper layer changes, one that it removes, and a directory that it replaces.
    fs::rename(work.join("script"), second.join("script"))?;
    fs::write(work.join("script"), "#!/bin/sh\necho of the first layer\n")?;
    fs::write(work.join("unwanted"), "of the first layer\n")?;
    fs::write(second.join(".wh.unwanted"), "")?;
    fs::create_dir(work.join("replaced"))?;
    fs::write(work.join("replaced/old"), "of the first layer\n")?;
    fs::create_dir(third.join("replaced"))?;
    fs::write(third.join("replaced/.wh..wh..opq"), "")?;
    fs::write(third.join("replaced/new"), "of the third layer\n")?;
    let top = |name| Ok::<_, anyhow::Error>(Path::new(&cx.path(name)?).to_owned());
    Ok([pack(&dir)?, pack(&top("second")?)?, pack(&top("third")?)?])
}

fn publish(registry: &FakeRegistry, layers: &[Vec<u8>]) {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let diff_ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
    let config = serde_json::json!({
        "os": "linux",
        "architecture": architecture,
        "config": { "Env": ["PATH=/bin"], "Cmd": ["sh"] },
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    })
    .to_string();
    registry.blob("team/layered", config.as_bytes());
    let blobs: Vec<(&str, &[u8])> = layers.iter().map(|layer| (TAR, layer.as_slice())).collect();
    registry.manifest("team/layered", "1", &manifest(config.as_bytes(), &blobs));
    for layer in layers {
        registry.blob("team/layered", layer);
    }
}

fn behaves(cx: &Context, driver: &str) -> Result<()> {
    let (from, to) = (FakeRegistry::start(), FakeRegistry::start());
    publish(&from, &layers(cx)?);
    let (first, image) = (
        format!("{}/team/layered:1", from.host()),
        format!("{}/mirror/layered:2", to.host()),
    );
    for words in [
        &["pull", "-q", &first][..],
        &["tag", &first, &image],
        &["push", "-q", &image],
        &["rmi", "-f", &first, &image],
        &["image", "prune", "-f"],
        &["pull", "-q", &image],
    ] {
        cx.tote(words).output()?.exits(0)?;
    }
    let look = format!("cd /{WORK} && ls -A replaced && cat replaced/new && ./script && test ! -e unwanted");
    cx.run(&["--driver", driver, &image, "sh", "-c", &look])?
        .prints("new\nof the third layer\noriginal\n")?;
    for rm in [true, false] {
        let mut words = vec!["run", "-i", "--driver", driver];
        words.extend(rm.then_some("--rm"));
        words.extend([image.as_str(), "sh"]);
        cx.tote(&words)
            .input(script().as_bytes())
            .output()?
            .prints("all\n")?;
        // No change is visible for other containers.
        cx.tote(&["store", "verify", "--full"]).output()?.exits(0)?;
        cx.run(&["--driver", driver, &image, "sh", "-c", &look])?
            .prints("new\nof the third layer\noriginal\n")?;
    }
    remove_kept(cx)?;
    cx.tote(&["rmi", "-f", &image]).output()?.exits(0)?;
    cx.tote(&["image", "prune", "-f"]).output()?.exits(0)?;
    let templates = cx.root().join("templates");
    let left = fs::read_dir(&templates).map_or(0, Iterator::count);
    ensure!(left == 0, "{left} templates stay of an image that is gone");
    Ok(())
}
