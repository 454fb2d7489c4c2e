//! Pools: sandboxes that are started in advance, each used once.

use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::processes::{self, Process};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs;
use std::time::Instant;

pub(super) const TESTS: &[Test] = &[
    test("pool::each_is_used_once_and_made_again", &[], once),
    test("pool::codes_streams_and_signals", &[], codes),
    test("pool::what_may_still_be_said", &[], said),
    test("pool::what_may_not_be_said", &[], refused),
    test("pool::terminals", &[], terminals),
    test("pool::many_takers_at_once", &[], many),
    test("pool::what_was_taken_is_a_container", &[], container),
    test("pool::an_empty_one_is_no_error", &[], empty),
    test("pool::another_size_and_other_options", &[], changed),
    test("pool::its_image_and_volumes_are_in_use", &[], in_use),
    test("pool::limits_hold", &[], limits),
];

/// Runs a command that must succeed. Returns its output without the line end.
pub(super) fn done(cx: &Context, words: &[&str]) -> Result<String> {
    let output = cx.tote(words).output()?;
    output.exits(0)?;
    Ok(output.out().trim_end().to_owned())
}

/// Fills a pool of the test's image.
pub(super) fn fill(cx: &Context, size: &str, options: &[&str]) -> Result<()> {
    let image = cx.image();
    let words = [&["pool", "fill", "p", "-n", size], options, &[&*image]].concat();
    let ready = done(cx, &words)?;
    ensure!(ready == size, "{ready} wait and not {size}");
    Ok(())
}

/// Builds `run --pool p WORDS…`, without starting it.
pub(super) fn taking(cx: &Context, words: &[&str]) -> crate::invocation::Invocation {
    cx.tote(&[&["run", "--pool", "p"], words].concat())
}

/// Repeats a check until it succeeds.
pub(super) fn eventually(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + patience();
    while !is_so()? {
        ensure!(
            Instant::now() < deadline,
            "{what}: not so within {:?}",
            patience()
        );
        std::thread::yield_now();
    }
    Ok(())
}

/// Returns the number of ready sandboxes.
pub(super) fn ready(cx: &Context) -> Result<String> {
    done(cx, &["pool", "ls", "--format", "{{.Ready}}"])
}

pub(super) fn full(cx: &Context, size: &str) -> Result<()> {
    eventually("the pool is full again", || Ok(ready(cx)? == size))
}

/// Waits until the container `c` is recorded, which it is after its program has begun.
pub(super) fn found(cx: &Context) -> Result<()> {
    eventually("a command runs in it", || {
        Ok(cx.tote(&["exec", "c", "true"]).output()?.code == 0)
    })
}

/// Lists the keepers of sandboxes.
pub(super) fn keepers() -> Vec<Process> {
    let all = processes::descendants(rustix::process::getpid().as_raw_pid());
    all.into_iter()
        .filter(|process| process.name == "tote-keeper" && process.ids.len() == 1)
        .collect()
}

/// Removes the pool, and checks that no process, no file and no cgroup of it is left.
pub(super) fn gone(cx: &Context) -> Result<()> {
    ensure!(done(cx, &["pool", "rm", "p"])? == "p");
    eventually("every process is gone", || {
        Ok(processes::descendants(rustix::process::getpid().as_raw_pid()).is_empty())
    })?;
    for dir in ["pools", "names"] {
        let left: Vec<_> = fs::read_dir(cx.root().join(dir))?
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        ensure!(left.is_empty(), "left in {dir}: {left:?}");
    }
    cx.nothing_left()
}

fn once(cx: &Context) -> Result<()> {
    fill(cx, "2", &[])?;
    ensure!(
        done(cx, &["ps", "-aq"])?.is_empty(),
        "who waits is no container yet"
    );
    let mut hosts = Vec::new();
    for _ in 0..5 {
        let script = "test ! -e /seen && test ! -e /dev/shm/seen && touch /seen /dev/shm/seen && echo $HOSTNAME $(hostname)";
        let output = taking(cx, &["sh", "-c", script]).output()?;
        output.exits(0)?.quietly()?;
        let said = output.out();
        let (variable, name) = said.trim().split_once(' ').context("two words")?;
        ensure!(variable == name && name.len() == 12, "{said}");
        ensure!(!hosts.contains(&name.to_owned()), "{name} was used twice");
        hosts.push(name.to_owned());
        full(cx, "2")?;
    }
    let ids = done(cx, &["pool", "inspect", "-f", "{{json .Sandboxes}}", "p"])?;
    ensure!(!hosts.iter().any(|name| ids.contains(name.as_str())), "{ids}");
    ensure!(done(cx, &["pool", "ls", "-q"])? == "p");
    gone(cx)
}

