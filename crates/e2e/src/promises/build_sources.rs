//! `tote build`: sources of files and images, and destinations of the result.

use super::build::{build, in_it, nothing_left, write};
use super::registry::{layer, publish};
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs;
use std::sync::Mutex;
use std::sync::mpsc;
use tote_testkit::{FakeRegistry, Reply, digest};

pub(super) const TESTS: &[Test] = &[
    test("build::a_missing_base_is_pulled", &[Need::ManyIds], pulls),
    test("build::add_downloads", &[Need::ManyIds], downloads),
    test("build::copy_parents_and_exclude", &[Need::ManyIds], parents),
    test(
        "build::a_context_on_standard_input",
        &[Need::ManyIds, Need::Program("tar")],
        from_stdin,
    ),
    test(
        "build::the_result_elsewhere",
        &[Need::ManyIds, Need::Program("tar")],
        outputs,
    ),
    test("build::what_is_killed_leaves_nothing", &[Need::ManyIds], killed),
];

fn pulls(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    publish(&registry, "team/base:1", &layer(cx)?);
    let base = format!("{}/team/base:1", registry.host());
    let file =
        format!("FROM {base} AS one\nRUN echo one > /one\nFROM {base}\nCOPY --from={base} /bin/sh /copied\n");
    write(cx, "Dockerfile", &file)?;
    let context = cx.path("context")?;
    let go = |options: &[&str]| {
        cx.tote(&[&["build", "-t", "it"], options, &[&context]].concat())
            .output()
    };
    go(&["--pull=never"])?.exits(1)?.has_err("no such image")?;
    ensure!(registry.log().is_empty(), "--pull=never asked the registry");
    go(&["--target", "one"])?.exits(0)?.has_out("Pull complete")?;
    let asked = registry.log().len();
    go(&[])?.exits(0)?;
    ensure!(registry.log().len() == asked, "what is here was asked for");
    go(&["--pull"])?.exits(0)?.has_out("Using cache")?;
    let heads = registry.log().len() - asked;
    ensure!(
        (1..=2).contains(&heads),
        "--pull asked {heads} times for one image"
    );
    go(&["--pull=sometimes"])?.exits(1)?.has_err("sometimes")?;
    go(&["--platform", "linux/s390x"])?.exits(1)?.has_err("s390x")?;
    in_it(cx, "test -x /copied")?.exits(0)?;
    let alone = cx
        .tote(&["build", "-q", "-"])
        .input(format!("FROM {base}\n").as_bytes());
    let id = cx.tote(&["image", "inspect", "-f", "{{.Id}}", &base]).output()?;
    alone.output()?.prints(&id.out())?;
    cx.tote(&["rmi", "-f", "it", &base]).output()?.exits(0)?;
    nothing_left(cx)
}

fn downloads(cx: &Context) -> Result<()> {
    write(cx, "packed/inner", "content")?;
    let dir = cx.scratch().join("context");
    let packed = crate::invocation::Invocation::new(["tar", "-czf", "packed.tar.gz", "packed"]);
    packed.within(&dir).output()?.exits(0)?;
    let archive = fs::read(dir.join("packed.tar.gz"))?;
    let server = FakeRegistry::start();
    let sent = archive.clone();
    server.hook(move |request| match &*request.path {
        "/moved/file%20one.tgz" => Some(
            Reply::status(200)
                .header("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")
                .body(sent.clone()),
        ),
        "/file%20one.tgz" => Some(Reply::status(302).header("location", "/moved/file%20one.tgz")),
        _ => Some(Reply::status(404)),
    });
    let url = format!("http://{}/file%20one.tgz", server.host());
    let sum = digest(&archive);
    let rest = format!(
        "ADD {url} /to/\nADD --chmod=755 --chown=3:4 {url} /named\nADD --unpack=true {url} /in/\n\
         ADD --checksum={sum} {url} /checked\n"
    );
    build(cx, &[], &rest)?.exits(0)?;
    in_it(cx, "cd /to; stat -c '%a %u:%g %Y' 'file one.tgz' /named; cat /in/packed/inner; cmp /named /checked && echo same")?
        .has_out("600 0:0 784111777\n755 3:4 784111777\ncontentsame\n")?;
    let before = server.count("GET", "/moved/");
    build(cx, &[], &rest)?.exits(0)?.has_out("Using cache")?;
    let asked = server.count("GET", "/moved/") - before;
    ensure!(asked == 3, "asked {asked} times: what has a checksum need not be");
    let other = digest(b"something else");
    for (line, says) in [
        (format!("ADD --checksum={other} {url} /x\n"), "hashes to"),
        (format!("ADD --checksum=sha256:12 {url} /x\n"), "checksum"),
        (
            format!("ADD --checksum={sum} packed /x\n"),
            "checksum can't be specified",
        ),
        (format!("ADD http://{}/none /x\n", server.host()), "/none"),
        (format!("ADD http://{}/ /x/\n", server.host()), "download"),
    ] {
        build(cx, &[], &line)?
            .exits(1)?
            .has_err("line 4")?
            .has_err(says)?;
    }
    nothing_left(cx)
}

