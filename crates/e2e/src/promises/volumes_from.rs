//! `--volumes-from`: a container gets the mounts of another one, and keeps their volumes in use.

use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::time::Instant;

pub(super) const TESTS: &[Test] = &[
    test(
        "volumes_from::binds_and_volumes_are_at_the_same_places",
        &[],
        same,
    ),
    test("volumes_from::read_only_stays_read_only", &[], readonly),
    test("volumes_from::who_is_not_there_is_refused", &[], refused),
    test(
        "volumes_from::what_is_shared_outlives_its_container",
        &[],
        outlives,
    ),
    test(
        "volumes_from::what_goes_with_its_container_stays_while_shared",
        &[],
        passing,
    ),
];

/// Creates a container `db` with a bind, a named volume and an anonymous one.
fn database(cx: &Context) -> Result<String> {
    let source = cx.directory("source")?;
    fs::write(format!("{source}/file"), "of the host\n")?;
    let bind = format!("{source}:/bind:ro");
    let words = [
        "create",
        "--name",
        "db",
        "-v",
        &bind,
        "-v",
        "named:/named",
        "-v",
        "/unnamed",
        "--tmpfs",
        "/memory",
    ];
    cx.tote(&[&words[..], &[&cx.image(), "true"]].concat())
        .output()?
        .exits(0)?;
    Ok(source)
}

fn volumes(cx: &Context) -> Result<usize> {
    Ok(cx
        .tote(&["volume", "ls", "-q"])
        .output()?
        .exits(0)?
        .out()
        .lines()
        .count())
}

fn same(cx: &Context) -> Result<()> {
    let source = database(cx)?;
    let from = ["--volumes-from", "db"];
    cx.shell(
        &from,
        "cat /bind/file; echo 1 > /named/one; echo 2 > /unnamed/two; ls -d /memory",
    )?
    .exits(1)?
    .has_out("of the host\n")?;
    // The mounts are shared: a third container sees the file as well, also if it takes them from the second one.
    cx.tote(&[
        "create",
        "--name",
        "again",
        "--volumes-from",
        "db:rw",
        &cx.image(),
        "cat",
        "/named/one",
        "/unnamed/two",
    ])
    .output()?
    .exits(0)?;
    cx.tote(&["start", "-a", "again"]).output()?.prints("1\n2\n")?;
    cx.shell(&["--volumes-from", "again"], "cat /unnamed/two")?
        .prints("2\n")?;
    cx.shell(&["-v", "named:/look"], "cat /look/one")?.prints("1\n")?;
    // A mount of the command line takes precedence.
    cx.shell(&["--volumes-from", "db", "-v", "other:/named"], "ls -A /named")?
        .prints("")?;
    let told = "{{.HostConfig.VolumesFrom}} {{range .Mounts}}{{.Type}}:{{.Destination}}:{{.RW}} {{end}}";
    cx.tote(&["inspect", "-f", told, "again"])
        .output()?
        .prints("[db:rw] bind:/bind:false volume:/named:true volume:/unnamed:true \n")?;
    let whose = "{{range .Mounts}}{{.Source}} {{end}}";
    let both = [["db"], ["again"]].map(|name| cx.tote(&["inspect", "-f", whose, name[0]]).output());
    let [theirs, ours] = both;
    let theirs = theirs?
        .exits(0)?
        .out()
        .split_whitespace()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let ours = ours?
        .exits(0)?
        .out()
        .split_whitespace()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    ensure!(
        ours.len() == 3 && ours.iter().all(|path| theirs.contains(path)),
        "{ours:?} of {theirs:?}"
    );
    ensure!(ours.contains(&source), "{ours:?}");
    cx.tote(&["rm", "-v", "db", "again"]).output()?.exits(0).map(drop)
}

