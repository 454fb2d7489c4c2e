//! Writes of a container: the image stays unchanged, volumes stay, everything else goes.

use super::build::build;
use super::pool::{fill, gone, taking};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test(
        "storage::a_copy_has_the_links_of_its_image",
        &[Need::ManyIds],
        image_links,
    ),
    test("storage::writes_do_not_reach_the_image", OVERLAY, image_unchanged),
    test(
        "storage::an_image_without_mount_points_stays_without",
        &[],
        bare_image,
    ),
    test("storage::the_writable_layer_goes_with_rm", &[], layer_goes),
    test("storage::read_only", &[], read_only),
    test("storage::tmpfs_has_its_size", &[], tmpfs_size),
    test("storage::writes_to_memory_have_a_size", &[], memory_size),
    test("storage::a_directory_is_bound", &[], bind_directory),
    test("storage::a_file_is_bound", &[], bind_file),
    test("storage::v_makes_a_missing_source", &[], missing_source_made),
    test(
        "storage::mount_refuses_a_missing_source",
        &[],
        missing_source_refused,
    ),
    test("storage::a_named_volume_persists", &[], named_volume),
    test(
        "storage::a_volume_inside_a_volume_is_seen_in_any_order",
        &[],
        volume_order,
    ),
];

/// First kernel on which an unprivileged user can mount an overlay.
const OVERLAY: &[Need] = &[Need::Kernel(5, 11)];

/// File operations of programs: create, append, delete, rename, link, change modes and directories.
const CHANGES: &str = "set -e
echo more >> /etc/passwd; rm /etc/group; mv /etc/hostname /etc/moved || true; mkdir -p /opt/new; echo x > /opt/new/x
chmod 700 /home; rm -r /home/alice; ln -s x /bin/made; ln /etc/passwd /etc/hard; touch /tmp/t
grep -q more /etc/passwd; test ! -e /etc/group; test ! -e /home/alice; cat /opt/new/x";

fn image_unchanged(cx: &Context) -> Result<()> {
    let (dir, image) = cx.own_rootfs("rootfs")?;
    let before = tree::listing(&dir)?;
    for _ in 0..2 {
        cx.run(&[&image, "sh", "-c", CHANGES])?.prints("x\n")?;
        tree::unchanged(&dir, &before)?;
    }
    Ok(())
}

fn bare_image(cx: &Context) -> Result<()> {
    let (dir, image) = cx.own_rootfs("bare")?;
    for name in ["proc", "sys", "dev", "etc", "tmp"] {
        fs::remove_dir_all(dir.join(name)).with_context(|| format!("remove {name}"))?;
    }
    let before = tree::listing(&dir)?;
    let source = cx.directory("source")?;
    let volume = format!("{source}:/made/for/this");
    cx.run(&[
        "-v",
        &volume,
        &image,
        "sh",
        "-c",
        "test -e /dev/null && test -e /proc/self && ls /made/for",
    ])?
    .prints("this\n")?;
    tree::unchanged(&dir, &before)
}

fn layer_goes(cx: &Context) -> Result<()> {
    cx.shell(&[], "echo x > /new && cat /new")?.prints("x\n")?;
    cx.shell(&[], "test ! -e /new && echo gone")?.prints("gone\n")?;
    Ok(())
}

fn read_only(cx: &Context) -> Result<()> {
    for file in ["/x", "/etc/x", "/tmp/x", "/var/x"] {
        cx.run(&["--read-only", &cx.image(), "touch", file])?
            .exits(1)
            .and_then(|out| out.has_err("read-only file system"))
            .with_context(|| file.to_owned())?;
    }
    cx.shell(
        &["--read-only", "--tmpfs", "/tmp"],
        "echo y > /tmp/x && cat /tmp/x && echo z > /dev/null",
    )?
    .prints("y\n")?;
    Ok(())
}

fn tmpfs_size(cx: &Context) -> Result<()> {
    let fill = "dd if=/dev/zero of=/t/big bs=1M count=2";
    cx.shell(&["--tmpfs", "/t:size=1m"], fill)?
        .fails()?
        .has_err("no space left on device")?;
    cx.shell(&["--tmpfs", "/t:size=4m"], &format!("{fill} && echo fits"))?
        .prints("fits\n")?;
    let mount = "type=tmpfs,destination=/t,tmpfs-size=1m";
    cx.shell(&["--mount", mount], fill)?
        .fails()?
        .has_err("no space left on device")?;
    Ok(())
}

