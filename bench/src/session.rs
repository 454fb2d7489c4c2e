//! A measurement from the first preparation to the last check: candidates in random order, round by round.

use crate::account::Account;
use crate::apparatus::Apparatus;
use crate::chance::Chance;
use crate::interruption;
use crate::leaks::{Groups, Leaks, Snapshot};
use crate::processes::EVERY;
use crate::sample::{Pass, Sample};
use crate::scenario::{AsUser, Candidate, Scenario};
use crate::stage::{PATH, Stage, find_program};
use crate::step::{Step, Together, expand, words};
use crate::trial::{Runner, Trial};
use crate::world::World;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of failures in a row after which a candidate is not run again.
const PATIENCE: usize = 3;

/// Settings of a measurement that no scenario makes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine to measure: the place `{tote}`.
    pub tote: Option<PathBuf>,
    /// Seed of the order.
    pub seed: u64,
    /// Account that rootless candidates run as.
    pub as_user: String,
    /// Pause after each run.
    pub settle: Duration,
    /// True if each run begins with empty caches of files.
    pub cold: bool,
}

/// State of a measurement.
#[derive(Debug)]
pub struct Session {
    /// Environment of the candidates; must end before the stage is removed.
    apparatus: Apparatus,
    stage: Stage,
    runner: Runner,
    user: Account,
    before: Snapshot,
    world: World,
    order: Chance,
    settle: Duration,
    cold: bool,
    ready: Vec<Ready>,
    /// Candidates that were not run, with the reason.
    pub skipped: BTreeMap<String, String>,
    raw: Option<File>,
    containers: usize,
    /// Control groups that are known, and the candidate after whose run each of the others was there first.
    groups: (Groups, BTreeMap<PathBuf, String>),
}

/// A candidate that can run here.
#[derive(Clone, Debug)]
struct Ready {
    candidate: Candidate,
    /// Number of failures since the last success.
    faults: usize,
}

impl Session {
    /// Prepares `scenario`, read from a file in `directory`.
    pub fn open(scenario: &Scenario, directory: &Path, world: &World, options: &Settings) -> Result<Self> {
        let root = rustix::process::geteuid().is_root();
        let user = if root {
            Account::ensure(&options.as_user)?
        } else {
            Account::of_uid(rustix::process::geteuid().as_raw())?
        };
        let before = Snapshot::take(&world.hidden)?;
        let tag = format!("bench-{:x}-{:x}", std::process::id(), options.seed & 0xFFFF_FFFF);
        let mut stage = Stage::set_up(scenario, directory, &tag, &user, world.private)?;
        stage.places.extend(
            options
                .tote
                .iter()
                .map(|tote| ("tote".to_owned(), tote.to_string_lossy().into_owned())),
        );
        let own = std::env::current_exe().context("find this program")?;
        stage
            .places
            .insert("self".to_owned(), own.to_string_lossy().into_owned());
        let apparatus = Apparatus::set_up(&scenario.apparatus, &mut stage)?;
        let mut session = Session {
            stage,
            runner: Runner::new(Duration::from_millis(scenario.time_limit_ms), kept(&apparatus)?)?,
            user,
            before,
            world: world.clone(),
            order: Chance::new(options.seed),
            settle: options.settle,
            cold: options.cold,
            ready: Vec::new(),
            skipped: BTreeMap::new(),
            raw: None,
            containers: 0,
            groups: (Groups::now(), BTreeMap::new()),
            apparatus,
        };
        for candidate in &scenario.candidates {
            match session.admit(candidate, root) {
                Ok(()) => session.ready.push(Ready {
                    candidate: candidate.clone(),
                    faults: 0,
                }),
                Err(reason) => drop(session.skipped.insert(candidate.name.clone(), reason)),
            }
        }
        Ok(session)
    }

