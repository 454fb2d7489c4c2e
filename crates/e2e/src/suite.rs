//! Table of all tests, and the run of one of them in this process.

use crate::context::Context;
use crate::need::Need;
use crate::promise::Test;
use crate::promises::{self, machines};
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::ExitCode;
use std::sync::LazyLock;

/// Tests of cells of the matrix of machines.
static MACHINES: LazyLock<Vec<Test>> = LazyLock::new(machines::tests);

/// Lists all tests in the order in which they run. Where the whole matrix of machines is wanted, it is all.
pub(crate) fn tests() -> impl Iterator<Item = &'static Test> {
    let promises = if machines::whole() { &[] } else { promises::ALL };
    promises.iter().copied().flatten().chain(MACHINES.iter())
}

/// Finds the one cell of the matrix of machines that has this name, or the tests with these words in theirs.
pub(crate) fn matching(filter: &str) -> Vec<&'static Test> {
    match machines::named(filter) {
        Some(cell) => vec![Box::leak(Box::new(cell))],
        None => tests().filter(|test| test.name.contains(filter)).collect(),
    }
}

/// Prints the names of the tests; with `root_only` only those that an unprivileged run skips.
pub(crate) fn list(root_only: bool, filter: &str) {
    for test in matching(filter) {
        if !root_only {
            let needs: Vec<_> = test.needs.iter().map(ToString::to_string).collect();
            println!("{}\t{}", test.name, needs.join(" "));
        } else if test.needs.contains(&Need::Root) {
            println!("{}", test.name);
        }
    }
}

/// Runs one test in this process. On failure the reason is on standard output, below the transcript of its commands.
///
/// The process becomes a subreaper, so that processes of the test stay its descendants. It dies with the runner.
pub(crate) fn run_one(tote: &Path, name: &str) -> Result<ExitCode> {
    let test = matching(name)
        .into_iter()
        .find(|test| test.name == name)
        .with_context(|| format!("no test named {name}"))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("become a subreaper")?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context("ask to die with the runner")?;
    let context = Context::of(tote, name)?;
    let verdict = (test.run)(&context).and_then(|()| context.nothing_left());
    Ok(match verdict {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    })
}

#[cfg(test)]
mod tests {
    use super::tests;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_grouped() {
        let mut seen = HashSet::new();
        for test in tests() {
            assert!(seen.insert(test.name), "{} appears twice", test.name);
            assert!(test.name.contains("::"), "{} has no group", test.name);
        }
    }
}
