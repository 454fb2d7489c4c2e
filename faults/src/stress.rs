//! Many commands at once: rounds of concurrent builds, runs and kills. Each command must succeed, and none may leave
//! anything behind.

use crate::step::{Enclosure, Stage, Waiting};
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: cargo xtask faults [--debug] stress [OPTION...]

In each round so many builds, so many containers that run, and so many kills of containers go on at once. Each command must
succeed, and when all that they have made is removed, the state root must be as before.

  --rounds N       how often (100)
  --at-once N      commands of each kind (30)
  --limit SECONDS  after which a command hangs (300)
  --tote PATH      the tote to try; xtask gives the one that it has built
";

/// Number of failures after which the run stops early.
const ENOUGH: usize = 50;

struct Options {
    tote: PathBuf,
    rounds: usize,
    at_once: usize,
    limit: Duration,
}

/// Runs the rounds. Returns true if nothing failed.
///
/// # Errors
/// Fails if nothing could be tried.
pub(crate) fn run(words: &[OsString]) -> Result<bool> {
    let Some(options) = parse(words)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    nix::sys::prctl::set_child_subreaper(true).context("become a subreaper")?;
    let waiting = Waiting::new()?;
    let place = std::env::temp_dir().join(format!("stress-{}", std::process::id()));
    let enclosure = Enclosure::enter()?;
    let began = Instant::now();
    let mut stress = Stress {
        stage: Stage::make(&options.tote, &place, &waiting, &enclosure, false)
            .context("prepare a state root")?,
        options: &options,
        waiting: &waiting,
        commands: 0,
        failures: 0,
    };
    let mut rounds = 0;
    while rounds < options.rounds && stress.failures < ENOUGH {
        rounds += 1;
        stress.round(rounds).with_context(|| format!("round {rounds}"))?;
        if rounds % 10 == 0 {
            eprintln!("{rounds} rounds, {} failures", stress.failures);
        }
    }
    let (commands, failures) = (stress.commands, stress.failures);
    // Some of a rootless user's files belong to the user's subordinate ids, and only the engine can remove those.
    for words in [
        &["pod", "rm", "-af"][..],
        &["rm", "-af"],
        &["system", "prune", "-af", "--volumes"],
    ] {
        stress.stage.tote(words)?;
    }
    // The stage ends the remaining processes; it must do so before its cgroups are removed.
    drop(stress);
    let seconds = began.elapsed().as_secs();
    println!("{rounds} rounds, {commands} commands, {failures} failures, {seconds} s");
    Ok(failures == 0)
}

fn parse(words: &[OsString]) -> Result<Option<Options>> {
    let mut parser = lexopt::Parser::from_args(words.iter().cloned());
    let (mut tote, mut rounds, mut at_once, mut limit) = (None, 100, 30, 300);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tote") => tote = Some(PathBuf::from(parser.value()?)),
            Long("rounds") => rounds = parser.value()?.parse()?,
            Long("at-once") => at_once = parser.value()?.parse()?,
            Long("limit") => limit = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some(Options {
        tote: tote.context("--tote PATH is missing")?,
        rounds,
        at_once,
        limit: Duration::from_secs(limit),
    }))
}

/// Command, and the output that it must print, if that is fixed.
struct Order {
    words: Vec<String>,
    says: Option<String>,
}

impl Order {
    fn new(words: &[&str]) -> Self {
        Self {
            words: words.iter().map(|&word| word.to_owned()).collect(),
            says: None,
        }
    }

    fn says(mut self, text: impl Into<String>) -> Self {
        self.says = Some(text.into());
        self
    }
}

struct Stress<'a> {
    stage: Stage<'a>,
    options: &'a Options,
    waiting: &'a Waiting,
    commands: usize,
    failures: usize,
}

