//! Owners, modes, times, hard links, attributes and capabilities of files survive all operations on images: load,
//! run, commit, save, load, under every driver.

use super::disks::on_btrfs;
use super::drivers::remove_kept;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test(
        "round_trip::nodes_below_dev_are_not_missed",
        &[Need::Program("python3")],
        nodes,
    ),
    test("round_trip::overlay", NEEDS, |cx| round(cx, "overlay")),
    test("round_trip::copy", NEEDS, |cx| round(cx, "copy")),
    test("round_trip::split", NEEDS, |cx| round(cx, "split")),
    test(
        "round_trip::loop",
        &[Need::Root, Need::Program("tar"), Need::Program("mkfs.ext4")],
        |cx| round(cx, "loop"),
    ),
    test(
        "round_trip::loop_xfs",
        &[Need::Root, Need::Program("tar"), Need::Program("mkfs.xfs")],
        |cx| round(cx, "loop-xfs"),
    ),
    test(
        "round_trip::btrfs",
        &[Need::Root, Need::Program("tar"), Need::Program("mkfs.btrfs")],
        |cx| on_btrfs(cx, |cx| round(cx, "btrfs")),
    ),
    test(
        "round_trip::erofs",
        &[Need::Root, Need::Program("tar"), Need::Program("mkfs.erofs")],
        |cx| round(cx, "erofs"),
    ),
    test("round_trip::keep_id_overlay", KEPT, |cx| {
        keeping_ids(cx, "overlay")
    }),
    test("round_trip::keep_id_split", KEPT, |cx| keeping_ids(cx, "split")),
    test("round_trip::keep_id_reflink", KEPT, |cx| {
        keeping_ids(cx, "reflink")
    }),
    test("round_trip::keep_id_copy", KEPT, |cx| keeping_ids(cx, "copy")),
    test(
        "changes::of_a_running_disk",
        &[Need::Root, Need::Program("mkfs.ext4")],
        running_disk,
    ),
];

/// Needs of containers whose caller keeps its id.
const KEPT: &[Need] = &[Need::Unprivileged, Need::SubIds, Need::Program("tar")];

const NEEDS: &[Need] = &[Need::Program("tar"), Need::ManyIds];

/// Attribute value for `cap_net_raw+ep` of one file, in the kernel's format (version 2).
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Builds a member of a tar archive: its header with a checksum, and the content in whole blocks.
fn member(name: &str, kind: u8, (mode, uid, gid): (u32, u32, u32), link: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}"));
    put(108, &format!("{uid:07o}"));
    put(116, &format!("{gid:07o}"));
    put(124, &format!("{:011o}", content.len()));
    put(136, &format!("{:011o}", 1_000_000_000));
    put(148, "        ");
    put(157, link);
    put(257, "ustar\u{0}00");
    header[156] = kind;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// Builds records of an extended header, for the member that follows.
fn extended(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut content = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        // The length counts its own digits.
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length += 1;
        }
        content.extend_from_slice(format!("{length} {key}=").as_bytes());
        content.extend_from_slice(value);
        content.push(b'\n');
    }
    member("extended", b'x', (0o644, 0, 0), "", &content)
}

/// Builds members that a user's tools cannot write: with capabilities, times in nanoseconds, owners, attributes.
fn special() -> Vec<u8> {
    let mut bytes = extended(&[
        ("SCHILY.xattr.security.capability", &CAPABILITY),
        ("SCHILY.xattr.user.note", b"kept"),
        ("mtime", b"1234567890.123456789"),
    ]);
    bytes.extend(member(
        "home/capable",
        b'0',
        (0o755, 0, 0),
        "",
        b"not really a program\n",
    ));
    bytes.extend(member(
        "home/capable-too",
        b'1',
        (0o755, 0, 0),
        "home/capable",
        b"",
    ));
    bytes.extend(member("home/setuid", b'0', (0o6751, 12, 34), "", b"setuid\n"));
    bytes.extend(member("home/dir/", b'5', (0o2770, 1234, 2000), "", b""));
    bytes.extend(member("home/dir/link", b'2', (0o777, 7, 8), "../setuid", b""));
    bytes.extend(member("home/pipe", b'6', (0o620, 5, 6), "", b""));
    bytes
}

/// Loads an image of the tests' root file system with these files from an archive.
fn image(cx: &Context) -> Result<()> {
    let (archive, from) = (cx.path("image.tar")?, cx.shared_rootfs());
    let from = from.to_string_lossy();
    let words = [
        "tar",
        "--owner=:0",
        "--group=:0",
        "-C",
        &*from,
        "-cf",
        &archive,
        ".",
    ];
    Invocation::new(words).output()?.exits(0)?;
    let mut bytes = fs::read(&archive)?;
    // The members go before the two empty blocks at the end, and the padding of the record.
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    bytes.truncate(end.next_multiple_of(512));
    bytes.extend(special());
    bytes.resize(bytes.len() + 1024, 0);
    fs::write(&archive, bytes)?;
    cx.tote(&["import", &archive, "base:1"]).output()?.exits(0)?;
    let saved = cx.path("base.tar")?;
    cx.tote(&["save", "-o", &saved, "base:1"]).output()?.exits(0)?;
    cx.tote(&["rmi", "base:1"]).output()?.exits(0)?;
    cx.tote(&["load", "-i", &saved]).output()?.exits(0)?;
    Ok(())
}

