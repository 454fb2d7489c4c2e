//! Changes of containers in virtual machines: listed, committed and exported, of running and stopped ones.

use super::changes::{DIFF, SCRIPT, image, listing};
use super::life::done;
use super::vm::{QEMU, prepare_template, ready};
use crate::context::Context;
use crate::need::{Need, is_root};
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

const NEEDS: &[Need] = &[QEMU, Need::GuestKernel, Need::Program("mkfs.ext4")];

pub(super) const TESTS: &[Test] = &[
    test(
        "vm_changes::they_are_those_of_a_container_without_a_machine",
        NEEDS,
        round,
    )
    .slow(5),
    test("vm_changes::a_commit_holds_writes", NEEDS, held).slow(4),
    test("vm_changes::what_cannot_be_had", NEEDS, refusals).slow(3),
];

/// Starts a container `vm` of this image, which does this and says `ready`.
fn start(cx: &Context, image: &str, script: &str) -> Result<()> {
    let script = format!("{script}; echo ready; trap 'exit 5' TERM; while :; do sleep 0.2; done");
    let run = ["run", "-d", "--name", "vm", "--isolation", "vm", "-e", "A=b"];
    done(cx, &[&run[..], &[image, "sh", "-c", &script]].concat())?;
    ready(cx, "ready")
}

fn round(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    image(cx)?;
    start(cx, "base:1", SCRIPT)?;
    let look = || -> Result<String> {
        cx.tote(&["diff", "vm"]).output()?.prints(DIFF)?.quietly()?;
        listing(cx, "vm")
    };
    let running = look()?;
    let options = [
        "commit",
        "-a",
        "Ada",
        "-m",
        "why",
        "-c",
        "CMD [\"cat\", \"/home/new-again\"]",
        "vm",
        "early",
    ];
    cx.tote(&options).output()?.exits(0)?.quietly()?;
    let format = "{{.Author}} {{.Comment}} {{json .Config.Cmd}} {{json .Config.Env}}";
    let said = done(cx, &["image", "inspect", "-f", format, "early"])?;
    ensure!(
        said.starts_with(r#"Ada why ["cat","/home/new-again"]"#) && said.contains("A=b"),
        "{said}"
    );
    done(cx, &["stop", "vm"])?;
    let stopped = look()?;
    ensure!(
        running == stopped,
        "other files than before:\n{running}\n{stopped}"
    );
    cx.tote(&["commit", "vm", "late"]).output()?.exits(0)?.quietly()?;
    // It is one layer more, of the same content.
    let layers = |image: &str| done(cx, &["image", "inspect", "-f", "{{json .RootFS.Layers}}", image]);
    ensure!(
        layers("early")? == layers("late")?,
        "another layer when it is stopped"
    );
    cx.run(&["early"])?.prints("new\n")?;
    done(cx, &["create", "--name", "two", "late", "true"])?;
    let here = listing(cx, "two")?;
    ensure!(running == here, "not what the container was:\n{running}\n{here}");
    // It starts as ever, and without changes there is not another layer.
    done(cx, &["start", "vm"])?;
    done(cx, &["rm", "-f", "-t", "0", "vm", "two"])?;
    done(
        cx,
        &["create", "--name", "vm", "--isolation", "vm", "base:1", "true"],
    )?;
    cx.tote(&["diff", "vm"]).output()?.prints("")?;
    cx.tote(&["commit", "vm", "same"]).output()?.exits(0)?;
    ensure!(layers("base:1")? == layers("same")?, "a layer for nothing");
    done(cx, &["rm", "vm"])?;
    cx.nothing_left()
}

fn held(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    // Much is read between a file and another one, which say the same or follow one another.
    let script = "dd if=/dev/urandom of=/m bs=1M count=24 2>/dev/null; \
                  (i=0; while :; do i=$((i+1)); echo $i >/n; mv /n /a; echo $i >/n; mv /n /z; done) & \
                  until test -e /z; do :; done";
    start(cx, "app", script)?;
    let apart = |image: &str| -> Result<i64> {
        let said = cx.run(&[image, "sh", "-c", "echo $(($(cat /a) - $(cat /z)))"])?;
        said.exits(0)?;
        said.out().trim().parse().context("a number")
    };
    done(cx, &["commit", "vm", "held"])?;
    let between = apart("held")?;
    ensure!((0..=1).contains(&between), "{between} writes between two files");
    done(cx, &["commit", "--pause=false", "vm", "going"])?;
    let between = apart("going")?;
    ensure!(between < 0, "the container stood still: {between}");
    // A commit that is killed leaves nothing held.
    let mut killed = cx.tote(&["commit", "vm", "killed"]).spawn()?;
    let pid = killed.pid();
    let read = || -> Result<u64> {
        let io = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.context("it reads")?.parse().context("a number")
    };
    // What a user's command reads is not to be seen once it has other ids, but that it has asked is.
    while if is_root() {
        read()? < 6 << 20
    } else {
        processes::descendants(pid).is_empty()
    } {
        std::thread::yield_now();
    }
    killed.signal(Signal::KILL)?;
    killed.wait()?;
    let said = done(cx, &["exec", "vm", "sh", "-c", "echo on >/on && cat /on"])?;
    ensure!(said == "on", "{said}");
    cx.tote(&["images", "-q", "killed"]).output()?.prints("")?;
    // What is left of the image in the store goes as ever.
    done(cx, &["image", "prune", "-f"])?;
    done(cx, &["rm", "-f", "-t", "0", "vm"])?;
    cx.nothing_left()
}

fn refusals(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    let run = |name: &str, options: &[&str]| {
        let run = ["run", "-d", "--name", name, "--isolation", "vm"];
        done(cx, &[&run[..], options, &["app", "sleep", "1000000"]].concat())
    };
    let refused = |name: &str, reason: &str| -> Result<()> {
        for words in [&["diff", name][..], &["commit", name, "other"], &["export", name]] {
            cx.tote(words).output()?.refuses(1, &[reason])?;
        }
        Ok(())
    };
    run("brief", &["--rm"])?;
    refused("brief", "was started with --rm")?;
    run("small", &["--tmpfs-size", "16m"])?;
    refused("small", "keeps its writes in the memory of its virtual machine")?;
    done(cx, &["rm", "-f", "-t", "0", "brief", "small"])?;
    run("vm", &[])?;
    if is_root() {
        done(cx, &["exec", "vm", "true"])?;
        done(cx, &["pause", "vm"])?;
        refused("vm", "its virtual machine is paused")?;
        done(cx, &["unpause", "vm"])?;
    }
    done(cx, &["rm", "-f", "-t", "0", "vm"])?;
    cx.nothing_left()
}
