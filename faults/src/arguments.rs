//! Parser of the command line.

use crate::step::{CARELESS, HOLD, HOLD_TERMINAL, Means, USUAL, errno_of};
use anyhow::{Context, Result, bail, ensure};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

pub(crate) const USAGE: &str = "\
usage: cargo xtask faults [--debug] [SCENARIO...] [OPTION...]
       cargo xtask faults [--debug] cuts [OPTION...]
       cargo xtask faults [--debug] stress [OPTION...]

Kills commands at their system calls, or lets the calls fail, and looks whether anything is lost or left. Without a
scenario every one is tried, without an option at every call: that takes hours.

What is done:
  --kill               kill the process at the entry of the call
  --errno NAME         let the call fail so, where it may fail so in life; may be repeated
                       (without these two: --kill, and EMFILE EIO ENOSPC ENOMEM EINTR)
  --any-call           also let calls fail that do not fail so in life
  --always             let later calls of the same name fail, too, in the same process

Where:
  --every K            every Kth point only
  --sample N           N points of each scenario, drawn at random; those that write state more often
  --minutes M          as many points as fit into this time, drawn so, and shared among the scenarios
  --process W --call N this call of this process, both counted from 1: what a finding says

Otherwise:
  --share K/N          every Nth scenario from the Kth on, so that N of these programs try all of them side by side
  --seed S             of what is drawn (the time)
  --limit SECONDS      after which a command hangs (20)
  --format json        the report as JSON
  --list               print the scenarios
  --calls              print the calls of a scenario's command, and do nothing to them
  --verbose            print each point
  --tote PATH          the tote to try; xtask gives the one that it has built
";

/// Action that the command line asks for.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Step(Options),
    /// Words after `cuts`, which has a command line of its own.
    Cuts(Vec<OsString>),
    /// Words after `stress`, which has a command line of its own.
    Stress(Vec<OsString>),
    /// Command that this process becomes after it has stopped itself, and the path of the command's terminal, if any.
    Hold(Option<PathBuf>, Vec<OsString>),
    /// File to replace without care for a power cut or a kill; the stepper proves itself on it.
    Careless(PathBuf),
    Help,
}

/// Selection of the points to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    All,
    Every(usize),
    Sample(usize),
    /// Numbers of a process and of its call, both from 1.
    One(usize, usize),
}

/// Part of the chosen scenarios: every `of`th one, from the `first`th on, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    first: usize,
    of: usize,
}

impl Share {
    const ALL: Self = Self { first: 1, of: 1 };

    fn parse(text: &str) -> Result<Self> {
        let numbers = text
            .split_once('/')
            .map(|(first, of)| (first.parse(), of.parse()));
        match numbers {
            Some((Ok(first), Ok(of))) if (1..=of).contains(&first) => Ok(Self { first, of }),
            _ => bail!("--share takes K/N with K from 1 to N, not {text:?}"),
        }
    }

    /// Returns the part of `all` that is this share.
    pub(crate) fn of<T>(self, all: Vec<T>) -> Vec<T> {
        all.into_iter().skip(self.first - 1).step_by(self.of).collect()
    }
}

/// Options of the stepper.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) tote: Option<PathBuf>,
    pub(crate) scenarios: Vec<String>,
    pub(crate) share: Share,
    pub(crate) means: Vec<Means>,
    pub(crate) choice: Choice,
    pub(crate) time: Option<Duration>,
    pub(crate) seed: u64,
    pub(crate) limit: Duration,
    pub(crate) json: bool,
    pub(crate) list: bool,
    pub(crate) calls: bool,
    pub(crate) verbose: bool,
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// Fails on unknown options, missing values, and a half of `--process` and `--call`.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Action> {
    let mut args = args.into_iter().peekable();
    if args.peek().is_some_and(|word| word == HOLD) {
        return Ok(Action::Hold(None, args.skip(1).collect()));
    }
    if args.peek().is_some_and(|word| word == HOLD_TERMINAL) {
        let terminal = args.nth(1).context("no terminal is given")?;
        return Ok(Action::Hold(Some(terminal.into()), args.collect()));
    }
    if args.peek().is_some_and(|word| word == CARELESS) {
        return Ok(Action::Careless(args.nth(1).context("no file is given")?.into()));
    }
    parse_step(lexopt::Parser::from_args(args))
}

