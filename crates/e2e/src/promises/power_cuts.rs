//! Damage to the store by a power cut or by hand: it is found, never run, repaired by loading the image again, and
//! can be removed. Also a full disk, which is emptied by removing images.

use super::on_disk::{content_of, name_of};
use super::stored::image;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test("power_cuts::each_damage_is_found_and_mended", &[], mended),
    test(
        "power_cuts::other_bytes_of_the_right_size_are_not_run",
        &[],
        other_bytes,
    ),
    test("power_cuts::what_is_damaged_can_be_removed", &[], removed),
    test("power_cuts::what_was_changed_is_mended_by_loading", &[], changed),
    test("power_cuts::a_full_ext4_can_be_emptied", &EXT4, |cx| {
        emptied(cx, "ext4")
    }),
    test("power_cuts::an_ext4_without_inodes_can_be_emptied", &EXT4, |cx| {
        emptied(cx, "ext4 -N 2000")
    }),
    test("power_cuts::a_full_xfs_can_be_emptied", &XFS, |cx| {
        emptied(cx, "xfs")
    }),
    test("power_cuts::a_full_btrfs_can_be_emptied", &BTRFS, |cx| {
        emptied(cx, "btrfs --mixed")
    }),
    test(
        "power_cuts::a_full_tmpfs_can_be_emptied",
        &[Need::Root, Need::Program("unshare")],
        |cx| emptied(cx, "tmpfs"),
    ),
];

const EXT4: [Need; 2] = [Need::Root, Need::Program("mkfs.ext4")];
const XFS: [Need; 2] = [Need::Root, Need::Program("mkfs.xfs")];
const BTRFS: [Need; 2] = [Need::Root, Need::Program("mkfs.btrfs")];

fn store(cx: &Context) -> PathBuf {
    cx.root().join("store")
}

/// Returns the only entry in a directory of the store.
fn only(cx: &Context, dir: &str) -> Result<PathBuf> {
    let mut entries = fs::read_dir(store(cx).join(dir))?;
    Ok(entries.next().with_context(|| format!("{dir} is empty"))??.path())
}

/// Simulates a reboot: earlier writes are not known to be on the disk.
fn start_again(cx: &Context) -> Result<()> {
    fs::write(only(cx, "trees")?.join("lease"), "another boot")?;
    fs::write(only(cx, "layers")?.join("known"), "another boot")?;
    Ok(())
}

/// Makes an image, and an archive of it.
fn saved(cx: &Context) -> Result<(String, String)> {
    let id = image(cx, "mine", &[])?;
    let archive = cx.path("saved.tar")?;
    cx.tote(&["save", "-o", &archive, "mine"]).output()?.exits(0)?;
    Ok((id, archive))
}

/// Changes the bytes of a file, but not its size and time.
fn scramble(path: &Path) -> Result<()> {
    let time = path.metadata()?.modified()?;
    let content = fs::read(path)?;
    fs::write(path, content.iter().map(|byte| !byte).collect::<Vec<_>>())?;
    fs::File::open(path)?.set_modified(time)?;
    Ok(())
}

fn mended(cx: &Context) -> Result<()> {
    let (_, archive) = saved(cx)?;
    for (dir, file, says) in [
        ("trees", "own", "damaged: "),
        ("trees", "bin/sh", "damaged: tree "),
        ("trees", "lease", "damaged: tree "),
        ("layers", "framing", "framing: "),
        ("layers", "contents", "contents: "),
        ("layers", "layer.json", "layer.json: "),
        ("images", "config.json", "damaged: image "),
        ("images", "image.json", "damaged: image.json of image "),
        ("names", "", "damaged: name mine:latest"),
    ] {
        start_again(cx)?;
        let found = only(cx, dir)?;
        let path = match (dir, file) {
            ("trees", "own") => content_of(&found, file)?,
            ("trees", "bin/sh") => name_of(&found, file),
            _ => found.join(file),
        };
        match dir {
            // The damaged file is empty; a name, or the lease, is gone.
            "trees" if file != "own" => fs::remove_file(&path)?,
            "names" => fs::write(only(cx, dir)?, "")?,
            _ => fs::write(&path, "")?,
        }
        let found = cx.tote(&["store", "verify"]).output()?;
        found
            .exits(1)?
            .has_out(says)
            .with_context(|| format!("{dir} {file}"))?;
        cx.tote(&["load", "-qi", &archive]).output()?.exits(0)?;
        cx.run(&["--pull", "never", "mine", "cat", "/own"])?
            .exits(0)?
            .prints("mine")
            .with_context(|| format!("{dir} {file}"))?;
        let repaired = cx.tote(&["store", "verify", "--full", "--repair"]).output()?;
        repaired.exits(0).with_context(|| format!("{dir} {file}"))?;
        cx.tote(&["store", "verify", "--full"]).output()?.exits(0)?;
    }
    Ok(())
}