fn codes(cx: &Context) -> Result<()> {
    fill(cx, "4", &[])?;
    taking(cx, &["sh", "-c", "echo out; echo err >&2; exit 7"])
        .output()?
        .exits(7)?
        .has_out("out\n")?
        .has_err("err\n")?;
    taking(cx, &["nope"])
        .output()?
        .refuses(127, &["nope", "executable file not found in $PATH"])?;
    taking(cx, &["/etc/passwd"])
        .output()?
        .refuses(126, &["permission denied"])?;
    // Without -i standard input is empty; with it all bytes arrive, also many.
    taking(cx, &["cat"]).input(b"unread").output()?.prints("")?;
    let long = "x".repeat(300_000);
    let copied = taking(cx, &["-i", "cat"]).input(long.as_bytes()).output()?;
    ensure!(copied.out() == long, "{} bytes came back", copied.out().len());
    // Arguments arrive as well, also more than a single message holds.
    let words: Vec<String> = (0..5_000).map(|number| format!("{number:060}")).collect();
    let mut many = vec!["sh", "-c", "echo $#", "sh"];
    many.extend(words.iter().map(String::as_str));
    taking(cx, &many).output()?.prints("5000\n")?;
    let script = "trap 'echo got; exit 5' TERM; echo up; while :; do sleep 1 & wait; done";
    let mut running = taking(cx, &["sh", "-c", script]).spawn()?;
    running.expect("up\n")?;
    running.signal(Signal::TERM)?;
    running.finish()?.exits(5)?.has_out("got\n")?;
    taking(cx, &["--timeout", "0.2", "sleep", "1000"])
        .output()?
        .refuses(124, &["time limit"])?;
    gone(cx)
}

fn said(cx: &Context) -> Result<()> {
    fill(cx, "3", &["-e", "A=pool", "-e", "B=pool", "--label", "a=pool"])?;
    let variables = cx.file("variables", "C=file\nA=file\n")?;
    taking(
        cx,
        &[
            "-e",
            "A=run",
            "--env-file",
            &variables,
            "-w",
            "/new/place",
            "sh",
            "-c",
            "echo $A $B $C; pwd",
        ],
    )
    .env("HERE", "1")
    .output()?
    .exits(0)?
    .prints("run pool file\n/new/place\n")?;
    taking(
        cx,
        &[
            "-e",
            "HOSTNAME=mine",
            "-e",
            "HERE",
            "sh",
            "-c",
            "echo $HOSTNAME $HERE",
        ],
    )
    .env("HERE", "from here")
    .output()?
    .prints("mine from here\n")?;
    taking(cx, &["--entrypoint", "echo", "words"])
        .output()?
        .prints("words\n")?;
    // The caller's environment and descriptors are not passed on.
    taking(cx, &["sh", "-c", "env; ls /proc/self/fd | wc -l"])
        .output()?
        .exits(0)?
        .has_out("\n4\n")?;
    full(cx, "3")?;
    let mut seen = 0;
    for keeper in keepers() {
        let shown = ["cmdline", "environ"].map(|name| fs::read(format!("/proc/{}/{name}", keeper.pid)));
        // The keeper of a used sandbox may be ending, and shows nothing then.
        let shown = shown.into_iter().flatten().flatten().collect::<Vec<_>>();
        let shown = String::from_utf8_lossy(&shown).replace('\0', " ");
        // A keeper's child that had its name has become newuidmap(1) meanwhile.
        let name = fs::read_to_string(format!("/proc/{}/comm", keeper.pid)).unwrap_or_default();
        if name.trim() != "tote-keeper" {
            continue;
        }
        ensure!(
            ["tote pool p", ""].contains(&shown.trim()),
            "a keeper shows what others were told: {shown}"
        );
        seen += usize::from(!shown.is_empty());
    }
    ensure!(seen >= 3, "{seen} keepers of three show themselves");
    gone(cx)?;
    // The pool has its own default command.
    let image = cx.image();
    done(
        cx,
        &["pool", "fill", "p", &image, "--", "echo", "of", "the", "pool"],
    )?;
    for _ in 0..3 {
        taking(cx, &[]).output()?.prints("of the pool\n")?;
    }
    gone(cx)
}