fn parse_step(mut parser: lexopt::Parser) -> Result<Action> {
    let mut options = Options {
        tote: None,
        scenarios: Vec::new(),
        share: Share::ALL,
        means: Vec::new(),
        choice: Choice::All,
        time: None,
        seed: SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs()),
        limit: Duration::from_secs(20),
        json: false,
        list: false,
        calls: false,
        verbose: false,
    };
    let (mut kill, mut errnos, mut any, mut always) = (false, Vec::new(), false, false);
    let (mut process, mut call) = (None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tote") => options.tote = Some(parser.value()?.into()),
            Long("kill") => kill = true,
            Long("errno") => {
                let name = parser.value()?.string()?;
                errnos.push(errno_of(&name).with_context(|| format!("no errno {name} is known here"))?);
            }
            Long("any-call") => any = true,
            Long("always") => always = true,
            Long("every") => options.choice = Choice::Every(parser.value()?.parse()?),
            Long("sample") => options.choice = Choice::Sample(parser.value()?.parse()?),
            Long("minutes") => {
                options.time = Some(Duration::from_secs_f64(60.0 * parser.value()?.parse::<f64>()?))
            }
            Long("process") => process = Some(parser.value()?.parse()?),
            Long("call") => call = Some(parser.value()?.parse()?),
            Long("share") => options.share = Share::parse(&parser.value()?.string()?)?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("limit") => options.limit = Duration::from_secs(parser.value()?.parse()?),
            Long("format") => {
                let format = parser.value()?.string()?;
                ensure!(format == "json", "--format knows json, not {format}");
                options.json = true;
            }
            Long("list") => options.list = true,
            Long("calls") => options.calls = true,
            Long("verbose") => options.verbose = true,
            Long("help") | Short('h') => return Ok(Action::Help),
            Value(word)
                if matches!(word.to_str(), Some("cuts" | "stress")) && options.scenarios.is_empty() =>
            {
                let mut words: Vec<OsString> = parser.raw_args()?.collect();
                if let Some(tote) = options.tote.take() {
                    words.splice(0..0, ["--tote".into(), tote.into_os_string()]);
                }
                return Ok(match word == "cuts" {
                    true => Action::Cuts(words),
                    false => Action::Stress(words),
                });
            }
            Value(word) => options.scenarios.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    if process.is_some() || call.is_some() {
        let both = process
            .zip(call)
            .context("--process and --call belong together")?;
        options.choice = Choice::One(both.0, both.1);
    }
    if options.time.is_some() && options.choice == Choice::All {
        options.choice = Choice::Sample(usize::MAX);
    }
    if !kill && errnos.is_empty() {
        kill = true;
        errnos.extend_from_slice(USUAL);
    }
    let fail = errnos.into_iter().map(|errno| Means::Fail { errno, always, any });
    options.means = kill.then_some(Means::Kill).into_iter().chain(fail).collect();
    Ok(Action::Step(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(words: &[&str]) -> Options {
        match parse(words.iter().map(OsString::from)).unwrap() {
            Action::Step(options) => options,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn a_finding_is_tried_again_by_what_it_prints() {
        let options = step(&[
            "--tote",
            "/t",
            "run-d",
            "--process",
            "2",
            "--call",
            "117",
            "--errno",
            "EMFILE",
        ]);
        assert_eq!(options.scenarios, ["run-d"]);
        assert_eq!(options.choice, Choice::One(2, 117));
        assert_eq!(options.means.len(), 1);
    }

    #[test]
    fn without_words_everything_is_tried() {
        let options = step(&[]);
        assert_eq!(options.choice, Choice::All);
        assert_eq!(options.means.len(), 1 + USUAL.len());
        assert_eq!(step(&["--minutes", "2"]).choice, Choice::Sample(usize::MAX));
    }

    #[test]
    fn the_other_machine_gets_its_words() {
        match parse(["--tote", "/t", "cuts", "--x"].map(OsString::from)).unwrap() {
            Action::Cuts(words) => assert_eq!(words, ["--tote", "/t", "--x"]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn shares_are_everything_together() {
        let all: Vec<usize> = (0..7).collect();
        let mut both = step(&["--share", "1/2"]).share.of(all.clone());
        assert_eq!(both, [0, 2, 4, 6]);
        both.extend(step(&["--share", "2/2"]).share.of(all.clone()));
        both.sort_unstable();
        assert_eq!(both, all);
        assert_eq!(step(&[]).share.of(all.clone()), all);
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            &["--errno", "EWHAT"][..],
            &["--process", "1"],
            &["--format", "xml"],
            &["--share", "3/2"],
            &["--share", "0/2"],
            &["--share", "2"],
            &["-x"],
        ] {
            assert!(parse(words.iter().map(OsString::from)).is_err(), "{words:?}");
        }
    }
}
