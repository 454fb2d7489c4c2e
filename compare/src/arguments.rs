//! The command line.

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: tote bench COMMAND [OPTION...]

Measures container engines side by side, and makes a report.

Commands:
  candidates           list the candidates: which can run here, and why others cannot
  experiments          list what is measured
  setup                make all that the candidates need, run each once, and remove it again
  run                  measure; results are added to a new file in the directory of --out
  ablate               measure tote as it is beside tote with one measure more or less
  report [FILE...]     write report.md, report.html, report.json and report.csv beside the newest results, or FILE;
                       of several files, each experiment is that of the last one that has it
  history [DIR]        compare the results in a directory, run by run
  import FILE...       make results from the JSON files of the thesis's benchmark tool
  teardown             remove what a killed run has left

Options:
  --candidates A,B     only these candidates
  --experiments A,B    only these experiments
  --quick              fewer rounds and sizes: minutes instead of hours; implies --minutes 14
  --minutes N          end within N minutes: an experiment whose share of the time is over gets no more rounds
  --runs N             rounds that count, instead of each experiment's own number
  --warm-up N          rounds that do not count (1)
  --cold               drop the kernel's caches of files before each run, as root
  --resume             run: continue the newest results instead of making new ones
  --out DIR            directory of results (tote-bench)
  --baseline NAME      report: the candidate that others are compared with (podman, else the first)
  --plots A,B          report: also write these plots as files of their own; all for all of them
  --data DIR           further candidates, experiments and images: TOML files in folders of these names
  --seed N             seed of the order and of the intervals (the time)
  --time-limit SECONDS a run that takes longer is killed and does not count (60)
  --as-user NAME       the user of rootless candidates; made where there is none (tote-test)
  --tote PATH          the engine to measure (the one beside this program)
";

/// Minutes after which a quick measurement begins no more runs: the last run and the clearing up come after that.
const QUICK_MINUTES: u64 = 14;

/// The chosen command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Candidates,
    Experiments,
    Setup,
    Run,
    Ablate,
    Report,
    History,
    Import,
    Teardown,
    /// An empty registry of images on a port of this machine, for as long as the process lives. Experiments start it.
    Registry,
    Help,
}

/// Options. Paths are absolute.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) candidates: Vec<String>,
    pub(crate) experiments: Vec<String>,
    pub(crate) quick: bool,
    pub(crate) runs: Option<usize>,
    pub(crate) minutes: Option<u64>,
    pub(crate) warm_up: usize,
    pub(crate) cold: bool,
    pub(crate) resume: bool,
    pub(crate) out: PathBuf,
    pub(crate) baseline: Option<String>,
    pub(crate) plots: Vec<String>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) seed: u64,
    pub(crate) time_limit_ms: u64,
    pub(crate) as_user: String,
    pub(crate) tote: Option<PathBuf>,
    /// Words after the command.
    pub(crate) files: Vec<PathBuf>,
}

/// Parses the arguments after the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Action, Options)> {
    let mut options = Options {
        candidates: Vec::new(),
        experiments: Vec::new(),
        quick: false,
        runs: None,
        minutes: None,
        warm_up: 1,
        cold: false,
        resume: false,
        out: PathBuf::from("tote-bench"),
        baseline: None,
        plots: Vec::new(),
        data: None,
        seed: bench::clock::now_nanos(),
        time_limit_ms: 60_000,
        as_user: "tote-test".to_owned(),
        tote: None,
        files: Vec::new(),
    };
    let mut action = None;
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("candidates") => options.candidates.extend(names(parser.value()?)?),
            Long("experiments") => options.experiments.extend(names(parser.value()?)?),
            Long("quick") => options.quick = true,
            Long("runs") => options.runs = Some(parser.value()?.parse()?),
            Long("minutes") => options.minutes = Some(parser.value()?.parse()?),
            Long("warm-up") => options.warm_up = parser.value()?.parse()?,
            Long("cold") => options.cold = true,
            Long("resume") => options.resume = true,
            Long("out") => options.out = parser.value()?.into(),
            Long("baseline") => options.baseline = Some(parser.value()?.string()?),
            Long("plots") => options.plots.extend(names(parser.value()?)?),
            Long("data") => options.data = Some(parser.value()?.into()),
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("time-limit") => {
                let seconds: u64 = parser.value()?.parse()?;
                options.time_limit_ms = seconds.saturating_mul(1000);
            }
            Long("as-user") => options.as_user = parser.value()?.string()?,
            Long("tote") => options.tote = Some(parser.value()?.into()),
            Long("help") | Short('h') => action = Some(Action::Help),
            Value(word) if action.is_none() => action = Some(command(word)?),
            Value(word)
                if matches!(
                    action,
                    Some(Action::Report | Action::History | Action::Import | Action::Registry)
                ) =>
            {
                options.files.push(word.into());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let Some(action) = action else {
        bail!("no command given: try --help");
    };
    if options.quick && options.minutes.is_none() {
        options.minutes = Some(QUICK_MINUTES);
    }
    if options.runs == Some(0) || options.minutes == Some(0) || options.time_limit_ms == 0 {
        bail!("0 rounds, or rounds of 0 seconds, measure nothing");
    }
    // Candidates run in /, so relative paths must be resolved before.
    let named = [
        Some(&mut options.out),
        options.tote.as_mut(),
        options.data.as_mut(),
    ];
    let files = options.files.iter_mut().filter(|_| action != Action::Registry);
    for path in named.into_iter().flatten().chain(files) {
        *path = std::path::absolute(&path).with_context(|| format!("make {} absolute", path.display()))?;
    }
    Ok((action, options))
}

fn names(value: OsString) -> Result<Vec<String>> {
    let words = value.string()?;
    Ok(words
        .split(',')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect())
}

fn command(word: OsString) -> Result<Action> {
    match word.string()?.as_str() {
        "candidates" => Ok(Action::Candidates),
        "experiments" => Ok(Action::Experiments),
        "setup" => Ok(Action::Setup),
        "run" => Ok(Action::Run),
        "ablate" => Ok(Action::Ablate),
        "report" => Ok(Action::Report),
        "history" => Ok(Action::History),
        "import" => Ok(Action::Import),
        "teardown" => Ok(Action::Teardown),
        "registry" => Ok(Action::Registry),
        "help" => Ok(Action::Help),
        other => bail!("unknown command {other:?}: try --help"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<(Action, Options)> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn lists_are_separated_by_commas_and_paths_absolute() {
        let (action, options) = read(&[
            "run",
            "--candidates",
            "a,b",
            "--candidates=c",
            "--quick",
            "--out",
            "x",
        ])
        .unwrap();
        assert_eq!(action, Action::Run);
        assert_eq!(options.candidates, ["a", "b", "c"]);
        assert!(options.quick && options.out.is_absolute());
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            &[][..],
            &["fly"],
            &["run", "more"],
            &["run", "--runs", "0"],
            &["run", "--minutes", "0"],
            &["run", "--time-limit", "0"],
            &["run", "--seed", "x"],
            &["-x"],
        ] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }
}
