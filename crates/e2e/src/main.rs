//! `tote-e2e`: tests of tote's promises to its users, on the built binary.
//!
//! Each run tests tote as the user who starts it: once as root and once as an ordinary user. Each file in
//! [`promises`] holds one group of promises; [`suite`] is the table of them all.
//!
//! Invariants:
//! - each test runs in a process of its own with a state root of its own, and has a time limit; when it ends, nothing
//!   that it started may be left: the process that runs it is a child subreaper, so nothing can slip away;
//! - a missing need is never a pass: it is printed as `skipped`, and fails when `TOTE_TEST_REQUIRE` names it;
//! - nothing sleeps to wait for something else: waits are on pipes, terminals and pidfds, with a deadline;
//! - what a test does to the host is undone by the test, and the run compares the host before and after.
//!
//! It is *not* a benchmark, and it knows tote's command line only: it links none of its crates.

#![expect(
    clippy::disallowed_methods,
    reason = "tests run programs and prepare files on the host; nothing here is on a hot path"
)]
#![expect(clippy::print_stdout, reason = "its whole purpose is to print a verdict")]

mod bundle;
mod cgroup;
mod context;
mod exchange;
mod fixture;
mod invocation;
mod layout;
mod leaks;
mod mirror;
mod need;
mod neighbour;
mod output;
mod processes;
mod promise;
mod promises;
mod remains;
mod runner;
mod suite;
mod surroundings;
mod terminal;
mod tree;

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: tote-e2e --tote PATH [--list] [--root-only-names] [--jobs N] [FILTER]

  --tote PATH         the binary to test
  --list              print the names of the tests and what each needs, and stop
  --root-only-names   print the names of the tests that only root can run, and stop
  --jobs N            how many tests run at once (3)
  FILTER              run only the tests whose name contains this

TOTE_TEST_REQUIRE=all, or a list such as userns,program:gcc,cgroup-v1: a test that is skipped for one of these fails.
TOTE_TEST_SLOW=N, for an emulated machine: every time limit is N times as long.";

/// Number of tests that run at once on two processors, of which one is idle for a third of the time with two tests.
const JOBS: usize = 3;

/// Parsed command line.
#[derive(Debug)]
struct Request {
    tote: Option<PathBuf>,
    list: bool,
    root_only_names: bool,
    jobs: usize,
    /// Name of one test to run in this very process, as the runner starts each.
    exact: Option<String>,
    filter: String,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Request> {
    let mut request = Request {
        tote: None,
        list: false,
        root_only_names: false,
        jobs: JOBS,
        exact: None,
        filter: String::new(),
    };
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .with_context(|| format!("{arg} needs a value\n{USAGE}"))
        };
        match arg.as_str() {
            "--tote" => request.tote = Some(PathBuf::from(value()?)),
            "--exact" => request.exact = Some(value()?),
            "--jobs" => request.jobs = value()?.parse().context("--jobs takes a number")?,
            "--list" => request.list = true,
            "--root-only-names" => request.root_only_names = true,
            "--help" | "-h" => bail!("{USAGE}"),
            other if other.starts_with('-') => bail!("unknown option {other}\n{USAGE}"),
            filter => request.filter = filter.to_owned(),
        }
    }
    Ok(request)
}

fn main() -> Result<ExitCode> {
    let mut args = std::env::args().skip(1).peekable();
    if args.peek().is_some_and(|arg| arg == terminal::LEAD_SESSION) {
        return Err(terminal::lead_session(args.skip(1)));
    }
    let request = parse(args)?;
    if request.list || request.root_only_names {
        suite::list(request.root_only_names, &request.filter);
        return Ok(ExitCode::SUCCESS);
    }
    let tote = request
        .tote
        .with_context(|| format!("--tote is missing\n{USAGE}"))?;
    let tote = tote
        .canonicalize()
        .with_context(|| format!("cannot find {}", tote.display()))?;
    match request.exact {
        Some(name) => suite::run_one(&tote, &name),
        None => surroundings::reset().and_then(|()| runner::run(&tote, &request.filter, request.jobs.max(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn args(line: &str) -> impl Iterator<Item = String> {
        line.split_whitespace().map(str::to_owned)
    }

    #[test]
    fn the_command_line() {
        let request = parse(args("--tote ./tote --jobs 3 basics")).unwrap();
        assert_eq!(request.tote.unwrap().to_str(), Some("./tote"));
        assert_eq!((request.jobs, request.filter.as_str()), (3, "basics"));
        assert!(
            parse(args("--nonsense"))
                .unwrap_err()
                .to_string()
                .contains("--nonsense")
        );
        assert!(
            parse(args("--tote"))
                .unwrap_err()
                .to_string()
                .contains("needs a value")
        );
        assert!(parse(args("--jobs many")).is_err());
    }
}