fn parents(cx: &Context) -> Result<()> {
    for name in ["a/b/c.txt", "a/b/d.log", "a/e.txt", "f.txt"] {
        write(cx, name, name)?;
    }
    build(
        cx,
        &[],
        "COPY --parents ./a/./b/*.txt f.txt /pivot/\nCOPY --parents **/*.txt /deep/\n\
         COPY --exclude=b/*.log --exclude=e.* a /without/\nCOPY --link f.txt /linked\n",
    )?
    .exits(0)?;
    in_it(cx, "find /pivot /deep /without /linked -type f | sort")?.prints(
        "/deep/a/b/c.txt\n/deep/a/e.txt\n/deep/f.txt\n/linked\n/pivot/b/c.txt\n/pivot/f.txt\n/without/b/c.txt\n",
    )?;
    build(cx, &[], "COPY --parents none/*.txt /x/\n")?.exits(0)?;
    in_it(cx, "test ! -e /x")?.exits(0)?;
    build(cx, &[], "COPY --parents none/a.txt /x/\n")?
        .exits(1)?
        .has_err("none/a.txt")?;
    nothing_left(cx)
}

fn from_stdin(cx: &Context) -> Result<()> {
    write(cx, "Dockerfile", "FROM scratch\nCOPY file /there\n")?;
    write(cx, "file", "content")?;
    let dir = cx.scratch().join("context");
    let packed = crate::invocation::Invocation::new(["tar", "-czf", "../context.tgz", "."]);
    packed.within(&dir).output()?.exits(0)?;
    let archive = fs::read(cx.scratch().join("context.tgz"))?;
    let id = cx.path("id")?;
    let built = cx
        .tote(&["build", "-q", "-t", "one:1", "-t", "two:2", "--iidfile", &id, "-"])
        .input(&archive)
        .output()?;
    built
        .quietly()?
        .prints(&format!("{}\n", fs::read_to_string(&id)?))?;
    cx.tote(&["images", "-q"]).output()?.exits(0)?;
    cx.tote(&["image", "inspect", "one:1", "two:2"])
        .output()?
        .exits(0)?;
    // A Dockerfile without a context, and one beside a context.
    cx.tote(&["build", "-"])
        .input(b"FROM scratch\nLABEL a=b\n")
        .output()?
        .exits(0)?;
    let context = cx.path("context")?;
    cx.tote(&["build", "-q", "-f", "-", &context])
        .input(b"FROM scratch\nCOPY file /elsewhere\n")
        .output()?
        .exits(0)?;
    let refused = cx.tote(&["build", "-f", "-", "-"]).input(b"").output()?;
    refused.exits(1)?.has_err("stdin")?;
    nothing_left(cx)
}

fn outputs(cx: &Context) -> Result<()> {
    write(cx, "file", "content")?;
    write(
        cx,
        "Dockerfile",
        "FROM scratch\nCOPY --chown=5:6 file /dir/there\n",
    )?;
    let (context, out) = (cx.path("context")?, cx.path("out")?);
    cx.tote(&["build", "-o", &out, &context]).output()?.exits(0)?;
    let there = fs::read_to_string(cx.scratch().join("out/dir/there"))?;
    ensure!(there == "content", "{there}");
    let archive = cx.path("out.tar")?;
    let option = format!("type=tar,dest={archive}");
    cx.tote(&["build", "--output", &option, &context])
        .output()?
        .exits(0)?;
    let listed = crate::invocation::Invocation::new(["tar", "--numeric-owner", "-tvf", &archive]).output()?;
    listed.exits(0)?.has_out("5/6")?.has_out("dir/there")?;
    let piped = cx.tote(&["build", "-o", "-", &context]).output()?;
    piped.exits(0)?.has_err("Step 2/2")?;
    ensure!(piped.out().contains("dir/there"), "no archive on standard output");
    nothing_left(cx)
}

fn killed(cx: &Context) -> Result<()> {
    for (signal, code) in [(Signal::INT, -2), (Signal::TERM, -15), (Signal::KILL, -9)] {
        let server = FakeRegistry::start();
        let (asked, is_asked) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        let (asked, wait) = (Mutex::new(asked), Mutex::new(wait));
        server.hook(move |_| {
            let (asked, wait) = (asked.lock().ok()?, wait.lock().ok()?);
            asked.send(()).ok()?;
            // The server never answers.
            wait.recv().ok();
            Some(Reply::status(404))
        });
        let file = format!(
            "FROM scratch\nCOPY Dockerfile /x\nADD http://{}/file /y\n",
            server.host()
        );
        write(cx, "Dockerfile", &file)?;
        let context = cx.path("context")?;
        let running = cx.tote(&["build", &context]).spawn()?;
        is_asked
            .recv_timeout(patience())
            .context("nobody asked the server")?;
        let guard = processes::descendants(running.pid())
            .into_iter()
            .next()
            .context("there is no guard")?;
        let gone = processes::pidfd(guard.pid)?;
        running.signal(signal)?;
        running.finish()?.exits(code)?;
        processes::wait_end(&gone, "the guard of the build", patience())?;
        drop(go_on);
        nothing_left(cx)?;
    }
    Ok(())
}