impl Stress<'_> {
    fn round(&mut self, round: usize) -> Result<()> {
        let numbers = || (0..self.options.at_once).map(|number| number.to_string());
        let killed: Vec<String> = numbers().map(|number| format!("killed-{number}")).collect();
        let images: Vec<String> = numbers().map(|number| format!("built:{number}")).collect();
        let of_each = |name: &[String], words: &[&str]| -> Vec<Order> {
            let all = name.iter().map(|name| [words, &[name]].concat());
            all.map(|words| Order::new(&words)).collect()
        };
        // As root every third container is in a network.
        let network = |number: usize| -> &[&str] {
            let is_in = number % 3 == 1 && nix::unistd::geteuid().is_root();
            if is_in { &["--network", "lab"] } else { &[] }
        };
        let begun = killed.iter().enumerate().map(|(number, name)| {
            let words = [&["run", "-d", "--name", name], network(number)].concat();
            Order::new(&[&words[..], &["tiny:1", "sleep", "100000"]].concat())
        });
        let begun = begun.collect();
        let mut mixed = of_each(&killed, &["kill"]);
        for (number, image) in images.iter().enumerate() {
            let context = self.context(round, number)?;
            mixed.push(Order::new(&["build", "-q", "-t", image, &context]));
            let (name, word) = (format!("runs-{number}"), format!("said {round}.{number}"));
            let words = [&["run", "--rm", "--name", &name], network(number)].concat();
            let run = Order::new(&[&words[..], &["tiny:1", "echo", &word]].concat());
            mixed.push(run.says(format!("{word}\n")));
        }
        let ended = of_each(&killed, &["wait"]);
        let ended = ended.into_iter().map(|order| order.says("137\n")).collect();
        let built = images.iter().enumerate().map(|(number, image)| {
            let order = Order::new(&["run", "--rm", image, "cat", "/built", "/mark"]);
            order.says(format!("{}\nprecious\n", word_of(round, number)))
        });
        let built = built.collect();
        let mut gone = of_each(&killed, &["rm", "-v"]);
        gone.extend(of_each(&images, &["rmi"]));
        let swept = [
            Order::new(&["builder", "prune", "-af"]),
            Order::new(&["image", "prune", "-f"]),
            Order::new(&["store", "verify", "--full"]),
        ];
        for orders in [begun, mixed, ended, built, gone] {
            self.at_once(round, &orders)?;
        }
        for order in &swept {
            self.at_once(round, std::slice::from_ref(order))?;
        }
        self.stage.settle()?;
        let left = [self.stage.strangers()?, self.stage.changes()?].concat();
        for line in left {
            self.fails(round, &line);
        }
        Ok(())
    }

    /// Writes the context of a build. Every third build has the same words as the others of its round, so that they
    /// meet in the cache.
    fn context(&self, round: usize, number: usize) -> Result<String> {
        let word = word_of(round, number);
        let dir = self.stage.file(&format!("context-{number}"));
        let text = format!("FROM tiny:1\nRUN echo {word} >/built\nCOPY mark /mark\n");
        fs::create_dir_all(&dir)
            .and_then(|()| fs::write(dir.join("Dockerfile"), text))
            .and_then(|()| fs::write(dir.join("mark"), "precious\n"))
            .with_context(|| format!("write {}", dir.display()))?;
        Ok(dir.to_string_lossy().into_owned())
    }

    /// Starts all commands of `orders`, and waits for their ends.
    fn at_once(&mut self, round: usize, orders: &[Order]) -> Result<()> {
        let mut started = Vec::new();
        for (number, order) in orders.iter().enumerate() {
            let words: Vec<&str> = order.words.iter().map(String::as_str).collect();
            started.push(self.stage.start(&words, &number.to_string())?);
        }
        let mut hung: Vec<Pid> = Vec::new();
        for (number, (order, pid)) in orders.iter().zip(started).enumerate() {
            self.commands += 1;
            let code = self.waiting.end(pid, self.options.limit)?;
            let (out, err) = self.stage.output(&number.to_string())?;
            let words = order.words.join(" ");
            match code {
                None => {
                    hung.push(pid);
                    self.fails(round, &format!("`{words}` hangs: {}", err.trim()));
                }
                Some(0) if order.says.as_ref().is_none_or(|text| *text == out) => {}
                Some(0) => self.fails(round, &format!("`{words}` says {out:?}, not {:?}", order.says)),
                Some(code) => self.fails(round, &format!("`{words}` ends with {code}: {}", err.trim())),
            }
        }
        if !hung.is_empty() {
            bail!("commands hang:\n{}", crate::waits::below(std::process::id()));
        }
        Ok(())
    }

    fn fails(&mut self, round: usize, what: &str) {
        self.failures += 1;
        eprintln!("round {round}: {what}");
    }
}

fn word_of(round: usize, number: usize) -> String {
    match number % 3 {
        0 => format!("all-{round}"),
        _ => format!("{round}-{number}"),
    }
}
