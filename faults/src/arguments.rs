//! The command line.

use anyhow::Result;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: cargo xtask faults [SCENARIO...] [OPTION...]
       cargo xtask faults cuts [OPTION...]

Without a scenario, every one is tried.

Options:
  --tote PATH          the tote to try; xtask gives the one that it has built
";

/// What to do.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Step(Options),
    /// The words after `cuts`, which has a command line of its own.
    Cuts(Vec<OsString>),
    Help,
}

/// How the stepper works.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) tote: Option<PathBuf>,
    pub(crate) scenarios: Vec<String>,
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Action> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tote") => options.tote = Some(parser.value()?.into()),
            Long("help") | Short('h') => return Ok(Action::Help),
            Value(word) if word == "cuts" && options.scenarios.is_empty() => {
                let mut words: Vec<OsString> = parser.raw_args()?.collect();
                if let Some(tote) = options.tote.take() {
                    words.splice(0..0, ["--tote".into(), tote.into_os_string()]);
                }
                return Ok(Action::Cuts(words));
            }
            Value(word) => options.scenarios.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Action::Step(options))
}
