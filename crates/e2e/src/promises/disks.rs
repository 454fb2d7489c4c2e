//! Storage drivers on file systems that a test makes, and drivers that keep a container to a size.

use super::drivers::{WORK, image, says_driver, script};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;

const BTRFS: &[Need] = &[Need::Root, Need::Program("mkfs.btrfs")];
const XFS: &[Need] = &[Need::Root, Need::Program("mkfs.xfs")];

pub(super) const TESTS: &[Test] = &[
    test("disks::btrfs_snapshots", BTRFS, |cx| on(cx, "btrfs", "btrfs")),
    test("disks::btrfs_reflinks", BTRFS, |cx| on(cx, "btrfs", "reflink")),
    test("disks::btrfs_split", BTRFS, |cx| on(cx, "btrfs", "split")),
    test("disks::btrfs_overlay", BTRFS, |cx| on(cx, "btrfs", "overlay")),
    test("disks::xfs_reflinks", XFS, |cx| on(cx, "xfs", "reflink")),
    test("disks::xfs_split", XFS, |cx| on(cx, "xfs", "split")),
    test("disks::xfs_overlay", XFS, |cx| on(cx, "xfs", "overlay")),
    test("disks::a_driver_is_configured", &[], configured),
    test("disks::memory_has_a_size", &[], memory_size),
    test(
        "disks::a_disk_has_a_size",
        &[Need::Root, Need::Program("mkfs.ext4")],
        disk_size,
    ),
    test("disks::what_has_no_size_says_so", &[], no_size),
    test(
        "disks::a_disk_is_cached_once",
        &[Need::Root, Need::Program("mkfs.ext4")],
        direct,
    ),
    test(
        "disks::roots_drivers_refuse_others",
        &[Need::Unprivileged],
        roots_only,
    ),
];