/// The default size is a quarter of the machine's memory, under each driver that writes there, and in pools.
fn memory_size(cx: &Context) -> Result<()> {
    let memory = fs::read_to_string("/proc/meminfo")?;
    let words: Vec<_> = memory.split_whitespace().collect();
    let share = words.get(1).context("MemTotal")?.parse::<u64>()? / 4;
    let show = "df -k /tmp | tail -1 | awk '{ print $2 }'";
    let is_share = |out: &crate::output::Output| {
        let size: u64 = out.exits(0)?.out().trim().parse()?;
        ensure!(
            size.abs_diff(share) < share / 50,
            "{size} KiB, and a quarter of the memory is {share}"
        );
        Ok(())
    };
    is_share(&cx.shell(&[], show)?)?;
    is_share(&cx.shell(&["--driver", "split"], show)?)?;
    fill(cx, "1", &[])?;
    is_share(&taking(cx, &["sh", "-c", show]).output()?)?;
    gone(cx)?;
    let write = "dd if=/dev/zero of=/big bs=1M count=2";
    cx.shell(&["--tmpfs-size", "1m"], write)?
        .fails()?
        .has_err("no space left on device")?;
    cx.shell(&["--tmpfs-size", "4m"], &format!("{write} 2>/dev/null; {show}"))?
        .prints("4096\n")?;
    cx.shell(&["--tmpfs-size", "1m", "--disk-size", "4m"], show)?
        .prints("4096\n")?;
    fill(cx, "1", &["--tmpfs-size", "8m"])?;
    taking(cx, &["sh", "-c", show]).output()?.prints("8192\n")?;
    gone(cx)
}

fn bind_directory(cx: &Context) -> Result<()> {
    let source = cx.directory("source")?;
    fs::write(Path::new(&source).join("from-host"), "h")?;
    let writable = format!("{source}:/vol");
    cx.shell(
        &["-v", &writable],
        "cat /vol/from-host; echo c > /vol/from-container",
    )?
    .prints("h")?;
    let seen =
        fs::read_to_string(Path::new(&source).join("from-container")).context("what the container wrote")?;
    ensure!(seen == "c\n", "expected c, saw {seen:?}");
    let options = [
        ("-v", format!("{source}:/vol:ro")),
        ("--mount", format!("type=bind,src={source},dst=/vol,readonly")),
    ];
    for (option, value) in options {
        let out = cx.shell(&[option, &value], "cat /vol/from-host; touch /vol/x")?;
        out.exits(1)?.has_out("h")?.has_err("read-only file system")?;
    }
    ensure!(
        !Path::new(&source).join("x").exists(),
        "a read-only volume was written"
    );
    Ok(())
}

fn bind_file(cx: &Context) -> Result<()> {
    let source = cx.file("file", "from the host\n")?;
    for target in ["/etc/passwd", "/not/there/before"] {
        cx.run(&["-v", &format!("{source}:{target}:ro"), &cx.image(), "cat", target])?
            .prints("from the host\n")?;
    }
    cx.run(&[
        "-v",
        &format!("{source}:/f"),
        &cx.image(),
        "sh",
        "-c",
        "echo changed > /f",
    ])?
    .exits(0)?;
    ensure!(
        fs::read_to_string(&source)? == "changed\n",
        "the file was not changed through its mount"
    );
    Ok(())
}

fn missing_source_made(cx: &Context) -> Result<()> {
    let source = cx.path("made/by/tote")?;
    cx.shell(&["-v", &format!("{source}:/vol")], "touch /vol/x")?
        .exits(0)?;
    ensure!(
        Path::new(&source).join("x").is_file(),
        "{source} was not made and bound"
    );
    Ok(())
}

fn missing_source_refused(cx: &Context) -> Result<()> {
    let source = cx.path("missing")?;
    let mount = format!("type=bind,source={source},target=/vol");
    cx.run(&["--mount", &mount, &cx.image(), "true"])?
        .refuses(125, &[&source])?;
    ensure!(!Path::new(&source).exists(), "{source} was made");
    Ok(())
}

fn named_volume(cx: &Context) -> Result<()> {
    cx.shell(&["-v", "data:/vol"], "echo kept > /vol/x")?.exits(0)?;
    cx.shell(&["-v", "data:/elsewhere"], "cat /elsewhere/x")?
        .prints("kept\n")?;
    cx.shell(&["-v", "other:/vol"], "ls -A /vol")?.prints("")?;
    cx.shell(&["--mount", "type=volume,src=data,dst=/vol,ro"], "cat /vol/x")?
        .prints("kept\n")?;
    Ok(())
}

fn volume_order(cx: &Context) -> Result<()> {
    let outer = cx.directory("outer")?;
    let inner = cx.directory("inner")?;
    fs::create_dir(Path::new(&outer).join("sub"))?;
    fs::write(Path::new(&inner).join("seen"), "inner")?;
    let outer = format!("{outer}:/m");
    let inner = format!("{inner}:/m/sub");
    for (first, second) in [(&outer, &inner), (&inner, &outer)] {
        cx.run(&["-v", first, "-v", second, &cx.image(), "cat", "/m/sub/seen"])?
            .prints("inner")?;
    }
    Ok(())
}

/// The store keeps equal files once; in a container with a copy of its image the files have the
/// link counts of the image.
fn image_links(cx: &Context) -> Result<()> {
    let rest = "RUN cd /; echo same > a; echo same > b; touch -d @1 a b; ln a c; mkdir d; \
        for n in $(seq 50); do ln bin/busybox d/$n; done\n";
    build(cx, &[], rest)?.exits(0)?;
    let look =
        "stat -c '%n %h' a b c d/1 d/50; echo changed > a; cat b c; test $(du -sm /d | cut -f1) -lt 20";
    for driver in ["copy", "reflink"] {
        cx.run(&["--driver", driver, "it", "sh", "-c", look])?
            .exits(0)?
            .prints("a 2\nb 1\nc 2\nd/1 51\nd/50 51\nsame\nchanged\n")?;
    }
    cx.nothing_left()
}