fn refused(cx: &Context) -> Result<()> {
    taking(cx, &["true"])
        .output()?
        .refuses(125, &["no such pool: p"])?;
    cx.tote(&["pool", "rm", "p"])
        .output()?
        .refuses(1, &["no such pool: p"])?;
    done(cx, &["pool", "rm", "-f", "p"])?;
    cx.tote(&["pool", "fill", "p", "-n", "2"])
        .output()?
        .refuses(125, &["does not exist yet", "IMAGE"])?;
    cx.tote(&["pool", "fill", "../p", &cx.image()])
        .output()?
        .refuses(125, &["../p", "are allowed in a name"])?;
    cx.tote(&["pool", "fill", "p", "rootfs:/nowhere"])
        .output()?
        .fails()?;
    ensure!(
        done(cx, &["pool", "ls", "-q"])?.is_empty(),
        "what cannot be made is no pool"
    );
    fill(cx, "1", &[])?;
    for (words, naming) in [
        (&["-m", "64m", "true"][..], &["--memory", "tote pool fill"][..]),
        (&["-u", "1", "true"], &["--user", "tote pool fill"]),
        (&["-v", "/tmp:/x", "true"], &["--volume", "tote pool fill"]),
        (&["--privileged", "true"], &["--privileged", "tote pool fill"]),
        (&["-d", "true"], &["--detach", "--pool"]),
        (&["--plan", "true"], &["--plan", "--pool"]),
        (&["-it", "true"], &["not a TTY"]),
    ] {
        let code = if words.contains(&"-it") { 1 } else { 125 };
        taking(cx, words).output()?.refuses(code, naming)?;
    }
    cx.tote(&["pool", "fill", "p", "-m", "64m"])
        .output()?
        .refuses(125, &["without its image"])?;
    cx.tote(&["pool", "fill", "p", "-it", &cx.image()])
        .output()?
        .refuses(125, &["-it"])?;
    ensure!(ready(cx)? == "1", "a sandbox was spent on what was refused");
    gone(cx)
}

fn terminals(cx: &Context) -> Result<()> {
    fill(cx, "2", &[])?;
    let script = "test -t 0 && test -t 1 && tty; stty size; test -c /dev/console && echo $TERM; read word; echo got $word; exit 3";
    let (mut running, terminal) = taking(cx, &["-it", "sh", "-c", script]).spawn_in_terminal(40, 100)?;
    running.expect("/dev/pts/0\r\n")?;
    running.expect("40 100\r\n")?;
    running.expect("xterm\r\n")?;
    terminal.is_raw()?;
    running.send(b"it\r");
    running.expect("got it\r\n")?;
    let code = running.wait()?;
    ensure!(code == 3, "{code}");
    drop(terminal);
    running.finish()?;
    let (mut running, terminal) = taking(
        cx,
        &[
            "-it",
            "sh",
            "-c",
            "trap 'exit 7' INT; echo up; while :; do sleep 1 & wait; done",
        ],
    )
    .spawn_in_terminal(40, 100)?;
    running.expect("up\r\n")?;
    running.send(b"\x03");
    let code = running.wait()?;
    ensure!(code == 7, "{code}");
    drop(terminal);
    running.finish()?;
    gone(cx)
}

fn many(cx: &Context) -> Result<()> {
    fill(cx, "3", &[])?;
    let script = "test ! -e /seen && touch /seen && hostname && read end";
    let mut all: Vec<Running> = Vec::new();
    for _ in 0..10 {
        all.push(taking(cx, &["-i", "sh", "-c", script]).spawn()?);
    }
    let mut hosts = Vec::new();
    for running in &mut all {
        hosts.push(running.expect("\n")?);
    }
    for mut running in all {
        running.send(b"\n");
        running.close_input();
        running.finish()?.exits(0)?.quietly()?;
    }
    hosts.sort();
    hosts.dedup();
    ensure!(hosts.len() == 10, "two have had the same: {hosts:?}");
    full(cx, "3")?;
    gone(cx)
}

