//! Command lines that are refused: exit 125, one line that names the culprit, and nothing begun.

use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("refusals::words", &[], words),
    test("refusals::option_values", &[], option_values),
    test("refusals::names", &[], names),
    test("refusals::contradictions", &[], contradictions),
    test("refusals::an_unknown_image", &[], unknown_image),
];

fn words(cx: &Context) -> Result<()> {
    let image = cx.image();
    let table: [(&[&str], i32, &str); 6] = [
        (&["frobnicate"], 1, "frobnicate"),
        (&["--frobnicate", "run", &image, "true"], 125, "--frobnicate"),
        (&["run", "--frobnicate", &image, "true"], 125, "--frobnicate"),
        (&["run", "-Z", &image, "true"], 125, "-Z"),
        (&["run", "--rm"], 1, "argument"),
        (&["run", "--rm=perhaps", &image, "true"], 125, "perhaps"),
    ];
    for (words, code, culprit) in table {
        cx.tote(words)
            .output()?
            .refuses(code, &[culprit])
            .with_context(|| format!("{words:?}"))?;
    }
    Ok(())
}

fn option_values(cx: &Context) -> Result<()> {
    let table = [
        ("--memory", "lots"),
        ("--memory", "-1"),
        ("--memory", "99999999999999999999g"),
        ("--cpus", "x"),
        ("--cpus", "-0.5"),
        ("--pids-limit", "many"),
        ("--cpuset-cpus", "0-"),
        ("--ulimit", "nofile"),
        ("--ulimit", "nofile=200:100"),
        ("--ulimit", "nosuch=1"),
        ("--env", "=x"),
        ("--tmpfs", "relative"),
        ("--volume", "/a:/b:/c:/d"),
        ("--volume", "/a:relative"),
        ("--volume", "/a:/b:frobnicate"),
        ("--mount", "type=frobnicate,dst=/x"),
        ("--mount", "type=tmpfs"),
        ("--network", "frobnicate"),
        ("--cap-add", "FROBNICATE"),
        ("--cap-drop", "FROBNICATE"),
        ("--security-opt", "frobnicate=1"),
        ("--stop-signal", "FROBNICATE"),
        ("--timeout", "soon"),
        ("--cpu-time", "-1"),
        ("--shm-size", "big"),
        ("--oom-score-adj", "heavy"),
        ("--sysctl", "frobnicate"),
        // The name is one letter longer than sethostname(2) takes.
        (
            "--hostname",
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ),
    ];
    for (option, value) in table {
        let out = cx.run(&[option, value, &cx.image(), "echo", "ran"])?;
        out.refuses(125, &[value])
            .with_context(|| format!("{option} {value}"))?;
    }
    Ok(())
}

fn names(cx: &Context) -> Result<()> {
    for name in ["-bad", "a/b", "..", "a b", "", "ä", "//slash", "/"] {
        let out = cx.run(&[&format!("--name={name}"), &cx.image(), "true"])?;
        out.refuses(125, &["name", name])
            .with_context(|| format!("--name={name:?}"))?;
    }
    for name in ["a.b", "A_1-x", "0", "/slash"] {
        cx.run(&["--name", name, &cx.image(), "true"])?
            .exits(0)
            .with_context(|| format!("--name {name}"))?;
    }
    Ok(())
}

/// An option without its value, and a value for an option that takes none.
fn contradictions(cx: &Context) -> Result<()> {
    cx.tote(&["run", "--memory"])
        .output()?
        .refuses(125, &["--memory"])?;
    cx.tote(&["run", "--read-only=maybe", &cx.image(), "true"])
        .output()?
        .refuses(125, &["maybe"])?;
    let twice = ["-v", "/tmp:/twice", "-v", "/var:/twice"];
    cx.shell(&twice, "true")?.refuses(125, &["/twice"])?;
    Ok(())
}

fn unknown_image(cx: &Context) -> Result<()> {
    cx.run(&["--pull", "never", "no-such-image-anywhere:7", "true"])?
        .refuses(125, &["no-such-image-anywhere:7"])?;
    // No process listens on that port.
    let output = cx.run(&["localhost:1/nothing:7", "true"])?;
    output.exits(125)?.has_err("Unable to find image")?;
    let errors = output
        .err()
        .lines()
        .filter(|line| line.starts_with("tote: "))
        .count();
    ensure!(
        errors == 1,
        "one error for one failure, saw {}",
        output.transcript()
    );
    cx.run(&["Bad//Image", "true"])?.refuses(125, &["Bad//Image"])?;
    Ok(())
}
