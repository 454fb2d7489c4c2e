//! Health checks of containers.

use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

pub(super) const TESTS: &[Test] = &[
    test("health::checks_tell_whether_it_is_well", &[], watched),
    test("health::a_check_has_its_time", &[], slow),
    test("health::a_check_at_once", &[], at_once),
    test("health::checks_in_the_foreground", &[], foreground),
    test("health::nobody_checks_unasked", &[], none),
    test(
        "health::a_failure_ends_a_container_or_begins_it_anew",
        &[],
        on_failure,
    ),
];

/// Container with a health check, and a directory that it shares with the test.
struct Checked<'a> {
    cx: &'a Context,
    id: String,
    shared: PathBuf,
}

impl<'a> Checked<'a> {
    /// Starts a container whose check waits each time until the test has seen it.
    fn start(cx: &'a Context, options: &[&str], check: &str) -> Result<Self> {
        let shared = PathBuf::from(cx.directory("shared")?);
        let made = std::process::Command::new("mkfifo")
            .arg(shared.join("tick"))
            .status()?;
        ensure!(made.success(), "mkfifo failed");
        let volume = format!("{}:/shared", shared.display());
        let image = cx.image();
        let check = format!("echo tick > /shared/tick; {check}");
        let words = [
            &[
                "run",
                "-d",
                "--name",
                "c",
                "-v",
                &volume,
                "--health-cmd",
                &check,
                "--health-interval",
                "10ms",
            ],
            options,
            &[&image, "sleep", "1000"],
        ];
        let out = cx.tote(&words.concat()).output()?;
        let id = out.exits(0)?.out().trim_end().to_owned();
        Ok(Self { cx, id, shared })
    }

    /// Waits until a check has begun, so that the results of all earlier ones are known.
    fn tick(&self) -> Result<()> {
        let said = fs::read_to_string(self.shared.join("tick"))?;
        ensure!(said.starts_with("tick"), "{said:?}");
        Ok(())
    }

    fn health(&self) -> Result<Value> {
        let path = self
            .cx
            .root()
            .join("containers")
            .join(&self.id)
            .join("state.json");
        let state: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
        Ok(state["health"].clone())
    }

    fn is(&self, status: &str) -> Result<Value> {
        let health = self.health()?;
        ensure!(health["status"] == status, "expected {status}, saw {health}");
        Ok(health)
    }

    fn over(self) -> Result<()> {
        self.cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
        Ok(())
    }
}

fn watched(cx: &Context) -> Result<()> {
    let checked = Checked::start(
        cx,
        &["--health-retries", "2"],
        "echo looked; test -e /shared/well",
    )?;
    checked.is("starting")?;
    for _ in 0..3 {
        checked.tick()?;
    }
    let health = checked.is("unhealthy")?;
    let last = health["log"]
        .as_array()
        .and_then(|log| log.last())
        .context("no results")?;
    ensure!(last["exit_code"] == 1 && last["output"] == "looked\n", "{last}");
    fs::write(checked.shared.join("well"), "")?;
    for _ in 0..2 {
        checked.tick()?;
    }
    let health = checked.is("healthy")?;
    ensure!(health["failing_streak"] == 0, "{health}");
    let events = fs::read_to_string(cx.root().join("events"))?;
    for status in ["unhealthy", "healthy"] {
        ensure!(
            events.contains(&format!("\"health_status: {status}\"")),
            "no {status} among\n{events}"
        );
    }
    checked.over()
}

fn foreground(cx: &Context) -> Result<()> {
    let image = cx.image();
    let words = [
        "run",
        "--rm",
        "-i",
        "--name",
        "c",
        "--health-cmd",
        "test -e /tmp/well",
        "--health-interval",
        "10ms",
        &image,
        "sh",
        "-c",
        "echo up; read line; touch /tmp/well; echo well; read line; exit 3",
    ];
    let mut runs = cx.tote(&words).spawn()?;
    runs.expect("up\n")?;
    let tell = |status: &str| -> Result<()> {
        let filters = ["--since", "1", "-f", "container=c", "-f", "event=health_status"];
        let mut events = cx.tote(&[&["events"], &filters[..]].concat()).spawn()?;
        events.expect(&format!("health_status: {status} "))?;
        events.signal(rustix::process::Signal::KILL)?;
        events.wait()?;
        Ok(())
    };
    tell("unhealthy")?;
    runs.send(b"on\n");
    runs.expect("well")?;
    tell("healthy")?;
    runs.send(b"out\n");
    ensure!(runs.wait()? == 3, "not the program's exit code");
    cx.nothing_left()
}

