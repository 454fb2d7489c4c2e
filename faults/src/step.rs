//! Stepper: kills the Wth process of a command at its Nth system call, or fails that call with an errno.
//!
//! A scenario's command is first traced without a fault, which records its calls. Each chosen point is then tried in
//! an unchanged state root, because every point ends with the removal of everything that the command makes. A finding
//! costs the state root, and the next point gets a new one.

mod call;
mod enclosure;
mod errno;
mod planted;
mod point;
mod processes;
mod report;
pub(crate) mod scenario;
mod stage;
mod terminal;
mod tracer;
mod trial;
mod waiting;

pub(crate) use errno::{USUAL, parse as errno_of};
pub(crate) use planted::{CARELESS, careless};
pub(crate) use point::Means;
pub(crate) use tracer::{HOLD, HOLD_TERMINAL};

use crate::arguments::{Choice, Options};
use crate::chance::Chance;
use crate::tables::scenarios::SCENARIOS;
use anyhow::{Context, Result, bail};
pub(crate) use enclosure::Enclosure;
use point::Point;
use report::{Report, Row};
use scenario::Scenario;
pub(crate) use stage::Stage;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tracer::{Deed, Fault};
pub(crate) use waiting::Waiting;

/// Number of points with findings after which a scenario is broken off.
const ENOUGH: usize = 200;

/// Tries the points that the options choose. Returns true if nothing was found.
///
/// # Errors
/// Fails if nothing could be tried.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if options.list {
        for scenario in SCENARIOS {
            println!("{:<18} tote {}", scenario.name, scenario.command.join(" "));
        }
        return Ok(true);
    }
    if let Some(lack) = lack() {
        println!("faults: skipped: needs {lack}");
        return Ok(true);
    }
    let tote = options.tote.as_deref().context("--tote PATH is missing")?;
    let chosen = options.share.of(chosen(&options.scenarios)?);
    nix::sys::prctl::set_child_subreaper(true).context("become a subreaper")?;
    // So the scenarios change no bridge, rule or setting of the machine.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).context("make a network namespace")?;
    let waiting = Waiting::new()?;
    let place = std::env::temp_dir().join(format!("faults-{}", std::process::id()));
    planted::is_found(&waiting, &place.join("planted"))?;
    let enclosure = Enclosure::enter()?;
    let start = Instant::now();
    let deadline = options.time.map(|time| start + time);
    let mut machine = Machine {
        options,
        tote,
        place: &place,
        waiting: &waiting,
        enclosure: &enclosure,
        chance: Chance::new(options.seed),
        stages: 0,
    };
    let mut rows = Vec::new();
    for (at, scenario) in chosen.iter().enumerate() {
        // The remaining time is shared equally among the remaining scenarios.
        let share = deadline.map(|end| {
            let left = end.saturating_duration_since(Instant::now());
            Instant::now() + left / u32::try_from(chosen.len() - at).unwrap_or(1)
        });
        rows.push(machine.play(scenario, share));
    }
    drop(enclosure);
    drop(std::fs::remove_dir_all(&place));
    let report = Report {
        seed: options.seed,
        seconds: start.elapsed().as_secs(),
        rows,
    };
    if options.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&report).context("write the report")?
        );
    } else {
        print!("{}", report.table());
    }
    Ok(report.is_clean())
}

/// Names the first thing that this machine lacks; `None` if everything can be tried.
fn lack() -> Option<&'static str> {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .iter()
        .any(|path| Path::new(path).exists());
    if !cfg!(target_arch = "x86_64") {
        Some("the registers of x86_64")
    } else if !nix::unistd::geteuid().is_root() {
        Some("root")
    } else if !busybox {
        Some("busybox-static")
    } else {
        None
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(SCENARIOS.iter().collect());
    }
    let find = |name: &String| SCENARIOS.iter().find(|scenario| scenario.name == name);
    names
        .iter()
        .map(|name| find(name).with_context(|| format!("no scenario {name}: try --list")))
        .collect()
}

struct Machine<'a> {
    options: &'a Options,
    tote: &'a Path,
    place: &'a Path,
    waiting: &'a Waiting,
    enclosure: &'a Enclosure,
    chance: Chance,
    stages: usize,
}