/// Session on a state root and an image on another file system, which is mounted only where tote runs. One container
/// does all that programs do; another one sees nothing of it; a third is kept; then nothing is left.
const SESSION: &str = r#"set -eu
mount -o loop "$DISK" "$AT"
mkdir "$AT/state"
cp -a "$IMAGE" "$AT/image"
look() { (cd "$AT/image" && find . -printf '%p %m %U:%G %s %T@ %l\n' | sort; find . -type f -exec md5sum {} +) | md5sum; }
before=$(look)
tote() { "$TOTE" --root "$AT/state" run "$@"; }
tote --rm -i --driver "$DRIVER" "rootfs:$AT/image" sh < "$SCRIPT"
tote --rm --driver "$DRIVER" "rootfs:$AT/image" cat "/$WORK/file"
tote --driver "$DRIVER" "rootfs:$AT/image" sh -c "echo kept > /$WORK/kept"
find "$AT/state/containers" -name kept -exec cat {} +
test "$before" = "$(look)" || echo the image has changed
echo changed > "$AT/image/$WORK/file"
tote --rm --driver "$DRIVER" "rootfs:$AT/image" cat "/$WORK/file"
rm -rf "$AT/state/containers"/*
ls -A "$AT/state/containers"
umount "$AT""#;

fn on(cx: &Context, file_system: &str, driver: &str) -> Result<()> {
    let (dir, _) = image(cx)?;
    let (disk, at) = (cx.path("disk")?, cx.directory("at")?);
    fs::File::create_new(&disk)?.set_len(512 << 20)?;
    Invocation::new([&format!("mkfs.{file_system}"), "-q", &disk])
        .output()?
        .exits(0)?;
    let steps = cx.file("steps", &script())?;
    let session = Invocation::new(["unshare", "--mount", "sh", "-c", SESSION])
        .env("DISK", &disk)
        .env("AT", &at)
        .env("IMAGE", &dir)
        .env("TOTE", cx.binary())
        .env("DRIVER", driver)
        .env("SCRIPT", &steps)
        .env("WORK", WORK)
        .output()?;
    session
        .exits(0)?
        .prints("all\nfirst\nkept\nchanged\n")
        .with_context(|| format!("{driver} on {file_system}"))?;
    fs::remove_file(disk)?;
    Ok(())
}

/// Script that fills its disk, then makes room and goes on.
const FILL: &str =
    "cd /home && dd if=/dev/zero of=big bs=1M count=40; rm big && echo goes on > small && cat small";

fn memory_size(cx: &Context) -> Result<()> {
    for driver in ["overlay", "split"] {
        fills(cx, &["--driver", driver, "--disk-size", "20m"])?;
    }
    Ok(())
}

fn disk_size(cx: &Context) -> Result<()> {
    fills(cx, &["--driver", "loop", "--disk-size", "20m"])?;
    if Need::Program("mkfs.xfs").met() {
        let script = "cd /home && dd if=/dev/zero of=big bs=1M count=400; rm big && echo goes on";
        cx.shell(&["--driver", "loop-xfs", "--disk-size", "300m"], script)?
            .exits(0)?
            .has_out("goes on\n")?
            .has_err("no space left on device")?;
        cx.shell(&["--driver", "loop-xfs", "--disk-size", "20m"], "true")?
            .refuses(125, &["mkfs.xfs"])?;
    }
    let (dir, _) = image(cx)?;
    let before = tree::listing(&dir)?;
    // A container with a size is on a disk, also if it is kept and no driver is named.
    cx.tote(&[
        "run",
        "--disk-size",
        "20m",
        &format!("rootfs:{}", dir.display()),
        "sh",
        "-c",
        FILL,
    ])
    .output()?
    .exits(0)?
    .has_out("goes on\n")?
    .has_err("no space left on device")?;
    tree::unchanged(&dir, &before)?;
    for id in cx.containers()? {
        says_driver(&cx.root().join("containers").join(&id), "loop")?;
        // A second start uses the same disk, with its content.
        cx.tote(&["start", "-a", &id])
            .output()?
            .has_err("no space left on device")?;
        cx.tote(&["rm", &id]).output()?.exits(0)?;
    }
    // A container that is only created gets its disk with its first start.
    let dir = format!("rootfs:{}", dir.display());
    let words = [
        "create",
        "--name",
        "later",
        "--disk-size",
        "20m",
        &dir,
        "sh",
        "-c",
        FILL,
    ];
    cx.tote(&words).output()?.exits(0)?;
    let started = cx.tote(&["start", "-a", "later"]).output()?;
    started.exits(0)?.has_err("no space left on device")?;
    cx.tote(&["rm", "later"]).output()?.exits(0).map(drop)
}

/// `storage.json` decides if neither an option nor the environment does.
fn configured(cx: &Context) -> Result<()> {
    let config = cx.directory("config")?;
    fs::create_dir(Path::new(&config).join("tote"))?;
    let file = Path::new(&config).join("tote/storage.json");
    fs::write(&file, r#"{"driver": "split"}"#)?;
    let (dir, _) = image(cx)?;
    let image = format!("rootfs:{}", dir.display());
    let tote = |words: &[&str]| cx.tote(words).env("XDG_CONFIG_HOME", &config);
    let write = ["sh", "-c", "touch /new && echo written"];
    let run = |options: &[&str]| tote(&[&["run", "--rm"], options, &[&image], &write].concat()).output();
    run(&[])?.exits(1)?.has_err("Read-only file system")?;
    run(&["--driver", "overlay"])?.prints("written\n")?;
    let other = tote(&[&["run", "--rm", &*image][..], &write].concat());
    other
        .env("TOTE_DRIVER", "overlay")
        .output()?
        .prints("written\n")?;
    tote(&["info"])
        .output()?
        .exits(0)?
        .has_out("\n Storage Driver: split\n")?;
    // A created container keeps its driver.
    tote(&[&["create", "--name", "kept", &*image][..], &write].concat())
        .output()?
        .exits(0)?;
    fs::write(&file, r#"{"driver": "fast"}"#)?;
    run(&[])?.refuses(125, &["storage.json", "\"fast\" is not a storage driver"])?;
    tote(&["images"]).output()?.refuses(1, &["storage.json"])?;
    fs::write(&file, r#"{"share-host": "never"}"#)?;
    run(&[])?.prints("written\n")?;
    tote(&["start", "-a", "kept"])
        .output()?
        .exits(1)?
        .has_err("Read-only file system")?;
    tote(&["rm", "kept"]).output()?.exits(0).map(drop)
}

fn fills(cx: &Context, options: &[&str]) -> Result<()> {
    cx.shell(options, FILL)?
        .exits(0)?
        .has_out("goes on\n")?
        .has_err("no space left on device")
        .map(drop)
}

fn no_size(cx: &Context) -> Result<()> {
    for driver in ["reflink", "copy"] {
        cx.shell(&["--driver", driver, "--disk-size", "20m"], "true")?
            .refuses(125, &["--disk-size", driver])?;
    }
    cx.shell(&["--disk-size", "20k"], "true")?
        .refuses(125, &["disk-size", "20k"])?;
    cx.shell(&["--driver", "zfs"], "true")?
        .refuses(125, &["--driver", "zfs", "overlay"])
        .map(drop)
}

fn roots_only(cx: &Context) -> Result<()> {
    for driver in ["loop", "loop-xfs", "btrfs", "erofs"] {
        cx.shell(&["--driver", driver], "true")?
            .refuses(125, &[driver, "root"])?;
    }
    Ok(())
}

/// Runs a test whose state root is on a btrfs of its own.
pub(super) fn on_btrfs(cx: &Context, run: fn(&Context) -> Result<()>) -> Result<()> {
    let (disk, at) = (cx.path("disk")?, cx.directory("at")?);
    fs::File::create_new(&disk)?.set_len(1 << 30)?;
    Invocation::new(["mkfs.btrfs", "-q", &disk]).output()?.exits(0)?;
    let mount = "mount -o loop \"$0\" \"$1\" && mkdir \"$1/state\" && echo ready && cat";
    let mut mounted = Invocation::new(["unshare", "--mount", "sh", "-c", mount, &disk, &at]).spawn()?;
    mounted.expect("ready")?;
    run(&cx.in_mounts_of(mounted.pid(), &format!("{at}/state")))?;
    mounted.close_input();
    mounted.finish()?.exits(0)?;
    Ok(fs::remove_file(disk)?)
}

/// The content of the disk is cached once: the disk's file is not in the page cache as well.
fn direct(cx: &Context) -> Result<()> {
    for driver in ["loop", "loop-xfs"] {
        if driver == "loop-xfs" && !Need::Program("mkfs.xfs").met() {
            continue;
        }
        let image = cx.image();
        let mut running = cx
            .run_command(&[
                "-i",
                "--driver",
                driver,
                &image,
                "sh",
                "-c",
                "echo x > /x; echo ready; cat",
            ])
            .spawn()?;
        running.expect("ready")?;
        let mut found = Vec::new();
        for device in fs::read_dir("/sys/block")? {
            let device = device?.path();
            let file = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
            if Path::new(&file).starts_with(cx.root()) {
                found.push(fs::read_to_string(device.join("loop/dio"))?);
            }
        }
        ensure!(found == ["1\n"], "direct I/O of {driver}: {found:?}");
        running.close_input();
        running.finish()?.exits(0)?;
    }
    Ok(())
}