fn slow(cx: &Context) -> Result<()> {
    let options = ["--health-retries", "1", "--health-timeout", "200ms"];
    let checked = Checked::start(cx, &options, "echo started; sleep 1000")?;
    for _ in 0..2 {
        checked.tick()?;
    }
    let health = checked.is("unhealthy")?;
    let last = health["log"]
        .as_array()
        .and_then(|log| log.last())
        .context("no results")?;
    let said = last["output"].as_str().unwrap_or_default();
    ensure!(
        last["exit_code"] == -1 && said.starts_with("Health check exceeded timeout (200ms)"),
        "{last}"
    );
    checked.over()
}

fn at_once(cx: &Context) -> Result<()> {
    let image = cx.image();
    let words = [
        "run",
        "-d",
        "--name",
        "c",
        "--health-cmd",
        "test -e /tmp/well",
        "--health-interval",
        "1h",
    ];
    cx.tote(&[&words[..], &[&image, "sleep", "1000"]].concat())
        .output()?
        .exits(0)?;
    let check = || cx.tote(&["healthcheck", "run", "c"]).output();
    check()?.exits(1)?.has_out("unhealthy\n")?;
    cx.tote(&["exec", "c", "touch", "/tmp/well"]).output()?.exits(0)?;
    check()?.prints("")?.quietly()?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    check()?.refuses(1, &["No such container: c"])?;
    Ok(())
}

fn none(cx: &Context) -> Result<()> {
    let image = cx.image();
    let both = ["--no-healthcheck", "--health-cmd", "true", &image, "true"];
    cx.run(&both)?
        .refuses(125, &["--no-healthcheck conflicts with --health-* options"])?;
    cx.run(&["--health-interval", "-1s", &image, "true"])?
        .refuses(125, &["cannot be negative"])?;
    cx.tote(&["run", "-d", "--name", "c", &image, "sleep", "1000"])
        .output()?
        .exits(0)?;
    cx.tote(&["healthcheck", "run", "c"])
        .output()?
        .refuses(125, &["has no defined healthcheck"])?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    Ok(())
}

fn on_failure(cx: &Context) -> Result<()> {
    let shared = cx.directory("starts")?;
    let volume = format!("{shared}:/shared");
    let start = |action: &str, options: &[&str], check: &str| -> Result<()> {
        let words = [
            "run",
            "-d",
            "--name",
            "c",
            "-v",
            &volume,
            "--health-interval",
            "10ms",
        ];
        let checks = [
            "--health-retries",
            "2",
            "--health-cmd",
            check,
            "--health-on-failure",
            action,
        ];
        let script = "trap 'exit 7' TERM; echo up >> /shared/starts; sleep 1000 & wait";
        let image = cx.image();
        let program = [&image, "sh", "-c", script];
        let words = [&words[..], &checks, options, &program].concat();
        cx.tote(&words).output()?.exits(0)?;
        Ok(())
    };
    let over = || -> Result<()> {
        cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
        Ok(())
    };
    start("kill", &[], "false")?;
    cx.tote(&["wait", "c"]).output()?.prints("137\n")?;
    over()?;
    // It stays ended, as after a stop.
    start("stop", &["--restart", "always"], "false")?;
    cx.tote(&["wait", "c"]).output()?.prints("7\n")?;
    over()?;

    fs::write(format!("{shared}/starts"), "")?;
    start("restart", &[], "test $(wc -l < /shared/starts) -gt 1")?;
    let filters = ["--since", "1", "-f", "container=c", "-f", "event=health_status"];
    let mut events = cx.tote(&[&["events"], &filters[..]].concat()).spawn()?;
    events.expect("health_status: healthy ")?;
    events.signal(rustix::process::Signal::KILL)?;
    events.wait()?;
    let format = "{{.RestartCount}} {{.State.Status}}";
    let found = cx.tote(&["inspect", "-f", format, "c"]).output()?;
    found.prints("1 running\n")?;
    over()
}
