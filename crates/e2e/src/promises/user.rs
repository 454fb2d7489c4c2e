//! `--user`: by number and by the image's own names.

use super::life::{done, empty};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;

pub(super) const TESTS: &[Test] = &[
    test("user::root_by_default", &[], root_by_default),
    test("user::numbers_and_names", &[Need::ManyIds], numbers_and_names),
    test("user::home_is_the_users", &[Need::ManyIds], home),
    test("user::opens_its_streams", &[Need::ManyIds], streams),
    test("user::an_unknown_user_is_refused", &[], unknown),
    test(
        "user::keep_id_has_a_name_and_a_home",
        &[Need::Unprivileged, Need::Userns],
        keep_id,
    ),
    test(
        "user::keep_id_takes_other_numbers",
        &[Need::Unprivileged, Need::SubIds],
        other_id,
    ),
    test(
        "user::maps_are_as_given",
        &[Need::Unprivileged, Need::SubIds],
        given_maps,
    ),
    test("user::maps_are_not_for_root", &[Need::Root], maps_of_root),
    test(
        "user::rootless_maps_the_whole_range",
        &[Need::Unprivileged, Need::SubIds],
        mapped_range,
    ),
    test(
        "user::rootless_root_is_this_user_outside",
        &[Need::Unprivileged],
        rootless_owner,
    ),
    test(
        "user::a_kept_container_on_a_tree_of_roots",
        &[Need::Unprivileged, Need::Userns, Need::LocalOfRoot],
        tree_of_roots,
    ),
];

fn other_id(cx: &Context) -> Result<()> {
    let dir = cx.directory("src")?;
    let mounted = format!("{dir}:/src");
    let options = ["--userns", "keep-id:uid=5555,gid=6666", "-v", &mounted];
    cx.shell(&options, "id -u; id -g; stat -c '%u %g' /src; touch /src/x")?
        .prints("5555\n6666\n5555 6666\n")?;
    let found = std::fs::metadata(format!("{dir}/x"))?;
    let owner = std::os::unix::fs::MetadataExt::uid(&found);
    ensure!(owner == rustix::process::geteuid().as_raw(), "{owner}");
    let others = ["--userns", "keep-id", "-u", "4321:4322"];
    cx.shell(&others, "whoami; id -gn; echo $HOME")?
        .prints("4321\n4322\n/\n")?;
    cx.shell(&["--userns", "keep-id:uid=me"], "true")?
        .exits(125)?
        .has_err("keep-id[:uid=ID,gid=ID]")?;
    cx.nothing_left()
}

fn given_maps(cx: &Context) -> Result<()> {
    let maps = [
        "--uidmap",
        "0:1:1000",
        "--uidmap",
        "1000:0:1",
        "--uidmap",
        "1001:1001:1000",
    ];
    let dir = cx.directory("src")?;
    let mounted = format!("{dir}:/src");
    let look = "awk '{ print $1, $3 }' /proc/self/uid_map /proc/self/gid_map; id -u; stat -c '%u %g' /src; touch /tmp/x";
    cx.shell(&[&maps[..], &["-v", &mounted]].concat(), look)?
        .prints("0 1000\n1000 1\n1001 1000\n0 1000\n1000 1\n1001 1000\n0\n1000 1000\n")?;
    let by_hand = [&maps[..], &["--name", "c", "-d"]].concat();
    cx.tote(&[&["run"], &by_hand[..], &[&cx.image(), "sleep", "1000"]].concat())
        .output()?
        .exits(0)?;
    cx.tote(&["exec", "-u", "1000", "c", "id", "-u"])
        .output()?
        .prints("1000\n")?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    for (options, part) in [
        (&["--uidmap", "0:1:1000"][..], "the caller needs an id inside"),
        (&["--uidmap", "0:0:4294967295"], "is none of your"),
        (
            &["--uidmap", "0:0:1", "--userns", "keep-id"],
            "conflicting options",
        ),
        (&["--gidmap", "0"], "give INSIDE:OUTSIDE:NUMBER"),
    ] {
        cx.shell(options, "true")?.exits(125)?.has_err(part)?;
    }
    cx.nothing_left()
}

fn maps_of_root(cx: &Context) -> Result<()> {
    cx.shell(&["--uidmap", "0:1:1000"], "true")?
        .exits(125)?
        .has_err("run as an unprivileged user")?;
    Ok(())
}

fn root_by_default(cx: &Context) -> Result<()> {
    cx.shell(&[], "echo $(id -u) $(id -g)")?.prints("0 0\n")?;
    Ok(())
}

