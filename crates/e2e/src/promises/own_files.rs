//! Files of the container's own, `/etc/hosts` and its like, below other mounts: the container has them in any case,
//! and the host's files are not written.

use super::build;
use super::life::done;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test("own_files::a_bound_etc_stays_as_it_is", &[], bound),
    test("own_files::volumes_and_memory_over_etc_have_them", &[], volumes),
    test("own_files::a_link_into_a_mount_is_not_followed", &[], link),
    test("own_files::a_kept_container_has_dockers_mark", &[], mark),
    test(
        "own_files::a_cache_over_etc_stays_as_it_is",
        &[Need::ManyIds],
        cache,
    ),
];

const LOOK: &str = "cat /etc/hostname; tail -n1 /etc/hosts; ls /etc";

/// Output of a container named `box` for a directory with these two files.
const SEEN: &str = "box\n127.0.1.1\tbox\nhostname\nhosts\n";

/// Makes a directory of the host with files that a container has, too.
fn theirs(cx: &Context) -> Result<String> {
    let dir = cx.directory("theirs")?;
    fs::write(Path::new(&dir).join("hostname"), "of the host\n")?;
    fs::write(Path::new(&dir).join("hosts"), "10.0.0.1\tof-the-host\n")?;
    Ok(dir)
}

fn unchanged(dir: &str) -> Result<()> {
    let read = |name| fs::read_to_string(Path::new(dir).join(name));
    let (hostname, hosts) = (read("hostname")?, read("hosts")?);
    let count = fs::read_dir(dir)?.count();
    ensure!(
        hostname == "of the host\n" && hosts == "10.0.0.1\tof-the-host\n" && count == 2,
        "the host has {count} files, {hostname:?} and {hosts:?}"
    );
    Ok(())
}

/// Programs ask for a regular file, which is the container's own: neither a change of its image nor a part of one that it becomes.
fn mark(cx: &Context) -> Result<()> {
    let image = cx.image();
    let is_there = |name: &str, more: &[&str]| {
        let words = [
            &["run", "--name", name],
            more,
            &[&image, "test", "-f", "/.dockerenv"],
        ]
        .concat();
        cx.tote(&words).output()
    };
    is_there("kept", &[])?.exits(0)?;
    is_there("read", &["--read-only"])?.exits(0)?;
    is_there("gone", &["--rm"])?.exits(1)?;
    cx.tote(&["diff", "kept"]).output()?.prints("")?;
    cx.tote(&["start", "-a", "kept"]).output()?.exits(0)?;
    cx.tote(&["commit", "-q", "kept", "of-it"]).output()?.exits(0)?;
    cx.run(&["of-it", "test", "-e", "/.dockerenv"])?.exits(1)?;
    cx.tote(&["rm", "kept", "read"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn bound(cx: &Context) -> Result<()> {
    let (dir, image) = (theirs(cx)?, cx.image());
    let named = ["-h", "box", "--dns", "192.0.2.1"];
    for (name, how, rest) in [
        ("plain", "", &[][..]),
        ("read", ":ro", &[]),
        ("root", "", &["--read-only"]),
        ("gone", "", &["--rm"]),
    ] {
        let volume = format!("{dir}:/etc{how}");
        let words = ["run", "--name", name, "-v", &volume];
        let command = [&image, "sh", "-c", LOOK];
        let all = [&words[..], &named, rest, &command].concat();
        cx.tote(&all).output()?.prints(SEEN)?.quietly()?;
        unchanged(&dir)?;
    }
    ensure!(done(cx, &["start", "-a", "plain"])? == SEEN.trim_end());
    let copied = cx.path("copied")?;
    done(cx, &["cp", "plain:/etc/hostname", &copied])?;
    unchanged(&dir)?;
    // The container's writes go with the container.
    let volume = format!("{dir}:/etc");
    cx.shell(
        &["-h", "box", "-v", &volume],
        "echo more >> /etc/hosts; tail -n1 /etc/hosts",
    )?
    .prints("more\n")?;
    unchanged(&dir)?;
    // A single file that the user mounts is writable.
    let file = format!("{dir}/hosts:/etc/hosts");
    cx.shell(&["-h", "box", "-v", &file], "cat /etc/hosts /etc/hostname")?
        .prints("10.0.0.1\tof-the-host\nbox\n")?;
    done(cx, &["rm", "plain", "read", "root"]).map(drop)
}

fn volumes(cx: &Context) -> Result<()> {
    let image = cx.image();
    let script = "cat /etc/hostname; tail -n1 /etc/hosts";
    let seen = "box\n127.0.1.1\tbox\n";
    for options in [
        &["-v", "of-etc:/etc"][..],
        // The second container finds the volume with the files of the first one.
        &["-v", "of-etc:/etc"],
        &["-v", "other:/etc:nocopy"],
        &["--tmpfs", "/etc"],
    ] {
        cx.shell(&[&["-h", "box"], options].concat(), script)?
            .prints(seen)?;
        let words = [&["run", "--name", "kept", "-h", "box"], options].concat();
        cx.tote(&[&words[..], &[&image, "sh", "-c", script]].concat())
            .output()?
            .prints(seen)?;
        done(cx, &["rm", "kept"])?;
    }
    Ok(())
}

fn link(cx: &Context) -> Result<()> {
    let (rootfs, image) = cx.own_rootfs("linked")?;
    fs::create_dir(rootfs.join("data"))?;
    best(fs::remove_file(rootfs.join("etc/hosts")))?;
    symlink("/data/hosts", rootfs.join("etc/hosts"))?;
    let dir = theirs(cx)?;
    let volume = format!("{dir}:/data");
    let script = "cat /data/hosts; tail -n1 /etc/hosts";
    let words = ["run", "--name", "linked", "-h", "box", "-v", &volume];
    cx.tote(&[&words[..], &[&image, "sh", "-c", script]].concat())
        .output()?
        .prints("10.0.0.1\tof-the-host\n127.0.1.1\tbox\n")?;
    done(cx, &["rm", "linked"])?;
    unchanged(&dir)
}

/// Accepts the removal of a missing file.
fn best(removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => Ok(removed?),
    }
}

fn cache(cx: &Context) -> Result<()> {
    fs::create_dir_all(cx.scratch().join("context"))?;
    let step = "RUN --mount=type=cache,target=/etc ls -A /etc > /seen; echo mine > /etc/mine\n";
    build::build(cx, &["--no-cache"], &format!("FROM base\n{step}"))?.exits(0)?;
    build::build(cx, &["--no-cache"], &format!("FROM base\n{step}"))?.exits(0)?;
    build::in_it(cx, "cat /seen")?.prints("mine\n")?;
    build::nothing_left(cx)
}
