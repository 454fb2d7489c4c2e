//! `cargo xtask test [--unit] [--e2e] [FILTER]`: all tests that can run here, with totals in the last line.
//!
//! Root first installs the programs that the end-to-end tests need; for other users, missing programs are named,
//! and the tests that need them report that they are skipped. Root runs the end-to-end tests twice, as root and as
//! an unprivileged user, since rootless containers are the other half of the engine. If no kind of test was chosen,
//! a sample of faults comes last.

mod clients;
mod e2e;
mod kernel;
mod packages;
mod tally;
mod unit;
mod user;

use crate::faults;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::process::ExitCode;

pub(crate) use e2e::{RUNNER, of_release, of_shipped};
pub(crate) use packages::prepare_shipped;
pub(crate) use tally::Tally;

/// Choice of the tests to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    unit: bool,
    e2e: bool,
    filter: Option<String>,
}

impl Choice {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut choice = Self::default();
        for word in words {
            match *word {
                "--unit" => choice.unit = true,
                "--e2e" => choice.e2e = true,
                option if option.starts_with('-') => bail!("test: no option {option}"),
                filter if choice.filter.is_none() => choice.filter = Some(filter.to_owned()),
                second => bail!("test: one filter, not also {second:?}"),
            }
        }
        Ok(choice)
    }

    /// True if unit tests run; naming neither kind selects both.
    fn wants_unit(&self) -> bool {
        self.unit || !self.e2e
    }

    fn wants_e2e(&self) -> bool {
        self.e2e || !self.unit
    }
}

/// Runs cells of the matrix of machines: all that each two values of two axes need, or with `--sample` those that are in every run of the tests.
pub(crate) fn machines(workspace: &Workspace, words: &[&str]) -> Result<ExitCode> {
    let choice = Machines::parse(words)?;
    packages::prepare()?;
    let tally = counted(e2e::machines(workspace, &choice));
    let verdict = tally.verdict();
    println!("{tally}");
    verdict.map(|()| ExitCode::SUCCESS)
}

/// Choice of the machines on which the tests run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machines {
    sample: bool,
    seed: u64,
    filter: String,
}

impl Machines {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut choice = Self {
            sample: false,
            seed: 1,
            filter: "machines::".to_owned(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--sample" => choice.sample = true,
                "--seed" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    choice.seed = number.context("machines: --seed takes a number")?;
                }
                option if option.starts_with('-') => bail!("machines: no option {option}"),
                cell => choice.filter = format!("machines::{}", cell.trim_start_matches("machines::")),
            }
        }
        Ok(choice)
    }
}

pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<ExitCode> {
    let tally = all(workspace, &Choice::parse(words)?)?;
    let verdict = tally.verdict();
    if let Err(error) = &verdict {
        eprintln!("xtask: {error:#}");
    }
    println!("{tally}");
    Ok(if verdict.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the chosen tests; the caller prints the totals, as its last line.
///
/// A runner that breaks off counts as one failed test, so that the others still run.
///
/// # Errors
/// The environment of the tests cannot be prepared. Failed tests are not an error.
pub(crate) fn all(workspace: &Workspace, choice: &Choice) -> Result<Tally> {
    let mut tally = Tally::default();
    let filter = choice.filter.as_deref();
    packages::prepare()?;
    if choice.wants_unit() {
        tally += counted(unit::run(filter));
    }
    if choice.wants_e2e() {
        tally += counted(e2e::run(workspace, filter));
    }
    if *choice == Choice::default() {
        tally += counted(faults::sample(workspace));
    }
    Ok(tally)
}

fn counted(result: Result<Tally>) -> Tally {
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        Tally::broken()
    })
}

/// True if this process has root's rights over files and users: the owner of `/proc/self` is the effective user.
fn is_root() -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata("/proc/self")?.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_machines() {
        let parsed = Machines::parse(&["--seed", "7", "root.rp-2"]).unwrap();
        assert_eq!(
            (parsed.sample, parsed.seed, parsed.filter.as_str()),
            (false, 7, "machines::root.rp-2")
        );
        assert!(Machines::parse(&["--sample"]).unwrap().sample);
        Machines::parse(&["--seed", "x"]).unwrap_err();
        Machines::parse(&["--what"]).unwrap_err();
    }

    #[test]
    fn choices() {
        for (words, unit, e2e, filter) in [
            (&[][..], true, true, None),
            (&["--unit"], true, false, None),
            (&["--e2e", "run_"], false, true, Some("run_")),
            (&["--unit", "--e2e"], true, true, None),
            (&["parse"], true, true, Some("parse")),
        ] {
            let choice = Choice::parse(words).unwrap();
            assert_eq!(
                (choice.wants_unit(), choice.wants_e2e()),
                (unit, e2e),
                "{words:?}"
            );
            assert_eq!(choice.filter.as_deref(), filter);
        }
        Choice::parse(&["--what"]).unwrap_err();
        Choice::parse(&["a", "b"]).unwrap_err();
    }
}
