//! The end-to-end tests: a separate runner drives the engine's binary as its users do.
//!
//! It is the development build, in which integers that overflow panic, and which one compilation makes together with the unit tests;
//! tests take about a tenth longer with it. Continuous integration runs a group with the release build as well, and `cargo xtask dist`
//! one with what it has built.

use super::{Machines, Tally, clients, is_root, kernel, user};
use crate::build::{ENGINE, development, release};
use crate::program::{program, tee};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Package of the runner, and the name of its executable.
pub(crate) const RUNNER: &str = "tote-e2e";

/// Name of a tote with fault points, where the runner looks for it: beside itself.
const MORTAL: &str = "tote-mortal";

/// Surroundings in which scripts and services start programs, in words of a shell that runs the runner.
const SURROUNDINGS: [(&str, &str); 3] = [
    (
        "nohup, ignored signals, umask 077",
        "trap '' HUP INT QUIT; umask 077; exec nohup \"$@\" </dev/null",
    ),
    (
        "closed streams but one, umask 000",
        "umask 000; exec \"$@\" <&- 2>&-",
    ),
    (
        "all streams closed",
        "\"$@\" <&- >&- 2>&- && echo 'e2e(closed): 1 passed, 0 failed, 0 skipped'",
    ),
];

/// Group of tests that runs in each of them: it takes seconds.
const GROUP: &str = "basics::";

/// Test whose limit is that of an optimised build.
const MEMORY: &str = "oci_lifecycle::run_and_exec_take_little_memory";

/// Test in which an error has words of the C library.
const WORDS: &str = "oci_cgroup::exec_follows_the_first_process_out_of_a_busy_group";

/// Group of the tests of virtual machines, which need QEMU and a kernel for guests.
const MACHINES: &str = "vm::";

/// # Errors
/// A package does not compile, or the runner's user cannot be created.
pub(super) fn run(workspace: &Workspace, filter: Option<&str>) -> Result<Tally> {
    if workspace.package(RUNNER).is_none() {
        bail!("the workspace has no package {RUNNER} (crates/e2e): no end-to-end test can run");
    }
    let tote = development(workspace, ENGINE)?;
    let runner = development(workspace, RUNNER)?;
    let mortal = beside(&runner, &tote)?;
    let kernel = kernel::beside(&runner)?;
    let clients = clients::beside(&runner)?;
    let mut tally = drive(
        program(&runner).arg("--tote").arg(&tote).args(filter),
        "as we are",
    );
    if filter.is_none() {
        tally += surrounded(&runner, &tote);
    }
    if is_root()? {
        println!("running the end-to-end tests again as the user {}", user::NAME);
        let stage = user::Stage::prepare(&[&tote, &runner, &mortal])?;
        if let Some(kernel) = &kernel {
            stage.add(kernel)?;
        }
        stage.add(&clients)?;
        let mut command = stage.command(RUNNER);
        command.arg("--tote").arg(stage.binary("tote")).args(filter);
        tally += drive(&mut command, user::NAME);
    }
    Ok(tally)
}

/// Runs a group of the tests, and the test of peak memory, with the release build, which users of `cargo run --release` have.
///
/// # Errors
/// A package does not compile.
pub(crate) fn of_release(workspace: &Workspace) -> Result<Tally> {
    let tote = release(workspace, ENGINE)?;
    optimised(workspace, &tote, ("release build", &[GROUP, MEMORY]))
}

/// Runs cells of the matrix of machines, all of which need root.
///
/// # Errors
/// A package does not compile.
pub(super) fn machines(workspace: &Workspace, choice: &Machines) -> Result<Tally> {
    let tote = development(workspace, ENGINE)?;
    let runner = development(workspace, RUNNER)?;
    let mut command = program(&runner);
    command.arg("--tote").arg(&tote).arg(&choice.filter);
    command.env("TOTE_TEST_SEED", choice.seed.to_string());
    if !choice.sample {
        command.env("TOTE_TEST_MACHINES", "all");
    }
    Ok(drive(&mut command, "machines"))
}

/// Runs the same with the shipped build, and the tests of virtual machines: optimised as a whole, the first process of a guest has
/// frames on its stack that no other build has.
///
/// # Errors
/// A package does not compile.
pub(crate) fn of_shipped(workspace: &Workspace, tote: &Path) -> Result<Tally> {
    optimised(
        workspace,
        tote,
        ("shipped build", &[GROUP, MEMORY, WORDS, MACHINES]),
    )
}

fn optimised(workspace: &Workspace, tote: &Path, (name, filters): (&str, &[&str])) -> Result<Tally> {
    let runner = development(workspace, RUNNER)?;
    beside(&runner, &development(workspace, ENGINE)?)?;
    let mut tally = Tally::default();
    for filter in filters {
        println!("running {filter} with the {name}");
        tally += drive(program(&runner).arg("--tote").arg(tote).arg(filter), name);
    }
    Ok(tally)
}

/// Runs a group of the tests in each of the surroundings.
fn surrounded(runner: &Path, tote: &Path) -> Tally {
    let mut tally = Tally::default();
    for (name, script) in SURROUNDINGS {
        println!("running the group {GROUP} again: {name}");
        let mut command = program("sh");
        command.args(["-c", script, "sh"]);
        tally += drive(command.arg(runner).arg("--tote").arg(tote).arg(GROUP), name);
    }
    tally
}

fn beside(runner: &Path, mortal: &Path) -> Result<PathBuf> {
    let place = runner.with_file_name(MORTAL);
    std::fs::copy(mortal, &place).with_context(|| format!("copy {}", mortal.display()))?;
    Ok(place)
}

/// Runs the runner once; if it breaks off, that counts as a failed test.
fn drive(command: &mut Command, who: &str) -> Tally {
    let mut closing = None;
    let status = tee(command, |line| closing = Tally::parse_e2e(line).or(closing));
    match (status, closing) {
        (Ok(status), Some(tally)) if status.success() == (tally.failed == 0) => tally,
        (Ok(status), closing) => {
            let counted = closing.map_or_else(|| "nothing".to_owned(), |tally| tally.to_string());
            eprintln!("xtask: {RUNNER} ({who}): {status}, having counted {counted}");
            let mut tally = closing.unwrap_or_default();
            tally.failed = tally.failed.max(1);
            tally
        }
        (Err(error), _) => {
            eprintln!("xtask: {RUNNER} ({who}): {error:#}");
            Tally::broken()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_must_say_and_do_the_same() {
        let line = |passed, failed| format!("echo 'e2e(x): {passed} passed, {failed} failed, 0 skipped'");
        for (script, passed, failed) in [
            (line(2, 0), 2, 0),
            (format!("{}; exit 1", line(2, 1)), 2, 1),
            (format!("{}; exit 1", line(2, 0)), 2, 1),
            (format!("{}; exit 0", line(2, 3)), 2, 3),
            ("exit 0".to_owned(), 0, 1),
            ("kill -9 $$".to_owned(), 0, 1),
        ] {
            let tally = drive(program("sh").args(["-c", &script]), "test");
            assert_eq!((tally.passed, tally.failed), (passed, failed), "{script}");
        }
        assert_eq!(drive(&mut program("/nonexistent"), "test"), Tally::broken());
    }

    #[test]
    fn a_runner_without_totals_passes_only_where_it_can_print_none() {
        for (runner, passed) in [("/bin/true", 1), ("/bin/false", 0)] {
            let tally = surrounded(Path::new(runner), Path::new("tote"));
            let all = SURROUNDINGS.len() as u64;
            assert_eq!((tally.passed, tally.failed), (passed, all - passed), "{runner}");
        }
    }
}
