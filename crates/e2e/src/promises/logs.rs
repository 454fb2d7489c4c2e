//! `tote logs`: the complete output of a container, in order, on the stream on which it was written.

use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("logs::both_streams_come_back_to_their_own", &[], streams),
    test("logs::the_file_is_dockers", &[], file),
    test("logs::tail_since_until_and_timestamps", &[], parts),
    test("logs::details_are_what_was_asked_for", &[], details),
    test("logs::tags_are_templates", &[], tags),
    test("logs::drivers_keep_what_they_are_known_for", &[], drivers),
    test("logs::rotation_keeps_what_it_is_told_to", &[], rotation),
    test(
        "logs::following_goes_through_rotation_and_ends_with_the_container",
        &[],
        follow,
    ),
    test("logs::following_goes_through_restarts", &[], restarts),
    test("logs::what_has_none_says_so", &[], none),
];

/// Runs `run -d --name NAME OPTIONS IMAGE sh -c SCRIPT`.
fn detach(cx: &Context, name: &str, options: &[&str], script: &str) -> Result<()> {
    let start = ["run", "-d", "--name", name];
    let image = cx.image();
    cx.tote(&[&start, options, &[&image, "sh", "-c", script]].concat())
        .output()?
        .exits(0)?;
    Ok(())
}

/// Runs the script detached, and waits for its end.
fn ended(cx: &Context, name: &str, options: &[&str], script: &str) -> Result<()> {
    detach(cx, name, options, script)?;
    cx.tote(&["wait", name]).output()?.exits(0)?;
    Ok(())
}

fn remove(cx: &Context, name: &str) -> Result<()> {
    cx.tote(&["rm", "-f", name]).output()?.exits(0)?;
    cx.nothing_left()
}

fn streams(cx: &Context) -> Result<()> {
    ended(cx, "s", &[], "echo out; echo err >&2; printf 'no end'")?;
    let out = cx.tote(&["logs", "s"]).output()?;
    out.prints("out\nno end")?;
    ensure!(out.err() == "err\n", "standard error is {:?}", out.err());
    let out = cx.tote(&["container", "logs", "s"]).output()?;
    out.prints("out\nno end")?;
    remove(cx, "s")
}

fn file(cx: &Context) -> Result<()> {
    ended(
        cx,
        "f",
        &[],
        "echo '<a \"quote\">'; head -c 20000 /dev/zero | tr '\\0' x; echo",
    )?;
    let id = cx.containers()?.pop().context("a container")?;
    let path = cx.root().join("containers").join(id).join("log.json");
    let text = std::fs::read_to_string(path)?;
    let first = text.lines().next().unwrap_or_default();
    let head = r#"{"log":"\u003ca \"quote\"\u003e\n","stream":"stdout","time":"20"#;
    ensure!(
        first.starts_with(head) && first.ends_with("Z\"}"),
        "it begins with {first}"
    );
    let lengths: Vec<_> = text.lines().map(|line| line.matches('x').count()).collect();
    ensure!(
        lengths == [0, 16384, 3616],
        "entries have {lengths:?} of the long line"
    );
    remove(cx, "f")
}

fn parts(cx: &Context) -> Result<()> {
    ended(cx, "p", &[], "for i in 1 2 3 4 5; do echo $i; done")?;
    let logs = |options: &[&str]| cx.tote(&[&["logs"], options, &["p"]].concat()).output();
    logs(&["-n", "2"])?.prints("4\n5\n")?;
    logs(&["--tail", "all"])?.prints("1\n2\n3\n4\n5\n")?;
    logs(&["--tail=0"])?.prints("")?;
    logs(&["--since", "1h"])?.prints("1\n2\n3\n4\n5\n")?;
    logs(&["--since", "0s"])?.prints("")?;
    logs(&["--until", "1h"])?.prints("")?;
    logs(&["--since", "2020-01-01", "--until", "2099-12-31T23:59:59Z"])?.prints("1\n2\n3\n4\n5\n")?;
    logs(&["--since", "4102444800"])?.prints("")?;
    let out = logs(&["-t", "-n", "1"])?.out();
    let (time, rest) = out.split_once(' ').context("a time")?;
    ensure!(
        time.len() == 30 && time.ends_with('Z') && rest == "5\n",
        "it prints {out:?}"
    );
    // The time of a line selects that line and the following ones.
    logs(&["--since", time])?.prints("5\n")?;
    logs(&["--since", "yesterday"])?.refuses(1, &["yesterday", "since", "10m"])?;
    logs(&["--tail", "x"])?.refuses(125, &["tail", "\"x\""])?;
    cx.tote(&["logs", "no-such"]).output()?.refuses(1, &["no-such"])?;
    remove(cx, "p")
}