fn container(cx: &Context) -> Result<()> {
    fill(cx, "1", &["--label", "of=pool"])?;
    let words = [
        "--name",
        "c",
        "--label",
        "of=run",
        "-i",
        "sh",
        "-c",
        "echo up; read end",
    ];
    let mut running = taking(cx, &words).spawn()?;
    running.expect("up\n")?;
    found(cx)?;
    let seen = done(
        cx,
        &["ps", "--format", "{{.Names}} {{.Image}} {{.Status}} {{.Labels}}"],
    )?;
    ensure!(
        seen.starts_with("c rootfs:") && seen.contains(" Up ") && seen.ends_with("of=run"),
        "{seen}"
    );
    ensure!(done(cx, &["inspect", "-f", "{{.State.Status}} {{.Path}}", "c"])? == "running sh");
    cx.tote(&["exec", "c", "sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline"])
        .output()?
        .has_out("sh -c echo up; read end")?;
    taking(cx, &["--name", "c", "true"])
        .output()?
        .refuses(125, &["already in use"])?;
    running.close_input();
    running.finish()?.exits(1)?;
    ensure!(done(cx, &["ps", "-aq"])?.is_empty(), "it is still there");
    let mut running = taking(cx, &["--name", "c", "sh", "-c", "echo up; sleep 1000"]).spawn()?;
    running.expect("up\n")?;
    found(cx)?;
    done(cx, &["stop", "-t", "0", "c"])?;
    running.finish()?.exits(137)?;
    gone(cx)
}

fn empty(cx: &Context) -> Result<()> {
    fill(cx, "0", &["-e", "A=pool", "--hostname", "known"])?;
    for _ in 0..2 {
        taking(
            cx,
            &[
                "-e",
                "B=run",
                "-w",
                "/x",
                "sh",
                "-c",
                "echo $A $B $HOSTNAME; pwd; exit 4",
            ],
        )
        .output()?
        .exits(4)?
        .has_out("pool run known\n/x\n")?;
    }
    gone(cx)
}

fn changed(cx: &Context) -> Result<()> {
    fill(cx, "1", &["-e", "A=1"])?;
    // A keeper that has just reported itself ready may still be at work, so its state is not compared.
    let pids = || -> Vec<i32> { keepers().iter().map(|keeper| keeper.pid).collect() };
    let before = pids();
    fill(cx, "3", &["-e", "A=1"])?;
    ensure!(
        before.iter().all(|keeper| pids().contains(keeper)),
        "what was made of the same was made again"
    );
    ensure!(done(cx, &["pool", "fill", "p", "-n", "2"])? == "2");
    fill(cx, "2", &["-e", "A=2"])?;
    ensure!(
        before.iter().all(|keeper| !pids().contains(keeper)),
        "what was made of other options is still there"
    );
    eventually("only those of the pool are there", || Ok(keepers().len() == 2))?;
    taking(cx, &["sh", "-c", "echo $A"]).output()?.prints("2\n")?;
    full(cx, "2")?;
    gone(cx)
}

fn in_use(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(cx, &["volume", "create", "data"])?;
    fill(cx, "1", &["-v", "data:/data"])?;
    cx.tote(&["volume", "rm", "data"])
        .output()?
        .refuses(1, &["volume is in use", "pool p"])?;
    taking(cx, &["sh", "-c", "echo kept > /data/file"])
        .output()?
        .exits(0)?;
    cx.run(&["-v", "data:/data", &image, "cat", "/data/file"])?
        .prints("kept\n")?;
    gone(cx)?;
    done(cx, &["volume", "rm", "data"])?;
    let archive = cx.path("image.tar")?;
    let status = std::process::Command::new("tar")
        .args([
            "-C",
            &cx.shared_rootfs().display().to_string(),
            "-cf",
            &archive,
            "--owner=0",
            "--group=0",
            ".",
        ])
        .status()?;
    ensure!(status.success(), "tar: {status}");
    done(cx, &["import", "--change", "CMD [\"sh\"]", &archive, "own:1"])?;
    ensure!(done(cx, &["pool", "fill", "p", "own:1"])? == "1");
    cx.tote(&["rmi", "-f", "own:1"])
        .output()?
        .refuses(1, &["cannot be forced", "pool p"])?;
    taking(cx, &["echo", "from an image"])
        .output()?
        .prints("from an image\n")?;
    gone(cx)?;
    done(cx, &["rmi", "own:1"])?;
    Ok(())
}

fn limits(cx: &Context) -> Result<()> {
    fill(
        cx,
        "1",
        &[
            "--ulimit",
            "nofile=77",
            "--cap-drop",
            "ALL",
            "--read-only",
            "--init",
        ],
    )?;
    let script = "ulimit -n; grep CapEff /proc/self/status; touch /x 2>/dev/null || echo read-only; cat /proc/1/comm; exit 9";
    taking(cx, &["sh", "-c", script])
        .output()?
        .exits(9)?
        .has_out("77\nCapEff:\t0000000000000000\nread-only\ntote-init\n")?;
    gone(cx)
}
