//! `cargo xtask faults`: builds the engine and the program that kills its commands, and runs that program.

use crate::build::{ENGINE, development, release};
use crate::program::{program, tee};
use crate::test::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// Package of the program that kills commands.
const MACHINE: &str = "faults";

/// Replaces this process by that program, so that its exit code and signals reach the caller.
///
/// With `--debug` as the first word the engine is the development build, which compiles sooner.
pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let (debug, arguments) = match arguments {
        ["--debug", rest @ ..] => (true, rest),
        all => (false, all),
    };
    let tote = if debug { development } else { release }(workspace, ENGINE)?;
    let (mut command, machine) = machine(workspace, &tote, arguments)?;
    let error = command.exec();
    Err(error).with_context(|| format!("execute {}", machine.display()))
}

/// Builds the program; returns its command with the arguments, not yet started, and its path.
fn machine(workspace: &Workspace, tote: &Path, arguments: &[&str]) -> Result<(Command, PathBuf)> {
    let machine = development(workspace, MACHINE)?;
    let mut command = program(&machine);
    command.arg("--tote").arg(tote).args(arguments);
    Ok((command, machine))
}

/// Runs a sample for continuous integration: all commands, each killed at a few points, always the same ones, in
/// half a minute on two processors. Four programs share the commands, since each waits for its own most of the time.
/// The program itself reports missing requirements.
///
/// # Errors
/// The engine or the program does not compile.
pub(crate) fn sample(workspace: &Workspace) -> Result<Tally> {
    let tote = development(workspace, ENGINE)?;
    let machines = ["1/4", "2/4", "3/4", "4/4"].map(|share| {
        let words = [
            "--kill",
            "--sample",
            "5",
            "--minutes",
            "2",
            "--seed",
            "1",
            "--share",
            share,
        ];
        machine(workspace, &tote, &words)
    });
    thread::scope(|scope| {
        let mut running = Vec::new();
        for machine in machines {
            let mut command = machine?.0;
            running.push(scope.spawn(move || part(&mut command)));
        }
        let mut tally = Tally::default();
        for one in running {
            tally += one.join().unwrap_or_else(|_| Ok(Tally::broken()))?;
        }
        Ok(tally)
    })
}

/// Runs a part of the sample, which counts as one test.
fn part(command: &mut Command) -> Result<Tally> {
    let mut tally = Tally::default();
    let status = tee(command, |line| {
        tally.skipped += u64::from(line.starts_with("faults: skipped: needs "));
    })?;
    match (tally.skipped, status.success()) {
        (0, true) => tally.passed = 1,
        (_, true) => {}
        (_, false) => tally.failed = 1,
    }
    Ok(tally)
}
