//! The unit tests of every crate but the end-to-end runner.
//!
//! cargo runs the programs of tests one after another, and several of them mostly wait; here as many run at a time as there are
//! processors.

use super::{Tally, e2e};
use crate::build::{TestProgram, test_programs};
use crate::program::{cargo, program, read};
use anyhow::{Context, Result, bail};
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::sync::Mutex;

/// # Errors
/// A crate does not compile. Failed tests are in the totals.
pub(super) fn run(filter: Option<&str>) -> Result<Tally> {
    let messages = read(
        cargo()
            .args(["test", "--workspace", "--exclude", e2e::RUNNER, "--no-run"])
            // Not the examples in comments: `tidy` allows none, and to find none rustdoc would read every crate.
            .args([
                "--lib",
                "--bins",
                "--tests",
                "--message-format=json-render-diagnostics",
            ]),
    )?;
    let programs = test_programs(&messages)?;
    if programs.is_empty() {
        bail!("cargo test --no-run has named no program");
    }
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(all(programs, filter, workers))
}

/// Runs each program once, `workers` of them at a time.
fn all(programs: Vec<TestProgram>, filter: Option<&str>, workers: usize) -> Tally {
    let waiting = Mutex::new(programs.into_iter());
    let total = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().ok().and_then(|mut programs| programs.next());
                    let Some(next) = next else { return };
                    let found = ran(&next, filter);
                    if let Ok(mut total) = total.lock() {
                        let (output, tally) = reported(&next, found);
                        print(&output);
                        *total += tally;
                    }
                }
            });
        }
    });
    total.into_inner().unwrap_or_else(|_| Tally::broken())
}

fn ran(test: &TestProgram, filter: Option<&str>) -> Result<Output> {
    program(&test.executable)
        .args(filter)
        .current_dir(&test.directory)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", test.executable.display()))
}

/// Returns the output of a program, under its name, and its totals. A program that breaks off counts as a failed test.
fn reported(test: &TestProgram, found: Result<Output>) -> (Vec<u8>, Tally) {
    let mut shown = format!("     Running {}\n", test.name).into_bytes();
    let output = match found {
        Ok(output) => output,
        Err(error) => {
            shown.extend(format!("xtask: {error:#}\n").bytes());
            return (shown, Tally::broken());
        }
    };
    shown.extend(&output.stdout);
    shown.extend(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    let closing = text.lines().filter_map(Tally::parse_libtest).next_back();
    let mut tally = closing.unwrap_or_default();
    if closing.is_none() || output.status.success() != (tally.failed == 0) {
        shown.extend(format!("xtask: {}: {}\n", test.name, output.status).bytes());
        tally.failed = tally.failed.max(1);
    }
    (shown, tally)
}

fn print(output: &[u8]) {
    // If the stream is closed, the exit code tells the result.
    drop(std::io::stdout().lock().write_all(output));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    fn test() -> TestProgram {
        TestProgram {
            name: "tests of a".to_owned(),
            executable: "/a/program/that/is/not/there".into(),
            directory: "/".into(),
        }
    }

    fn counted(status: i32, stdout: &str) -> (u64, u64, u64) {
        let output = Output {
            status: ExitStatus::from_raw(status << 8),
            stdout: stdout.into(),
            stderr: Vec::new(),
        };
        let (shown, tally) = reported(&test(), Ok(output));
        assert!(String::from_utf8(shown).unwrap().contains("tests of a"));
        (tally.passed, tally.failed, tally.skipped)
    }

    #[test]
    fn totals_and_exit_codes_must_agree() {
        let line = |passed, failed| {
            format!(
                "test result: ok. {passed} passed; {failed} failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n"
            )
        };
        assert_eq!(counted(0, &line(5, 0)), (5, 0, 1));
        assert_eq!(counted(101, &line(5, 2)), (5, 2, 1));
        assert_eq!(counted(101, &line(5, 0)), (5, 1, 1));
        assert_eq!(counted(134, "running 3 tests\n"), (0, 1, 0));
        assert_eq!(counted(0, ""), (0, 1, 0));
    }

    #[test]
    fn each_program_runs_and_those_that_cannot_start_count() {
        let tally = all((0..5).map(|_| test()).collect(), None, 2);
        assert_eq!((tally.passed, tally.failed), (0, 5));
    }
}
