//! Small habits of people who know docker or podman, and the words that they get for an answer.

use super::life::{done, empty};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

pub(super) const TESTS: &[Test] = &[
    test("words::sources_of_mounts", &[], sources),
    test("words::what_podman_and_distrobox_give", &[], podmans),
    test("words::events_have_the_name_of_now", &[], renamed),
    test("words::a_health_check_of_a_commit", &[], committed),
    test("words::ipc_that_is_not_shared", &[], ipc),
    test("words::who_gives_input_alone_gets_the_id", &[], input_alone),
];

/// A directory above or beside is found by its short name; one whose name is not UTF-8 is refused, and none is made in its place.
fn sources(cx: &Context) -> Result<()> {
    let image = cx.image();
    let project = cx.scratch().join("project");
    fs::create_dir_all(project.join("sub"))?;
    fs::write(project.join("f"), "found\n")?;
    fs::create_dir_all(project.join("c,d"))?;
    fs::write(project.join("c,d/f"), "with a comma\n")?;
    for (words, expected) in [
        (["-v", "..:/m"], "found\n"),
        (["--mount", "type=bind,\"src=../c,d\",dst=/m"], "with a comma\n"),
    ] {
        let run = cx.run_command(&[&words[..], &[&image, "cat", "/m/f"]].concat());
        run.within(&project.join("sub")).output()?.prints(expected)?;
    }
    let odd = project.join(std::ffi::OsStr::from_bytes(b"n\xe9"));
    fs::create_dir(&odd)?;
    let run = cx.run_command(&["-v", ".:/m", &image, "true"]);
    run.within(&odd).output()?.fails()?.has_err("is not UTF-8")?;
    ensure!(
        fs::read_dir(&project)?.count() == 4,
        "a directory was made beside the one that was meant"
    );
    let (read_only, file) = (cx.directory("read-only")?, cx.file("file", "")?);
    let (above, below) = (format!("{read_only}:/foo:ro"), format!("{file}:/foo/new.txt"));
    cx.run(&["-v", &above, "-v", &below, &image, "true"])?
        .fails()?
        .has_err("make the file or directory in the source of that mount first")?;
    cx.run(&["scratch", "true"])?
        .exits(125)?
        .has_err("'scratch' is a reserved name")?;
    empty(cx)
}

fn podmans(cx: &Context) -> Result<()> {
    let (root, image) = cx.own_rootfs("own")?;
    fs::create_dir_all(root.join("etc"))?;
    fs::write(root.join("etc/resolv.conf"), "# of the image\n")?;
    let devpts = "--mount=type=devpts,destination=/dev/pts";
    let words = ["--ulimit=host", devpts, "--network=host", "--dns=none", &image];
    let output = cx.run(&[&words[..], &["cat", "/etc/resolv.conf"]].concat())?;
    output.prints("# of the image\n")?;
    cx.run(&["--dns=nobody", &image, "true"])?
        .exits(125)?
        .has_err("nobody")?;
    empty(cx)
}

fn renamed(cx: &Context) -> Result<()> {
    let check = ["--health-cmd=true", "--health-interval=1s"];
    let image = cx.image();
    let run = [
        &["run", "-d", "--name", "a"],
        &check[..],
        &[&image, "sleep", "1000"],
    ];
    done(cx, &run.concat())?;
    done(cx, &["rename", "a", "b"])?;
    done(cx, &["exec", "b", "true"])?;
    done(cx, &["kill", "b"])?;
    done(cx, &["wait", "b"])?;
    let told = done(
        cx,
        &[
            "events",
            "--since=600s",
            "--until=0s",
            "--format={{.Action}} {{.Actor.Attributes.name}}",
        ],
    )?;
    let after = told.split_once("rename b").context("no event of the renaming")?.1;
    for action in ["exec_die", "kill", "die"] {
        let line = after.lines().find(|line| line.starts_with(action));
        ensure!(line == Some(&format!("{action} b")), "{action}: saw {told}");
    }
    ensure!(!after.contains(" a\n"), "the old name in {told}");
    done(cx, &["rm", "b"])?;
    empty(cx)
}

fn committed(cx: &Context) -> Result<()> {
    done(cx, &["create", "--name", "c", &cx.image(), "true"])?;
    let change = "HEALTHCHECK --interval=5s CMD true";
    done(cx, &["commit", "-c", change, "c", "checked"])?;
    let seen = done(cx, &["inspect", "-f", "{{json .Config.Healthcheck}}", "checked"])?;
    ensure!(
        seen == r#"{"Interval":5000000000,"Test":["CMD-SHELL","true"]}"#,
        "saw {seen}"
    );
    cx.tote(&["inspect", "-f", "{{.State.Health.Status}}", "c"])
        .output()?
        .fails()?
        .has_err("is not set here")?;
    done(cx, &["rm", "c"])?;
    done(cx, &["rmi", "checked"])?;
    empty(cx)
}

fn ipc(cx: &Context) -> Result<()> {
    let image = cx.image();
    for (own, is_shared) in [("--ipc=private", false), ("--ipc=shareable", true)] {
        done(cx, &["run", "-d", "--name", "p", own, &image, "sleep", "1000"])?;
        let output = cx.run(&["--ipc=container:p", &image, "true"])?;
        match is_shared {
            true => output.exits(0)?,
            false => output.exits(125)?.has_err("non-shareable IPC")?,
        };
        done(cx, &["rm", "-f", "p"])?;
    }
    empty(cx)
}

fn input_alone(cx: &Context) -> Result<()> {
    let run = cx.tote(&["run", "-i", "-a", "stdin", "--name", "c", &cx.image(), "cat"]);
    let output = run.input(b"text\n").output()?;
    let id = done(cx, &["inspect", "-f", "{{.Id}}", "c"])?;
    output.prints(&format!("{id}\n"))?;
    cx.tote(&["logs", "c"]).output()?.prints("text\n")?;
    done(cx, &["rm", "c"])?;
    empty(cx)
}