fn readonly(cx: &Context) -> Result<()> {
    database(cx)?;
    cx.shell(
        &["--volumes-from", "db:ro"],
        "echo x > /unnamed/file || echo x > /named/file || echo refused",
    )?
    .has_out("refused\n")?;
    // A read-only mount stays read-only.
    cx.shell(
        &["--volumes-from", "db:rw"],
        "echo x > /bind/file || echo refused",
    )?
    .has_out("refused\n")?;
    cx.tote(&["rm", "-v", "db"]).output()?.exits(0).map(drop)
}

fn refused(cx: &Context) -> Result<()> {
    cx.shell(&["--volumes-from", "nobody"], "true")?
        .refuses(125, &["No such container: nobody"])?;
    cx.tote(&["create", "--volumes-from", "nobody", &cx.image(), "true"])
        .output()?
        .refuses(1, &["No such container: nobody"])?;
    cx.shell(&["--volumes-from", "nobody:nocopy"], "true")?
        .refuses(125, &["--volumes-from", "invalid mode: nocopy"])?;
    cx.nothing_left()
}

fn outlives(cx: &Context) -> Result<()> {
    database(cx)?;
    let script = "cat /unnamed/file 2>/dev/null || echo first > /unnamed/file";
    cx.tote(&[
        "create",
        "--name",
        "user",
        "--volumes-from",
        "db",
        &cx.image(),
        "sh",
        "-c",
        script,
    ])
    .output()?
    .exits(0)?;
    cx.tote(&["start", "-a", "user"]).output()?.prints("")?;
    // A former container with --rm has not removed anything.
    cx.shell(&["--volumes-from", "db"], "cat /unnamed/file")?
        .prints("first\n")?;
    // The container's anonymous volumes go with it, except those in use.
    cx.tote(&["rm", "-v", "db"]).output()?.exits(0)?;
    cx.tote(&["start", "-a", "user"]).output()?.prints("first\n")?;
    ensure!(volumes(cx)? == 2, "the named one and that without a name");
    cx.tote(&["rm", "-v", "user"]).output()?.exits(0)?;
    cx.tote(&["volume", "ls", "-q"])
        .output()?
        .prints("named\n")
        .map(drop)
}

/// Starts a container with an anonymous volume, which goes with it as soon as its input is closed.
fn an_owner(cx: &Context) -> Result<Running> {
    let script = "echo kept > /data/file; echo ready; cat";
    let image = cx.image();
    let words = ["-i", "--name", "owner", "-v", "/data", &image, "sh", "-c", script];
    let mut owner = cx.run_command(&words).spawn()?;
    owner.expect("ready")?;
    // The program may be faster than its parent, which writes down that it is there.
    let deadline = Instant::now() + patience();
    while cx.tote(&["inspect", "owner"]).output()?.code != 0 {
        ensure!(Instant::now() < deadline, "nobody has written down the owner");
    }
    Ok(owner)
}

fn passing(cx: &Context) -> Result<()> {
    let mut owner = an_owner(cx)?;
    cx.tote(&[
        "create",
        "--name",
        "user",
        "--volumes-from",
        "owner",
        &cx.image(),
        "cat",
        "/data/file",
    ])
    .output()?
    .exits(0)?;
    // Both containers have the same volume.
    cx.tote(&["exec", "owner", "sh", "-c", "echo more >> /data/file"])
        .output()?
        .exits(0)?;
    owner.close_input();
    owner.finish()?.exits(0)?;
    cx.tote(&["start", "-a", "user"])
        .output()?
        .prints("kept\nmore\n")?;
    cx.tote(&["rm", "-v", "user"]).output()?.exits(0)?;
    ensure!(volumes(cx)? == 0, "it has gone with the last that had it");
    // If it is the last user, the volume goes with its own container.
    let mut owner = an_owner(cx)?;
    cx.shell(&["--volumes-from", "owner"], "cat /data/file")?
        .prints("kept\n")?;
    owner.close_input();
    owner.finish()?.exits(0)?;
    ensure!(volumes(cx)? == 0, "it has gone with its container");
    cx.nothing_left()
}