impl<'a> Machine<'a> {
    /// Tries one scenario until its points or the time are used up.
    fn play(&mut self, scenario: &Scenario, deadline: Option<Instant>) -> Row {
        let mut row = Row {
            scenario: scenario.name.to_owned(),
            ..Row::default()
        };
        if let Err(error) = self.points_of(scenario, deadline, &mut row) {
            row.broken = Some(format!("{error:#}"));
        }
        self.progress(&row, true);
        row
    }

    fn points_of(&mut self, scenario: &Scenario, deadline: Option<Instant>, row: &mut Row) -> Result<()> {
        let limit = self.options.limit;
        let mut stage = self.stage(scenario)?;
        // The command is recorded twice, because its first run can do work that later runs do not repeat.
        trial::record(&stage, self.tote, scenario, limit)?;
        let trial::Undisturbed { calls, result } = trial::record(&stage, self.tote, scenario, limit)?;
        let points = match self.options.choice {
            Choice::One(process, call) => self.single(process, call),
            choice => {
                row.processes = calls.len();
                row.calls = calls.iter().map(Vec::len).sum();
                if self.options.calls {
                    for (process, calls) in (1..).zip(&calls) {
                        for (number, call) in (1..).zip(calls) {
                            println!("{process} {number} {} {}", call.name, call.object);
                        }
                    }
                    return Ok(());
                }
                let all = point::all(&calls, &self.options.means);
                match choice {
                    Choice::Every(n) => point::every(all, n),
                    Choice::Sample(count) => point::sample(all, count, &mut self.chance),
                    Choice::One(..) | Choice::All => all,
                }
            }
        };
        let mut last = Instant::now();
        for Point { fault, .. } in points {
            if deadline.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            let tried = trial::attempt(&stage, self.tote, scenario, (fault, limit), &result);
            let (hit, findings, said) = match tried {
                Ok(trial) => (trial.hit, trial.findings, trial.said),
                Err(error) => (
                    None,
                    vec![format!("the next command fails: {error:#}")],
                    String::new(),
                ),
            };
            for first in row.note(fault, hit.as_ref(), &findings, &said) {
                eprintln!("{first}");
            }
            if self.options.verbose {
                let name = hit
                    .map(|(_, call)| format!("{} {}", call.name, call.object))
                    .unwrap_or_default();
                eprintln!("{fault:?} {name}: {findings:?} {}", said.trim());
            }
            if !findings.is_empty() {
                if row.faulty >= ENOUGH {
                    bail!("{ENOUGH} points with findings are enough");
                }
                drop(stage);
                stage = self.stage(scenario)?;
            }
            if last.elapsed() > Duration::from_secs(1) {
                last = Instant::now();
                self.progress(row, false);
            }
        }
        Ok(())
    }

    /// Returns the points of one named call.
    fn single(&self, process: usize, call: usize) -> Vec<Point> {
        let deeds = self.options.means.iter().map(|means| match *means {
            Means::Kill => Deed::Kill,
            Means::Fail { errno, always, .. } => Deed::Fail { errno, always },
        });
        deeds
            .map(|deed| {
                Point::at(Fault {
                    process,
                    call,
                    name: None,
                    deed,
                })
            })
            .collect()
    }

    fn stage(&mut self, scenario: &Scenario) -> Result<Stage<'a>> {
        self.stages += 1;
        let place: PathBuf = self.place.join(self.stages.to_string());
        Stage::make(self.tote, &place, self.waiting, self.enclosure, scenario.bare)
            .context("prepare a state root")
    }

    /// Prints one line for each scenario; on a terminal the line of the present scenario is updated.
    fn progress(&self, row: &Row, done: bool) {
        use std::io::IsTerminal as _;
        let line = format!(
            "{:<18} {} points, {} with findings",
            row.scenario, row.points, row.faulty
        );
        match (std::io::stderr().is_terminal(), done) {
            (true, false) => eprint!("\r{line}"),
            (true, true) => eprintln!("\r{line}"),
            (false, true) => eprintln!("{line}"),
            (false, false) => {}
        }
    }
}