fn other_bytes(cx: &Context) -> Result<()> {
    let (_, archive) = saved(cx)?;
    start_again(cx)?;
    scramble(&content_of(&only(cx, "trees")?, "own")?)?;
    let refused = cx.run(&["--pull", "never", "mine", "cat", "/own"])?;
    refused.refuses(125, &["layers of the image", "lost or damaged"])?;
    cx.tote(&["load", "-qi", &archive]).output()?.exits(0)?;
    cx.run(&["--pull", "never", "mine", "cat", "/own"])?
        .exits(0)?
        .prints("mine")?;
    Ok(())
}

fn removed(cx: &Context) -> Result<()> {
    let (id, _) = saved(cx)?;
    fs::write(only(cx, "images")?.join("config.json"), "")?;
    fs::write(only(cx, "layers")?.join("contents"), "half")?;
    fs::remove_file(only(cx, "trees")?.join("lease"))?;
    // The damaged image does not block other commands.
    image(cx, "other", &[])?;
    cx.tote(&["rmi", "other"]).output()?.exits(0)?;
    cx.tote(&["image", "prune", "-f"]).output()?.exits(0)?;
    let removed = cx.tote(&["rmi", "-f", &id]).output()?;
    if !removed.err().contains("no such image") {
        removed.exits(0)?;
    }
    cx.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    for name in ["layers", "images", "names", "trees", "trash"] {
        let mut left = fs::read_dir(store(cx).join(name))?;
        ensure!(left.next().is_none(), "something is left in {name}");
    }
    for shard in fs::read_dir(store(cx).join("objects"))? {
        let shard = shard?.path();
        ensure!(fs::read_dir(&shard)?.next().is_none(), "{}", shard.display());
    }
    Ok(())
}

fn changed(cx: &Context) -> Result<()> {
    let (_, archive) = saved(cx)?;
    let own = content_of(&only(cx, "trees")?, "own")?;
    fs::write(&own, "evil")?;
    cx.run(&["mine", "cat", "/own"])?.prints("evil")?;
    cx.tote(&["load", "-qi", &archive]).output()?.exits(0)?;
    cx.run(&["mine", "cat", "/own"])?.exits(0)?.prints("mine")?;
    cx.tote(&["store", "verify", "--full"]).output()?.exits(0)?;
    Ok(())
}

/// Script that puts the store on a file system without a free block and inode. The state root is made before that.
const FULL: &str = r#"set -eu
case $KIND in
tmpfs) mount -t tmpfs -o size=40m,nr_inodes=3000 none "$AT" ;;
*) mount -o loop "$DISK" "$AT" ;;
esac
tote() { "$TOTE" --root "$AT/state" "$@"; }
tote load -qi "$ARCHIVE" >/dev/null
: > "$AT/ballast"
mkdir "$AT/files"
(cd "$AT/files" && seq 5000 | xargs touch 2>/dev/null) || true
for block in 1M 64k 4k 512 1; do
    dd if=/dev/zero bs=$block of="$AT/ballast" oflag=append conv=notrunc 2>/dev/null || true
done
if mkdir "$AT/more" 2>/dev/null && cp "$ARCHIVE" "$AT/more/" 2>/dev/null; then echo there is room; fi
tote rmi mine >/dev/null
tote image prune -af >/dev/null
find "$AT/state/store" -path '*/objects/*/*' -o -path '*/trees/*' -o -path '*/layers/*' -o -path '*/images/*' -o -path '*/trash/*'
echo emptied
umount "$AT""#;

fn emptied(cx: &Context, kind: &str) -> Result<()> {
    let (_, archive) = saved(cx)?;
    let (disk, at) = (cx.path("disk")?, cx.directory("at")?);
    let mut words = kind.split(' ');
    let name = words.next().unwrap_or_default();
    if name != "tmpfs" {
        // XFS needs at least this size; smaller file systems fill faster.
        let megabytes = if name == "xfs" { 320 } else { 64 };
        fs::File::create_new(&disk)?.set_len(megabytes << 20)?;
        let made = [format!("mkfs.{name}"), "-q".to_owned()].into_iter();
        let made = made.chain(words.map(ToOwned::to_owned)).chain([disk.clone()]);
        Invocation::new(made).output()?.exits(0)?;
    }
    let emptied = Invocation::new(["unshare", "--mount", "sh", "-c", FULL])
        .env("KIND", name)
        .env("DISK", &disk)
        .env("AT", &at)
        .env("ARCHIVE", &archive)
        .env("TOTE", cx.binary())
        .output()?;
    emptied
        .exits(0)?
        .prints("emptied\n")
        .with_context(|| kind.to_owned())?;
    Ok(())
}
