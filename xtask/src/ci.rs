//! `cargo xtask ci`: exactly the steps of continuous integration.
//!
//! Every step runs even if an earlier one failed, so that a single run shows all failures; the slow steps are last.
//! `clippy` and `doc` share build results. `test` also tries the release build, which `man` has made.

use crate::program::{cargo, succeed};
use crate::test::Tally;
use crate::workspace::Workspace;
use crate::{deps, man, test, tidy};
use anyhow::Result;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Result of a step.
struct Step {
    name: &'static str,
    took: Duration,
    passed: bool,
}

pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    let mut steps = vec![
        step("fmt", fmt),
        step("clippy", clippy),
        step("deps", || deps::run(workspace)),
        step("tidy", || tidy::run(workspace)),
        step("doc", doc),
        step("man", || man::run(workspace)),
    ];
    let mut tally = Tally::default();
    steps.push(step("test", || {
        tally = test::all(workspace, &test::Choice::default())?;
        tally += test::of_release(workspace)?;
        tally.verdict()
    }));
    for Step { name, took, passed } in &steps {
        let verdict = if *passed { "ok" } else { "FAILED" };
        println!("ci: {name:<8} {:>7.1} s  {verdict}", took.as_secs_f64());
    }
    println!("{tally}");
    let passed = steps.iter().all(|step| step.passed);
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn step(name: &'static str, run: impl FnOnce() -> Result<()>) -> Step {
    println!("ci: {name}");
    let start = Instant::now();
    let result = run();
    if let Err(error) = &result {
        eprintln!("ci: {name}: {error:#}");
    }
    Step {
        name,
        took: start.elapsed(),
        passed: result.is_ok(),
    }
}

fn fmt() -> Result<()> {
    succeed(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    succeed(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn doc() -> Result<()> {
    succeed(
        cargo()
            .args(["doc", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "-Dwarnings"),
    )
}
