//! `tote build`: stages that do not need one another are built at once.

use super::build::{build, in_it, nothing_left, write};
use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::need::Need;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs;
use std::os::unix::net::UnixListener;
use std::time::Instant;

pub(super) const TESTS: &[Test] = &[
    test("build::stages_are_built_at_once", &[Need::ManyIds], at_once),
    test(
        "build::any_number_of_jobs_makes_one_image",
        &[Need::ManyIds],
        one_image,
    ),
    test(
        "build::a_failing_stage_ends_the_others",
        &[Need::ManyIds],
        failing,
    ),
    test("build::ended_stages_leave_nothing", &[Need::ManyIds], ended),
    test("build::one_key_is_made_once_at_a_time", &[Need::ManyIds], one_key),
    test("build::stages_wait_for_locked_caches", &[Need::ManyIds], locked),
    test("build::stages_have_their_own_secrets", &[Need::ManyIds], secrets),
];

/// Begins a script with `meet OWN OTHER`, which waits until the other script calls it as well.
const MEET: &str = "meet() { touch /shared/$1; i=0; while [ ! -e /shared/$2 ]; do sleep 0.02; i=$((i + 1)); \
    [ $i -lt 2000 ] || exit 9; done; }; ";

/// Makes a directory that all commands have as `/shared`; returns the option.
fn shared(cx: &Context, name: &str) -> Result<String> {
    Ok(format!("{}:/shared", cx.directory(name)?))
}

/// Each of two commands waits for the other.
fn at_once(cx: &Context) -> Result<()> {
    let run = |own: &str, other: &str| {
        format!(
            "FROM base AS {own}\nRUN {MEET}meet {own} {other}; echo from {own}; echo of {own} > /{own}; echo beside >&2\n"
        )
    };
    let rest = format!(
        "{}{}FROM base\nCOPY --from=one /one /\nCOPY --from=two /two /\nRUN cat /one /two\n",
        run("one", "two"),
        run("two", "one")
    );
    let volume = shared(cx, "shared")?;
    let built = build(cx, &["--jobs", "2", "-v", &volume], &rest)?;
    built
        .exits(0)?
        .has_out("[stage 2/4 one] from one\n")?
        .has_out("[stage 3/4 two] from two\n")?
        .has_out("[stage 4/4] of two\n")?
        .has_out("[stage 1/4 base] Step 1/11 : FROM scratch AS base\n")?
        .has_out("[stage 4/4] Step 11/11 : RUN cat /one /two\n")?
        .has_err("[stage 3/4 two] beside\n")?;
    in_it(cx, "cat /one /two")?.prints("of one\nof two\n")?;
    // Both files are there, so no command waits.
    let alone = build(cx, &["--jobs", "1", "--no-cache", "-v", &volume], &rest)?;
    alone.exits(0)?.has_out("\nfrom two\n")?;
    ensure!(!alone.out().contains("[stage"), "{}", alone.transcript());
    let quiet = build(cx, &["--jobs", "2", "--no-cache", "-q", "-v", &volume], &rest)?;
    let lines = quiet.exits(0)?.quietly()?.out().lines().count();
    ensure!(lines == 1, "{}", quiet.transcript());
    // Stages that need one another have nothing to be told apart by.
    let chain = build(cx, &["--jobs", "0"], "FROM base\nRUN echo chain\n")?;
    chain.exits(0)?.has_out("\nchain\n")?;
    build(cx, &["--jobs", "some"], "")?.refuses(125, &["--jobs", "some"])?;
    nothing_left(cx)
}

fn one_image(cx: &Context) -> Result<()> {
    write(cx, "mark", "precious")?;
    let rest = "ARG SIDE=l\nFROM base AS left\nRUN echo $SIDE > /left; mkdir -p /d/e; ln /left /d/hard\nENV A=b\n\
        FROM base AS right\nARG SIDE\nCOPY mark /right\nWORKDIR /w\nRUN test -z \"$A\" && echo ${SIDE:-none} > /w/x\n\
        FROM left\nCOPY --from=right /right /w /\nRUN --mount=from=right,source=/w,target=/r cat /r/x > /read\nLABEL a=$A\n";
    let mut ids = Vec::new();
    for jobs in ["1", "4", "0"] {
        let id = cx.path("id")?;
        let options = [
            "--no-cache",
            "--jobs",
            jobs,
            "--build-arg",
            "SOURCE_DATE_EPOCH=1000000000",
            "-o",
            "type=image,rewrite-timestamp=true",
            "--iidfile",
            &id,
        ];
        build(cx, &options, rest)?.exits(0)?;
        ids.push(fs::read_to_string(&id)?);
    }
    ensure!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    // Each finds what the other has made.
    for (maker, finder) in [("4", "1"), ("1", "4")] {
        build(cx, &["--no-cache", "--jobs", maker], rest)?.exits(0)?;
        let found = build(cx, &["--jobs", finder], rest)?;
        let (steps, cached) = (
            found.out().matches(" : ").count(),
            found.out().matches("Using cache").count(),
        );
        // Four of the lines are those of FROM.
        ensure!(found.code == 0 && steps == cached + 4, "{}", found.transcript());
    }
    nothing_left(cx)
}