/// Exports a container's tree as an archive with all attributes: equal trees give equal archives.
fn tree(cx: &Context, container: &str) -> Result<Vec<u8>> {
    let archive = cx.path(&format!("{container}.tar"))?;
    cx.tote(&["export", "-o", &archive, container])
        .output()?
        .exits(0)?;
    Ok(fs::read(archive)?)
}

fn listing(cx: &Context, container: &str) -> Result<String> {
    let archive = cx.path(&format!("{container}.tar"))?;
    let words = [
        "tar",
        "--numeric-owner",
        "--full-time",
        "--xattrs",
        "-tvvf",
        &archive,
    ];
    Ok(Invocation::new(words).output()?.out())
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

const SCRIPT: &str = "cd /home && mv capable dir/moved && cp -p setuid copied && ln copied again && \
chown 55:66 copied && chmod 4711 copied && touch -d '2001-02-03 04:05:06' dir/new && mkdir -m 1777 sticky && \
rm pipe && mknod pipe p && chown -h 9:9 dir/link && mkdir emptied && touch emptied/x && rm emptied/x";

fn round(cx: &Context, driver: &str) -> Result<()> {
    round_of(cx, driver, &[])
}

/// The owners on disk are others under `keep-id`; what comes out of the container has those that it sees.
fn keeping_ids(cx: &Context, driver: &str) -> Result<()> {
    round_of(cx, driver, &["--userns", "keep-id", "-u", "0"])
}

/// Changes files in a container with these options, and compares it with an ordinary one of the image that is made of it.
fn round_of(cx: &Context, driver: &str, options: &[&str]) -> Result<()> {
    image(cx)?;
    let words = ["run", "--driver", driver, "--name", "one"];
    let words = [&words, options, &["base:1", "sh", "-c", SCRIPT]].concat();
    cx.tote(&words).output()?.exits(0)?;
    cx.tote(&["commit", "one", "made:1"]).output()?.exits(0)?;
    let before = tree(cx, "one")?;
    ensure!(
        has(&before, b"SCHILY.xattr.security.capability=") && has(&before, &CAPABILITY),
        "the capability is lost in the container"
    );
    ensure!(
        has(&before, b"1234567890.123456789"),
        "the time is cut off in the container"
    );
    let saved = cx.path("made.tar")?;
    cx.tote(&["save", "-o", &saved, "made:1"]).output()?.exits(0)?;
    cx.tote(&["rmi", "-f", "made:1"]).output()?.exits(0)?;
    cx.tote(&["load", "-i", &saved]).output()?.exits(0)?;
    let words = ["run", "--driver", driver, "--name", "two", "made:1", "true"];
    cx.tote(&words).output()?.exits(0)?;
    let after = tree(cx, "two")?;
    ensure!(
        before == after,
        "what was loaded is not what the container was:\n{}\n{}",
        listing(cx, "one")?,
        listing(cx, "two")?
    );
    remove_kept(cx)
}

fn running_disk(cx: &Context) -> Result<()> {
    let script = "echo first > /written; echo ready; cat; echo second > /written";
    let image = cx.image();
    let words = [
        "run", "-i", "--driver", "loop", "--name", "one", &image, "sh", "-c", script,
    ];
    let mut running = cx.tote(&words).spawn()?;
    running.expect("ready")?;
    cx.tote(&["diff", "one"]).output()?.prints("A /written\n")?;
    cx.tote(&["commit", "one", "early"]).output()?.exits(0)?;
    running.close_input();
    running.finish()?.exits(0)?;
    cx.tote(&["commit", "one", "late"]).output()?.exits(0)?;
    cx.run(&["early", "cat", "/written"])?.prints("first\n")?;
    cx.run(&["late", "cat", "/written"])?.prints("second\n")?;
    remove_kept(cx)
}

/// Every container has a `/dev` of its own, so nodes of an image that a user cannot make matter elsewhere only.
fn nodes(cx: &Context) -> Result<()> {
    let script = r"
import sys, tarfile
archive = tarfile.open(sys.argv[1], 'w')
for name in sys.argv[2:]:
    node = tarfile.TarInfo(name)
    node.type, node.devmajor, node.devminor, node.mode = tarfile.CHRTYPE, 1, 3, 0o666
    archive.addfile(node)
archive.close()";
    let is_root = rustix::process::geteuid().is_root();
    for (path, is_missed) in [("dev/null", false), ("srv/null", !is_root)] {
        let (archive, saved) = (cx.path("nodes.tar")?, cx.path("saved.tar")?);
        Invocation::new(["python3", "-c", script, &archive, path])
            .output()?
            .exits(0)?;
        cx.tote(&["import", &archive, "nodes"]).output()?.exits(0)?;
        cx.tote(&["save", "-o", &saved, "nodes"]).output()?.exits(0)?;
        cx.tote(&["rmi", "nodes"]).output()?.exits(0)?;
        // A terminal is told how far it is.
        let (mut shown, terminal) = cx.tote(&["load", "-i", &saved]).spawn_in_terminal(24, 120)?;
        shown.expect("Loading [")?;
        shown.expect("Loaded image: nodes:latest")?;
        ensure!(shown.wait()? == 0, "{}", shown.so_far());
        drop(terminal);
        cx.tote(&["rmi", "nodes"]).output()?.exits(0)?;
        let loaded = cx.tote(&["load", "-i", &saved]).output()?;
        loaded.exits(0)?;
        match is_missed {
            true => drop(loaded.has_err("1 device nodes of the image could not be made")?),
            false => drop(loaded.quietly()?),
        }
        cx.tote(&["rmi", "nodes"]).output()?.exits(0)?;
        fs::remove_file(saved)?;
    }
    Ok(())
}
