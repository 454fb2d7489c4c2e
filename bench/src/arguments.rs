//! The command line.

use anyhow::{Context, Result, bail};
use bench::clock;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: bench [--tote PATH] COMMAND [OPTION...]

Commands:
  boot                 start-up time and peak memory of tote, its peers and the kernel's floor
  oci                  what runtimes of the OCI do with bundles, and its peak memory
  images               loading, pulling and removing images, and what storage costs a container
  disks                what reading and writing costs on a container's disk, its volume and the host
  engine               the life of containers: run, exec, ps, a hundred of them, monitors at rest
  graph                what starts of closures cost beside starts of images
  slim                 how much smaller images become, and what slimming takes; builds more than twenty images
  debug                what sessions of debug cost, and work on a container's files in them
  net                  networks: starts on a bridge, published ports, throughput and latency, names
  vm                   what a container in a virtual machine costs beside bare QEMU
  timings              where the time of a start goes, as the program's --timings tell it

Options:
  --tote PATH          the tote to measure; without it only peers are
  --runs N             rounds that count (50)
  --warm-up N          rounds that do not (3)
  --memory-runs N      rounds that measure peak memory (10)
  --settle-ms N        pause after each run (0)
  --out DIR            where SCENARIO.md, .json and .jsonl go (target/bench)
  --seed S             of the order and of the bootstrap (the time)
  --as-user NAME       whose processes rootless candidates are; made where there is none (tote-test)
  --set DIR            images: the space of eight images instead, whose archives are kept in DIR; slim: keeps its images in DIR
  --only WORD          only candidates with WORD in their names, and what they are compared with; may be repeated
  --scenario FILE      another scenario than the command's own
";

/// The kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Boot,
    Oci,
    Images,
    Disks,
    Engine,
    Debug,
    Graph,
    Slim,
    Net,
    Vm,
    Timings,
    Help,
}

/// Options of a measurement. Paths are absolute.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) tote: Option<PathBuf>,
    pub(crate) runs: usize,
    pub(crate) warm_up: usize,
    pub(crate) memory_runs: usize,
    pub(crate) settle: Duration,
    pub(crate) out: PathBuf,
    pub(crate) seed: u64,
    pub(crate) as_user: String,
    pub(crate) scenario: Option<PathBuf>,
    /// Words of which a candidate's name must contain one; empty for all candidates.
    pub(crate) only: Vec<String>,
    /// Directory in which the set of images is kept.
    pub(crate) set: Option<PathBuf>,
}

/// Parses the arguments after the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Action, Options)> {
    let mut options = Options {
        tote: None,
        runs: 50,
        warm_up: 3,
        memory_runs: 10,
        settle: Duration::ZERO,
        out: PathBuf::from("target/bench"),
        seed: clock::now_nanos(),
        as_user: "tote-test".to_owned(),
        scenario: None,
        only: Vec::new(),
        set: None,
    };
    let mut action = None;
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tote") => options.tote = Some(parser.value()?.into()),
            Long("runs") => options.runs = parser.value()?.parse()?,
            Long("warm-up") => options.warm_up = parser.value()?.parse()?,
            Long("memory-runs") => options.memory_runs = parser.value()?.parse()?,
            Long("settle-ms") => options.settle = Duration::from_millis(parser.value()?.parse()?),
            Long("out") => options.out = parser.value()?.into(),
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("as-user") => options.as_user = parser.value()?.string()?,
            Long("scenario") => options.scenario = Some(parser.value()?.into()),
            Long("only") => options.only.push(parser.value()?.string()?),
            Long("set") => options.set = Some(parser.value()?.into()),
            Long("help") | Short('h') => action = Some(Action::Help),
            Value(word) if action.is_none() => action = Some(command(word)?),
            other => return Err(other.unexpected().into()),
        }
    }
    // Candidates run in /, so relative paths must be resolved before.
    for path in [
        Some(&mut options.out),
        options.tote.as_mut(),
        options.scenario.as_mut(),
        options.set.as_mut(),
    ]
    .into_iter()
    .flatten()
    {
        *path = std::path::absolute(&path).with_context(|| format!("make {} absolute", path.display()))?;
    }
    let Some(action) = action else {
        bail!("no command given: try --help");
    };
    Ok((action, options))
}

fn command(word: OsString) -> Result<Action> {
    match word.string()?.as_str() {
        "boot" => Ok(Action::Boot),
        "oci" => Ok(Action::Oci),
        "images" => Ok(Action::Images),
        "disks" => Ok(Action::Disks),
        "engine" => Ok(Action::Engine),
        "debug" => Ok(Action::Debug),
        "graph" => Ok(Action::Graph),
        "slim" => Ok(Action::Slim),
        "net" => Ok(Action::Net),
        "vm" => Ok(Action::Vm),
        "timings" => Ok(Action::Timings),
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
    fn options_stand_before_and_after_the_command() {
        let (action, options) = read(&[
            "--tote",
            "/bin/tote",
            "boot",
            "--runs",
            "7",
            "--seed=9",
            "--settle-ms",
            "20",
            "--only",
            "run",
            "--only=exec",
        ])
        .unwrap();
        assert_eq!(action, Action::Boot);
        assert_eq!(
            (options.runs, options.seed, options.settle),
            (7, 9, Duration::from_millis(20))
        );
        assert_eq!(options.only, ["run", "exec"]);
        assert_eq!(options.tote, Some(PathBuf::from("/bin/tote")));
        assert_eq!(
            (options.as_user.as_str(), options.out.is_absolute()),
            ("tote-test", true)
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            &[][..],
            &["fly"],
            &["boot", "timings"],
            &["boot", "--runs", "x"],
            &["boot", "--tote"],
            &["-x"],
        ] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }
}