fn failing(cx: &Context) -> Result<()> {
    let rest = format!(
        "FROM base AS slow\nRUN touch /kept\nRUN {MEET}meet slow bad; sleep 1000; true\n\
         FROM base AS bad\nRUN {MEET}meet bad slow; exit 7\n\
         FROM base\nCOPY --from=slow /kept /\nCOPY --from=bad /b /\n"
    );
    let volume = shared(cx, "shared")?;
    let begin = Instant::now();
    build(cx, &["--jobs", "2", "-v", &volume], &rest)?
        .exits(1)?
        .has_err("stage 3/4 bad: line 8: RUN ")?
        .has_err("returned a non-zero code: 7")?;
    ensure!(begin.elapsed() < patience(), "the other stage went on");
    // What the other stage had made is in the cache.
    let again = build(
        cx,
        &["--target", "slow", "-v", &volume, "--jobs", "1"],
        &rest.replace("sleep 1000", ":"),
    )?;
    again.exits(0)?.has_out("RUN touch /kept\n ---> Using cache\n")?;
    nothing_left(cx)
}

/// Waits until a file of a command is there.
fn begun(cx: &Context, dir: &str, name: &str) -> Result<()> {
    let (path, since) = (cx.scratch().join(dir).join(name), Instant::now());
    while !path.exists() {
        ensure!(since.elapsed() < patience(), "{name} has not begun");
        std::thread::yield_now();
    }
    Ok(())
}

fn ended(cx: &Context) -> Result<()> {
    let stage = |name: &str, trap: &str| {
        // A shell that waits for a command is not ended by an INT of its own, and one with a trap does not become the command.
        let after = match trap.is_empty() {
            true => "exec sleep 1000",
            false => "sleep 1000; sleep 1000",
        };
        format!("FROM base AS {name}\nRUN {trap}touch /shared/{name}; {after}\n")
    };
    let last = "FROM base\nCOPY --from=one /x /\nCOPY --from=two /y /\n";
    let deaf = "trap '' INT TERM; ";
    for (place, (trap, signals, code)) in [
        ("", &[Signal::INT][..], 130),
        ("", &[Signal::INT, Signal::INT], 130),
        ("", &[Signal::TERM], 143),
        ("", &[Signal::KILL], -9),
        // The third one kills.
        (deaf, &[Signal::INT, Signal::INT, Signal::INT], 130),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = format!("shared{place}");
        let volume = shared(cx, &dir)?;
        build(cx, &[], "")?.exits(0)?;
        let text = fs::read_to_string(cx.scratch().join("context/Dockerfile"))?;
        write(
            cx,
            "Two",
            &[&text, &*stage("one", ""), &*stage("two", trap), last].concat(),
        )?;
        let (file, context) = (cx.path("context/Two")?, cx.path("context")?);
        let words = [
            "build",
            "--jobs",
            "2",
            "--no-cache",
            "-v",
            &volume,
            "-f",
            &file,
            &context,
        ];
        let running = cx.tote(&words).spawn()?;
        begun(cx, &dir, "one")?;
        begun(cx, &dir, "two")?;
        ends_whole(running, signals, code)?;
        // After a SIGKILL the next start clears up.
        cx.run(&["it", "true"])?.exits(0)?;
        nothing_left(cx)?;
    }
    cx.tote(&["rmi", "-f", "it"]).output()?.exits(0)?;
    nothing_left(cx)
}