/// Programs that look up their user find one: ssh and git refuse to work otherwise.
fn keep_id(cx: &Context) -> Result<()> {
    let uid = rustix::process::getuid().as_raw();
    let look = "grep \"^[^:]*:[^:]*:$(id -u):\" /etc/passwd | cut -d: -f3,6; echo $HOME; id -gn > /dev/null && echo group";
    let run = |options: &[&str]| cx.shell(&[&["--userns", "keep-id"], options].concat(), look);
    run(&["-w", "/tmp"])?.prints(&format!("{uid}:/tmp\n/tmp\ngroup\n"))?;
    run(&[])?.prints(&format!("{uid}:/\n/\ngroup\n"))?;
    // A user that the option names has only the image's entry.
    let root = ["--userns", "keep-id", "-u", "0"];
    cx.shell(&root, "grep -c . /etc/passwd")?
        .prints(&cx.shell(&[], "grep -c . /etc/passwd")?.out())?;
    // The caller's own number is as good as no option.
    let gid = rustix::process::getgid().as_raw();
    for number in [format!("{uid}:{gid}"), uid.to_string()] {
        run(&["-u", &number])?.prints(&format!("{uid}:/\n/\ngroup\n"))?;
    }
    run(&["-w", "/tmp", "-u", &format!("{uid}:{gid}")])?.prints(&format!("{uid}:/tmp\n/tmp\ngroup\n"))?;
    let create = ["create", "--name", "c", "--userns", "keep-id", &cx.image()];
    done(cx, &[&create[..], &["sh", "-c", look]].concat())?;
    for _ in 0..2 {
        cx.tote(&["start", "-a", "c"])
            .output()?
            .prints(&format!("{uid}:/\n/\ngroup\n"))?;
    }
    done(cx, &["rm", "c"])?;
    empty(cx)
}

fn numbers_and_names(cx: &Context) -> Result<()> {
    let table: [(&str, &str, &[&str]); 8] = [
        ("1000", "1000 0", &["0"]),
        ("1000:2000", "1000 2000", &["2000"]),
        ("alice", "1234 1234", &["1234", "2000"]),
        ("alice:users", "1234 100", &["100"]),
        ("alice:2000", "1234 2000", &["2000"]),
        ("1234", "1234 1234", &["1234", "2000"]),
        ("65534", "65534 65534", &["65534"]),
        ("0:users", "0 100", &["100"]),
    ];
    for (user, ids, groups) in table {
        let out = cx.shell(&["-u", user], "echo $(id -u) $(id -g); id -G")?;
        out.exits(0).with_context(|| format!("-u {user}"))?;
        let text = out.out();
        let mut lines = text.lines();
        ensure!(
            lines.next() == Some(ids),
            "-u {user}: expected ids {ids}, saw:\n{text}"
        );
        let seen: BTreeSet<_> = lines.next().unwrap_or_default().split(' ').collect();
        let expected: BTreeSet<_> = groups.iter().copied().collect();
        ensure!(
            seen == expected,
            "-u {user}: expected groups {expected:?}, saw {seen:?}"
        );
    }
    Ok(())
}

fn home(cx: &Context) -> Result<()> {
    for (user, home) in [("alice", "/home/alice"), ("0", "/root"), ("4321", "/")] {
        let out = cx.shell(&["-u", user], "echo $HOME")?;
        out.prints(&format!("{home}\n"))
            .with_context(|| format!("-u {user}"))?;
    }
    Ok(())
}

/// Images log to /dev/stdout and /dev/stderr as users other than root.
fn streams(cx: &Context) -> Result<()> {
    let out = cx.shell(&["-u", "1000"], "echo out >/dev/stdout; echo err >/dev/stderr")?;
    out.exits(0)?.prints("out\n")?;
    ensure!(out.err() == "err\n", "saw on stderr: {}", out.err());
    Ok(())
}

fn unknown(cx: &Context) -> Result<()> {
    cx.run(&["-u", "bob", &cx.image(), "true"])?
        .refuses(125, &["bob"])?;
    cx.run(&["-u", "root:nogroups", &cx.image(), "true"])?
        .refuses(125, &["nogroups"])?;
    Ok(())
}

fn mapped_range(cx: &Context) -> Result<()> {
    let out = cx.run(&[&cx.image(), "cat", "/proc/self/uid_map"])?;
    out.exits(0)?;
    let mapped: u64 = out
        .out()
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok())
        .sum();
    ensure!(
        mapped > 65_535,
        "expected 65536 ids and more, saw:\n{}",
        out.out()
    );
    Ok(())
}

/// Outside, a file made by the container's root belongs to the user who ran tote.
fn rootless_owner(cx: &Context) -> Result<()> {
    let shared = cx.directory("shared")?;
    cx.shell(&["-v", &format!("{shared}:/shared")], "touch /shared/made")?
        .exits(0)?;
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(format!("{shared}/made"))?);
    let own = rustix::process::getuid().as_raw();
    ensure!(owner == own, "expected the file to belong to {own}, saw {owner}");
    Ok(())
}

/// The tree may belong to any user: the container has its own host name and hosts file, and they stay its own.
fn tree_of_roots(cx: &Context) -> Result<()> {
    let busybox = cx.shared_rootfs().join("bin/busybox");
    let bind = format!("{}:/busybox:ro", busybox.display());
    let script = "/busybox cat /etc/hostname && /busybox grep -c box /etc/hosts; /busybox ls -d /etc";
    let words = [
        "create",
        "--name",
        "kept",
        "--hostname",
        "box",
        "-v",
        &bind,
        "rootfs:/usr/local",
        "/busybox",
        "sh",
        "-c",
        script,
    ];
    done(cx, &words)?;
    for _ in 0..2 {
        cx.tote(&["start", "-a", "kept"])
            .output()?
            .prints("box\n1\n/etc\n")?;
    }
    done(cx, &["rm", "kept"])?;
    empty(cx)
}