fn details(cx: &Context) -> Result<()> {
    let options = [
        "--label",
        "tier=a b",
        "-e",
        "ROLE=web",
        "--log-opt",
        "labels=tier",
        "--log-opt",
        "env=ROLE",
    ];
    ended(cx, "d", &options, "echo line")?;
    cx.tote(&["logs", "--details", "d"])
        .output()?
        .prints("ROLE=web,tier=a+b line\n")?;
    remove(cx, "d")?;
    let patterns = [
        "--label",
        "tier=a",
        "--label",
        "frontier=b",
        "-e",
        "APP_ROLE=web",
        "-e",
        "MY_APP_ROLE=x",
        "--log-opt",
        "labels-regex=^tier$",
        "--log-opt",
        "env-regex=^APP_",
    ];
    ended(cx, "d", &patterns, "echo line")?;
    cx.tote(&["logs", "--details", "d"])
        .output()?
        .prints("APP_ROLE=web,tier=a line\n")?;
    remove(cx, "d")?;
    let words = [
        "run",
        "--name",
        "d",
        "--log-opt",
        "labels-regex=(a",
        &cx.image(),
        "true",
    ];
    cx.tote(&words).output()?.fails()?.has_err("labels-regex=(a")?;
    remove(cx, "d")
}

fn tags(cx: &Context) -> Result<()> {
    let tag = "tag={{.Name}} of {{.ImageName}}/{{.Command}}";
    ended(cx, "tagged", &["--log-opt", tag], "echo line")?;
    let name = format!(
        "tag=tagged+of+{}",
        cx.image().replace(':', "%3A").replace('/', "%2F")
    );
    cx.tote(&["logs", "--details", "tagged"])
        .output()?
        .has_out(&format!("{name}%2Fsh+-c+echo+line line\n"))?;
    remove(cx, "tagged")?;
    let words = ["--name", "bad", "--log-opt", "tag={{.Name", &cx.image(), "true"];
    let refused = cx.tote(&[&["run", "-d"], &words[..]].concat()).output()?;
    refused.fails()?.has_err("log opt tag={{.Name")?;
    cx.tote(&["rm", "-f", "bad"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn drivers(cx: &Context) -> Result<()> {
    let script = "echo out; sleep 0.01; echo err >&2; sleep 0.01; printf part";
    for (driver, file) in [
        ("k8s-file", "ctr.log"),
        ("local", "log.json"),
        ("json-file", "log.json"),
    ] {
        ended(cx, "kept", &["--log-driver", driver], script)?;
        let out = cx.tote(&["logs", "kept"]).output()?;
        out.prints("out\npart")?;
        ensure!(out.err() == "err\n", "{driver}: {:?}", out.err());
        let told = [
            "inspect",
            "-f",
            "{{.HostConfig.LogConfig.Type}} {{.LogPath}}",
            "kept",
        ];
        let told = cx.tote(&told).output()?.exits(0)?.out();
        let path = told.strip_prefix(driver).context("another driver")?.trim();
        ensure!(path.ends_with(file), "{told}");
        let text = std::fs::read_to_string(path)?;
        if driver == "k8s-file" {
            let said: Vec<_> = text.lines().filter_map(|line| line.split_once(' ')).collect();
            let rests: Vec<_> = said.iter().map(|(_, rest)| *rest).collect();
            ensure!(
                rests == ["stdout F out", "stderr F err", "stdout P part"],
                "{text}"
            );
        } else {
            ensure!(text.lines().all(|line| line.starts_with('{')), "{text}");
        }
        remove(cx, "kept")?;
    }
    for (option, value, naming) in [
        ("--log-driver", "journald", "journald"),
        ("--log-driver", "syslog", "the driver syslog is not there"),
        ("--log-opt", "compress=perhaps", "compress=perhaps"),
    ] {
        let words = ["run", "-d", option, value, &cx.image(), "true"];
        cx.tote(&words).output()?.refuses(125, &[naming])?;
    }
    cx.nothing_left()
}

fn rotation(cx: &Context) -> Result<()> {
    let options = ["--log-opt", "max-size=2k", "--log-opt", "max-file=3"];
    ended(
        cx,
        "r",
        &options,
        "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); done",
    )?;
    let id = cx.containers()?.pop().context("a container")?;
    let dir = cx.root().join("containers").join(id);
    let logs: Vec<_> = std::fs::read_dir(dir)?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("log.json"))
        .collect();
    ensure!(logs.len() == 3, "there are {} files", logs.len());
    for log in &logs {
        let size = log.metadata()?.len();
        ensure!(size < 2 * 1024 + 100, "one has {size} bytes");
    }
    let out = cx.tote(&["logs", "r"]).output()?.out();
    let numbers: Vec<u32> = out.lines().map(str::parse).collect::<Result<_, _>>()?;
    let first = *numbers.first().context("a line")?;
    ensure!(first > 0, "nothing was put aside for good");
    ensure!(
        numbers == (first..200).collect::<Vec<_>>(),
        "it prints {numbers:?}"
    );
    remove(cx, "r")
}

fn follow(cx: &Context) -> Result<()> {
    let options = ["-i", "--log-opt", "max-size=1k", "--log-opt", "max-file=2"];
    let script = "echo ready; while read line; do echo \"$line\"; done";
    detach(cx, "f", &options, script)?;
    let mut feed = cx.tote(&["attach", "f"]).spawn()?;
    let mut follow = cx.tote(&["logs", "-f", "f"]).spawn()?;
    follow.expect("ready\n")?;
    for number in 0..60 {
        let line = format!("line {number} of some length\n");
        feed.send(line.as_bytes());
        feed.expect(&line)?;
        follow.expect(&line)?;
    }
    cx.tote(&["kill", "f"]).output()?.exits(0)?;
    follow.finish()?.exits(0)?;
    feed.finish()?.exits(137)?;
    remove(cx, "f")
}

fn restarts(cx: &Context) -> Result<()> {
    // Each run is one line longer than the last; the third ends well.
    let script = "echo life; echo x >> /count; test $(wc -l < /count) -ge 3";
    detach(cx, "r", &["--restart", "on-failure:5"], script)?;
    cx.tote(&["logs", "-f", "r"])
        .output()?
        .prints("life\nlife\nlife\n")?;
    remove(cx, "r")
}

fn none(cx: &Context) -> Result<()> {
    ended(cx, "n", &["--log-driver", "none"], "echo lost")?;
    cx.tote(&["logs", "n"])
        .output()?
        .refuses(1, &["does not support reading", "none"])?;
    cx.tote(&["rm", "n"]).output()?.exits(0)?;
    let words = ["--name", "fg", "-i", &cx.image(), "cat"];
    let mut running = cx.run_command(&words).spawn()?;
    running.send(b"up\n");
    running.expect("up\n")?;
    cx.tote(&["logs", "fg"])
        .output()?
        .refuses(1, &["--rm", "no log"])?;
    cx.tote(&["attach", "fg"]).output()?.refuses(1, &["--rm"])?;
    running.close_input();
    running.finish()?.exits(0)?;
    cx.nothing_left()
}