    /// Checks whether `candidate` can run here; the error is the reason if it cannot.
    fn admit(&self, candidate: &Candidate, root: bool) -> Result<(), String> {
        if candidate.as_user == AsUser::Root && !root {
            return Err("needs root".to_owned());
        }
        if let Some(missing) = candidate.needs.iter().find(|name| find_program(name).is_none()) {
            return Err(format!("needs {missing}"));
        }
        if candidate.argv[0] == "{tote}" && !self.stage.places.contains_key("tote") {
            return Err("needs --tote".to_owned());
        }
        self.needs_apparatus(candidate)?;
        let first = expand(&candidate.argv[0], &self.stage.places).map_err(|error| error.to_string())?;
        find_program(&first).ok_or_else(|| format!("needs {first}"))?;
        let mut places = self.places(candidate);
        places.insert("id".to_owned(), String::new());
        places.insert("n".to_owned(), String::new());
        let further = candidate.steps().filter_map(Step::argv);
        for argv in std::iter::once(candidate.argv.as_slice()).chain(further) {
            words(argv, &places).map_err(|error| error.to_string())?;
        }
        for value in candidate.env.values() {
            expand(value, &places).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Collects the places that have one value in all steps. Places of noted values stand for themselves until they
    /// are known.
    fn places(&self, candidate: &Candidate) -> BTreeMap<String, String> {
        let mut places = self.stage.places.clone();
        for step in candidate.steps() {
            if let Step::Note(note) = step {
                places.insert(note.place(), format!("{{{}}}", note.place()));
            }
        }
        places
    }

    /// Checks that the parts of the environment that a candidate needs exist; the error is the reason why one is
    /// missing.
    fn needs_apparatus(&self, candidate: &Candidate) -> Result<(), String> {
        let further = candidate.steps().filter_map(Step::argv).flatten();
        for word in candidate.argv.iter().chain(further) {
            let missing = self.apparatus.missing.iter();
            if let Some((_, reason)) = missing
                .into_iter()
                .find(|(place, _)| word.contains(&format!("{{{place}}}")))
            {
                return Err(reason.clone());
            }
        }
        Ok(())
    }

    /// Runs every candidate once in each of `rounds`, each round in a new random order, and returns the samples.
    pub fn measure(&mut self, pass: Pass, rounds: usize) -> Result<Vec<Sample>> {
        let mut samples = Vec::with_capacity(rounds * self.ready.len());
        for round in 0..rounds {
            let order = self.order.permutation(self.ready.len());
            for (position, index) in order.into_iter().enumerate() {
                let ready = &self.ready[index];
                if ready.faults < PATIENCE && round.is_multiple_of(ready.candidate.every) {
                    samples.push(self.run(index, pass, (round, position))?);
                }
            }
        }
        Ok(samples)
    }

    /// Sets the file that every sample is added to as it comes.
    pub fn write_to(&mut self, raw: File) {
        self.raw = Some(raw);
    }

    /// Names the candidates that can run here, in the scenario's order.
    pub fn ready(&self) -> impl Iterator<Item = &str> {
        self.ready.iter().map(|ready| ready.candidate.name.as_str())
    }

    /// True if the candidate has failed so often in a row that it is not run again.
    #[must_use]
    pub fn is_given_up(&self, index: usize) -> bool {
        self.ready[index].faults >= PATIENCE
    }

    /// Runs the candidate at `index` of [`Session::ready`] once; `place` is the round and the position in it. The
    /// sample is written down before this returns. Fails after a signal.
    pub fn run(&mut self, index: usize, pass: Pass, place: (usize, usize)) -> Result<Sample> {
        let sample = self.attempt(index, pass, place)?;
        // A signal may have ended the candidate as well, so this run says nothing.
        interruption::check()?;
        let mut line = serde_json::to_string(&sample).context("write down a sample")?;
        line.push('\n');
        // One write, so that a kill leaves a whole line or none.
        if let Some(raw) = &mut self.raw {
            raw.write_all(line.as_bytes()).context("write down a sample")?;
        }
        std::thread::sleep(self.settle);
        Ok(sample)
    }

    fn attempt(&mut self, index: usize, pass: Pass, place: (usize, usize)) -> Result<Sample> {
        let trial = self.trial(index, pass)?;
        let ready = &mut self.ready[index];
        let candidate = &ready.candidate;
        let sample = match self.runner.run(&trial) {
            Ok(outcome) => Sample::judge(candidate, pass, place, &outcome),
            Err(error) => Sample::failed(&candidate.name, pass, place, &error),
        };
        let groups = Groups::now();
        for group in groups.beyond(&self.groups.0) {
            self.groups.1.insert(group.to_owned(), candidate.name.clone());
        }
        self.groups.0 = groups;
        ready.faults = if sample.fault.is_some() {
            ready.faults + 1
        } else {
            0
        };
        Ok(sample)
    }

    fn trial(&mut self, index: usize, pass: Pass) -> Result<Trial> {
        self.containers += 1;
        self.stage
            .places
            .insert("id".to_owned(), format!("{}-{}", self.stage.tag, self.containers));
        let Ready { candidate, .. } = &self.ready[index];
        let argv = candidate.argv.clone();
        let mut timed = vec![match candidate.together {
            1 => Step::Run(argv),
            together => Step::Together(Together { together, argv }),
        }];
        timed.extend(candidate.then.iter().cloned());
        let places = self.places(candidate);
        let mut timed = steps(&timed, candidate.times, &places)?;
        if pass == Pass::PeakRss {
            for step in &mut timed {
                let peak = self.stage.peak.to_string_lossy();
                match step {
                    Step::Run(argv) => argv.insert(0, peak.into_owned()),
                    Step::Parallel(commands) => commands
                        .iter_mut()
                        .for_each(|argv| argv.insert(0, peak.clone().into_owned())),
                    _ => {}
                }
            }
        }
        let mut env = vec![
            ("PATH".to_owned(), PATH.to_owned()),
            ("LANG".to_owned(), "C".to_owned()),
        ];
        let account = match candidate.as_user {
            AsUser::Root => {
                env.push(("HOME".to_owned(), "/root".to_owned()));
                None
            }
            AsUser::User => {
                env.push(("HOME".to_owned(), self.stage.home.to_string_lossy().into_owned()));
                env.push(("USER".to_owned(), self.user.name.clone()));
                let runtime_dir = self.stage.runtime_dir.to_string_lossy().into_owned();
                env.push(("XDG_RUNTIME_DIR".to_owned(), runtime_dir));
                rustix::process::geteuid().is_root().then(|| self.user.clone())
            }
        };
        for (name, value) in &candidate.env {
            env.push((name.clone(), expand(value, &places)?));
        }
        Ok(Trial {
            before: steps(&candidate.before, 1, &places)?,
            cold: self.cold,
            timed,
            after: steps(&candidate.after, candidate.times, &places)?,
            idle: candidate
                .idle
                .as_deref()
                .map(|program| idle(program, &places))
                .transpose()?,
            exit: candidate.expect.exit,
            leaves: candidate.leaves,
            env,
            account,
        })
    }

    /// Removes the preparations, and returns what the candidates left behind.
    pub fn close(mut self) -> Result<Leaks> {
        let left = |group: &&PathBuf| group.is_dir();
        let lasting: Vec<PathBuf> = self.groups.1.keys().filter(left).cloned().collect();
        self.apparatus.take_down()?;
        let states = self.stage.take_states()?;
        let mut leaks = Snapshot::take(&self.world.hidden)?.since(
            &self.before,
            &self.stage.tag,
            self.world.private,
            &self.groups.1,
        );
        for left in states {
            leaks.push(true, left);
        }
        for group in lasting.iter().filter(|group| !group.is_dir()) {
            let first = &self.groups.1[group];
            leaks.removed.push(format!(
                "cgroup {}, there since a run of {first}",
                group.display()
            ));
        }
        self.stage.remove()?;
        Ok(leaks)
    }
}

/// Returns the processes that the set-up leaves running: daemons, and what some engines of users keep.
fn kept(apparatus: &Apparatus) -> Result<Vec<rustix::process::Pid>> {
    let mut kept = apparatus.pids();
    kept.extend(crate::processes::children()?);
    Ok(kept)
}

/// Fills in the places of steps and finds their programs; repeats them `times` times.
fn steps(steps: &[Step], times: usize, places: &BTreeMap<String, String>) -> Result<Vec<Step>> {
    let mut places = places.clone();
    let mut found = Vec::with_capacity(steps.len() * times);
    for n in 0..times {
        for step in steps {
            let Some(argv) = step.argv() else {
                found.push(step.clone());
                continue;
            };
            let mut together = Vec::new();
            for again in 0..step.times() {
                let count = if step.times() > 1 { again } else { n };
                places.insert("n".to_owned(), count.to_string());
                let mut argv = words(argv, &places)?;
                let program = find_program(&argv[0]).with_context(|| format!("find {}", argv[0]))?;
                argv[0] = program.to_string_lossy().into_owned();
                match step {
                    Step::Together(_) => together.push(argv),
                    _ => found.push(step.with(argv)),
                }
            }
            if !together.is_empty() {
                found.push(Step::Parallel(together));
            }
        }
    }
    Ok(found)
}

/// Returns the file of a program, as `/proc/PID/exe` shows it.
fn idle(program: &str, places: &BTreeMap<String, String>) -> Result<PathBuf> {
    if program == EVERY {
        return Ok(PathBuf::from(program));
    }
    let name = expand(program, places)?;
    let path = find_program(&name).with_context(|| format!("find {name}"))?;
    path.canonicalize().with_context(|| format!("find {name}"))
}