/// Sends signals to a build, and waits for its end and for that of all processes below it.
fn ends_whole(running: Running, signals: &[Signal], code: i32) -> Result<()> {
    let below = processes::descendants(running.pid());
    ensure!(below.len() > 3, "{} processes are below the build", below.len());
    let held: Vec<_> = below
        .iter()
        .map(|process| processes::pidfd(process.pid).with_context(|| format!("hold {}", process.pid)))
        .collect::<Result<_>>()?;
    for signal in signals {
        running.signal(*signal)?;
    }
    running.finish()?.exits(code)?;
    for held in &held {
        processes::wait_end(held, "a process of the build", patience())?;
    }
    Ok(())
}

/// Two stages have one instruction with one key: the second takes what the first has made.
fn one_key(cx: &Context) -> Result<()> {
    // Each waits for a while for the other, which is not to come.
    let both = "RUN echo x >> /shared/log; i=0; while [ $(wc -l < /shared/log) = 1 ] && [ $i -lt 50 ]; do sleep 0.02; \
        i=$((i + 1)); done; cat /proc/sys/kernel/random/uuid > /made\n";
    let rest = format!(
        "FROM base AS one\n{both}FROM base AS two\n{both}RUN echo more > /more\n\
         FROM base\nCOPY --from=one /made /one\nCOPY --from=two /made /more /\n"
    );
    let volume = shared(cx, "shared")?;
    build(cx, &["--jobs", "4", "-v", &volume], &rest)?.exits(0)?;
    let log = fs::read_to_string(cx.scratch().join("shared/log"))?;
    ensure!(log == "x\n", "the command ran more than once: {log:?}");
    in_it(cx, "cmp /one /made && cat /more")?.prints("more\n")?;
    nothing_left(cx)
}

/// Two stages take two caches in opposite orders, and neither sees the other at work.
fn locked(cx: &Context) -> Result<()> {
    let stage = |name: &str, [first, second]: [&str; 2]| {
        let mount = |id: &str| format!("--mount=type=cache,id={id},target=/{id},sharing=locked");
        format!(
            "FROM base AS {name}\nRUN {} {} {} for n in 1 2 3 4 5; do test ! -e /x/in && test ! -e /y/in && touch /x/in /y/in && \
             sleep 0.05 && rm /x/in /y/in || exit 8; done; touch /{name}\n",
            mount(first),
            mount(second),
            // A cache that a command mounts twice has one lock.
            mount(first).replace(&format!("target=/{first}"), "target=/again"),
        )
    };
    let rest = [
        &*stage("one", ["x", "y"]),
        &*stage("two", ["y", "x"]),
        "FROM base\nCOPY --from=one /one /\nCOPY --from=two /two /\n",
    ]
    .concat();
    build(cx, &["--jobs", "2"], &rest)?.exits(0)?;
    nothing_left(cx)
}

/// Two commands at once have scripts, secrets and agents, and each its own.
fn secrets(cx: &Context) -> Result<()> {
    let _listener =
        UnixListener::bind(cx.scratch().join("agent")).context("listen for the agent's clients")?;
    let agent = format!("default={}", cx.path("agent")?);
    let stage = |own: &str, other: &str| {
        format!(
            "FROM base AS {own}\nRUN --mount=type=secret,id={own} --mount=type=ssh,mode=0640,required --mount=type=bind,rw,target=/ctx <<END\n\
             #!/bin/sh\n{}test \"$(cat /run/secrets/{own})\" = secret-{own} || exit 5\necho {own} > /ctx/{own}\nmeet {own} {other}\n\
             test ! -e /ctx/{other} && test -S \"$SSH_AUTH_SOCK\" && test \"$(cat /run/secrets/{own})\" = secret-{own} && touch /{own}\nEND\n",
            MEET
        )
    };
    let rest = [
        &*stage("one", "two"),
        &*stage("two", "one"),
        "FROM base\nCOPY --from=one /one /\nCOPY --from=two /two /\n",
    ]
    .concat();
    let (one, two) = (cx.file("one", "secret-one")?, cx.file("two", "secret-two")?);
    let (one, two) = (format!("id=one,src={one}"), format!("id=two,src={two}"));
    let volume = shared(cx, "shared")?;
    let options = [
        "--jobs", "2", "--ssh", &agent, "--secret", &one, "--secret", &two, "-v", &volume,
    ];
    build(cx, &options, &rest)?.exits(0)?;
    in_it(cx, "ls -d /one /two; ls /run/secrets /ctx")?.has_out("/one\n/two\n")?;
    nothing_left(cx)
}
