//! A measurement: block by block (an experiment of one size), round by round, in random order.

mod budget;

use self::budget::Budget;
use crate::arguments::Options;
use crate::catalogue::Catalogue;
use crate::compose::{Composed, compose};
use crate::progress::{Progress, clock};
use crate::record::{self, Cell, End, Header, Results};
use crate::report::figure;
use anyhow::{Context, Result, ensure};
use bench::chance::Chance;
use bench::machine::{Machine, Subject};
use bench::sample::{Pass, Sample};
use bench::session::{Session, Settings};
use bench::world::World;
use bench::{clock as calendar, machine, world};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Rounds of every block before any block gets more: one of everything first, then three. A measurement that ends early has some of
/// all experiments.
const SWEEPS: [usize; 2] = [1, 3];

/// A run that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    /// Number among the candidates of the session.
    index: usize,
    cell: String,
    pass: Pass,
    place: (usize, usize),
    /// Number of the sweep through all blocks, from 0.
    sweep: usize,
}

impl Turn {
    /// Names the experiment and the size: the cell's name without the candidate.
    fn block(&self) -> &str {
        self.cell.rsplit_once('/').map_or(&*self.cell, |(block, _)| block)
    }

    /// Names the block within the sweep.
    fn part(&self) -> (usize, &str) {
        (self.sweep, self.block())
    }
}

/// Measures, and returns whether all was sound, and the file.
pub(crate) fn run(options: &Options) -> Result<(bool, PathBuf)> {
    let begun = Instant::now();
    let earlier = options
        .resume
        .then(|| Results::newest(&options.out))
        .transpose()?;
    let mut options = options.clone();
    if let Some(earlier) = &earlier {
        ensure!(
            earlier.end.is_none(),
            "{} is complete: nothing is left to do",
            earlier.path.display()
        );
        let Header {
            seed,
            quick,
            warm_up,
            cold,
            runs,
            wanted,
            ..
        } = &earlier.header;
        (options.seed, options.quick, options.warm_up, options.runs) = (*seed, *quick, *warm_up, *runs);
        options.cold = *cold;
        [options.candidates, options.experiments] = wanted.clone();
    }
    ensure!(
        !options.cold || rustix::process::geteuid().is_root(),
        "--cold needs root, because only root may drop the kernel's caches"
    );
    let mut all = Catalogue::read(options.data.as_deref())?;
    all.choose(&options.candidates, &options.experiments, options.quick)?;
    let mut composed = compose(&all, options.quick, options.time_limit_ms, &cgroups()?)?;
    if let Some(runs) = options.runs {
        composed.series.iter_mut().for_each(|series| series.rounds = runs);
    }
    ensure!(
        !composed.cells.is_empty(),
        "no chosen candidate can run an experiment here: see `tote bench candidates`"
    );
    sweep()?;
    let world = world::enter(&composed.scenario.hidden_mounts, &composed.scenario.apparatus)?;
    bench::interruption::prepare();
    let mut machine = Machine::describe(&world)?;
    let tote = tote(&options)?;
    // A report of an engine's version needs the directory of the call, everything later one that all users can read.
    let header = header(&options, &composed, &machine, tote.as_deref())?;
    std::env::set_current_dir("/").context("change to /")?;
    std::fs::create_dir_all(&options.out).with_context(|| format!("make {}", options.out.display()))?;
    let (session, path) = open(&options, &composed, &world, tote, header, earlier.as_ref())?;
    eprintln!("results: {}", path.display());
    let done = earlier.map(|earlier| earlier.samples).unwrap_or_default();
    let end = options
        .minutes
        .map(|minutes| begun + Duration::from_secs(minutes * 60));
    let (leaks, sound) = measure(session, &options, &composed, (&done, end))?;
    machine.note_load_after()?;
    let clean = leaks.certain.is_empty();
    record::finish(
        &path,
        End {
            leaks,
            load_after: machine.load_after,
        },
    )?;
    Ok((sound && clean, path))
}

/// Makes all that the candidates need, runs each once, and removes it. Returns whether all went well.
pub(crate) fn try_out(options: &Options) -> Result<bool> {
    let mut all = Catalogue::read(options.data.as_deref())?;
    all.choose(&options.candidates, &options.experiments, options.quick)?;
    let composed = compose(&all, true, options.time_limit_ms, &cgroups()?)?;
    sweep()?;
    let world = world::enter(&composed.scenario.hidden_mounts, &composed.scenario.apparatus)?;
    bench::interruption::prepare();
    let tote = tote(options)?;
    std::env::set_current_dir("/").context("change to /")?;
    let settings = Settings {
        tote,
        seed: options.seed,
        as_user: options.as_user.clone(),
        settle: Duration::ZERO,
        cold: false,
    };
    let mut session = Session::open(&composed.scenario, Path::new("/"), &world, &settings)?;
    let mut sound = true;
    for (cell, reason) in &session.skipped {
        println!("{cell}: not made: {reason}");
    }
    let ready: Vec<String> = session.ready().map(str::to_owned).collect();
    for (index, cell) in ready.iter().enumerate() {
        let sample = match session.run(index, Pass::WarmUp, (0, 0)) {
            Ok(sample) => sample,
            Err(error) => {
                drop(session.close());
                return Err(error);
            }
        };
        sound &= sample.fault.is_none();
        println!("{cell}: {}", told(&sample));
    }
    let leaks = session.close()?;
    for leak in &leaks.certain {
        println!("left behind: {leak}");
    }
    Ok(sound && leaks.certain.is_empty())
}

/// Removes what killed runs have left, whose names the next run may need.
fn sweep() -> Result<()> {
    if !world::is_inside() {
        bench::stage::sweep()?;
    }
    Ok(())
}

/// Returns the layout of control groups.
pub(crate) fn cgroups() -> Result<String> {
    Ok(bench::mountinfo::cgroup_mode(&bench::mountinfo::read()?).to_owned())
}

/// Finds the engine to measure.
fn tote(options: &Options) -> Result<Option<PathBuf>> {
    if let Some(given) = &options.tote {
        ensure!(
            bench::stage::find_program(&given.to_string_lossy()).is_some(),
            "{} is no program",
            given.display()
        );
        return Ok(Some(given.clone()));
    }
    let own = std::env::current_exe().context("find this program")?;
    let beside = own.parent().map(|place| place.join("tote"));
    let found = beside.filter(|path| bench::stage::find_program(&path.to_string_lossy()).is_some());
    Ok(found.or_else(|| bench::stage::find_program("tote")))
}

fn header(options: &Options, composed: &Composed, machine: &Machine, tote: Option<&Path>) -> Result<Header> {
    let tote = tote.map(Subject::describe).transpose()?;
    Ok(Header {
        origin: "measured".to_owned(),
        started: calendar::now_nanos() / 1_000_000_000,
        seed: options.seed,
        quick: options.quick,
        warm_up: options.warm_up,
        cold: options.cold,
        runs: options.runs,
        wanted: [options.candidates.clone(), options.experiments.clone()],
        machine: serde_json::to_value(machine).context("describe the machine")?,
        tote: serde_json::to_value(tote).context("describe the engine")?,
        versions: machine::versions(&composed.scenario.versions),
        subjects: composed.subjects.clone(),
        series: composed.series.clone(),
        cells: composed.cells.clone(),
        skipped: BTreeMap::new(),
        later: Vec::new(),
    })
}

/// Prepares everything, and begins or continues the file.
fn open(
    options: &Options,
    composed: &Composed,
    world: &World,
    tote: Option<PathBuf>,
    mut header: Header,
    earlier: Option<&Results>,
) -> Result<(Session, PathBuf)> {
    eprintln!("preparing {} cells", composed.cells.len());
    let begun = Instant::now();
    let settings = Settings {
        tote,
        seed: options.seed,
        as_user: options.as_user.clone(),
        settle: Duration::ZERO,
        cold: options.cold,
    };
    let mut session = Session::open(&composed.scenario, Path::new("/"), world, &settings)?;
    eprintln!("prepared in {}", clock(begun.elapsed()));
    header.skipped = std::mem::take(&mut session.skipped);
    for (cell, reason) in &header.skipped {
        eprintln!("skipped: {cell} {reason}");
    }
    let (raw, path) = match earlier {
        Some(earlier) => (earlier.go_on()?, earlier.path.clone()),
        None => {
            let name = calendar::utc(header.started)
                .replace([' ', ':'], "-")
                .replace("-UTC", "");
            let second = header.started % 60;
            let seed = options.seed & 0xFFFF_FFFF;
            let path = options.out.join(format!("{name}-{second:02}-{seed:08x}.jsonl"));
            (record::begin(&path, &header)?, path)
        }
    };
    session.write_to(raw);
    Ok((session, path))
}

/// Runs all turns that are not done yet.
fn measure(
    mut session: Session,
    options: &Options,
    composed: &Composed,
    (done, end): (&[Sample], Option<Instant>),
) -> Result<(bench::leaks::Leaks, bool)> {
    let ready: Vec<String> = session.ready().map(str::to_owned).collect();
    let turns = turns(&ready, composed, options);
    let total = turns.len();
    let mut left = without(turns, done);
    let mut progress = Progress::new(total, total - left.len(), end);
    let mut sound = done.iter().all(|sample| sample.fault.is_none());
    left.reverse();
    let mut budget = end.map(Budget::new);
    let mut over = 0;
    while let Some(turn) = left.pop() {
        if session.is_given_up(turn.index) {
            continue;
        }
        if budget
            .as_mut()
            .is_some_and(|budget| !budget.allows(&turn, &left, Instant::now()))
        {
            over += 1;
            continue;
        }
        let begun = Instant::now();
        let sample = match session.run(turn.index, turn.pass, turn.place) {
            Ok(sample) => sample,
            Err(error) => {
                progress.end();
                drop(session.close());
                return Err(error);
            }
        };
        sound &= sample.fault.is_none();
        let told = told(&sample);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for turn in left.iter().filter(|turn| !session.is_given_up(turn.index)) {
            *counts.entry(turn.cell.as_str()).or_default() += 1;
        }
        progress.note(&turn.cell, &told, begun.elapsed(), counts.into_iter());
    }
    progress.end();
    if over > 0 {
        eprintln!("{over} of {total} runs were left out, because the time was over: --minutes");
    }
    Ok((session.close()?, sound))
}

fn told(sample: &Sample) -> String {
    match (&sample.fault, sample.figure) {
        (Some(fault), _) => format!("failed, {fault}"),
        (None, Some(found)) => figure(found),
        (None, None) => format!("{:.1} ms", sample.wall_ns as f64 / 1e6),
    }
}

/// Lists all runs in sweeps through the blocks. The order of a round depends on the seed, the block and the round alone, so a measurement that is continued has the order that it would have had.
fn turns(ready: &[String], composed: &Composed, options: &Options) -> Vec<Turn> {
    let mut turns = Vec::new();
    for sweep in 0..=SWEEPS.len() {
        for (number, block) in blocks(&composed.cells).into_iter().enumerate() {
            let cells: Vec<(usize, &str)> = (composed.cells.iter())
                .filter(|cell| cell.block() == block)
                .filter_map(|cell| {
                    let index = ready.iter().position(|name| *name == cell.name)?;
                    Some((index, cell.name.as_str()))
                })
                .collect();
            let rounds = (composed.series.iter()).find(|series| series.name == block.0);
            let rounds = rounds.map_or(1, |series| series.rounds);
            for (pass, round) in rounds_of(sweep, rounds, options.warm_up) {
                let kind = u64::from(pass == Pass::WarmUp) << 24;
                let mut order = Chance::new(options.seed ^ ((number as u64) << 32) ^ kind ^ round as u64);
                for (position, which) in order.permutation(cells.len()).into_iter().enumerate() {
                    let (index, cell) = cells[which];
                    turns.push(Turn {
                        index,
                        cell: cell.to_owned(),
                        pass,
                        place: (round, position),
                        sweep,
                    });
                }
            }
        }
    }
    turns
}

/// Lists the rounds of a block in a sweep. The last sweep has most of them, and comes back to a block with caches that others have
/// used, so it has a round of its own to warm up.
fn rounds_of(sweep: usize, rounds: usize, warm_up: usize) -> Vec<(Pass, usize)> {
    let end = |sweep: usize| SWEEPS.get(sweep).map_or(rounds, |end| rounds.min(*end));
    let counted: Vec<(Pass, usize)> = (sweep.checked_sub(1).map_or(0, end)..end(sweep))
        .map(|round| (Pass::Wall, round))
        .collect();
    let warm = match sweep {
        0 => 0..warm_up,
        last if last == SWEEPS.len() && !counted.is_empty() => warm_up..warm_up + warm_up.min(1),
        _ => 0..0,
    };
    let warm = warm.map(|round| (Pass::WarmUp, round));
    warm.chain(counted).collect()
}

/// Lists experiments and sizes in the order of their cells' first appearance, experiments together.
pub(crate) fn blocks(cells: &[Cell]) -> Vec<(&str, &str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for cell in cells {
        if !found.contains(&cell.block()) {
            found.push(cell.block());
        }
    }
    found
}

fn without(turns: Vec<Turn>, done: &[Sample]) -> Vec<Turn> {
    let key = |cell: &str, pass: Pass, round: usize| (cell.to_owned(), pass == Pass::WarmUp, round);
    let done: BTreeSet<_> = (done.iter())
        .map(|sample| key(&sample.candidate, sample.pass, sample.round))
        .collect();
    (turns.into_iter())
        .filter(|turn| !done.contains(&key(&turn.cell, turn.pass, turn.place.0)))
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::arguments::parse;

    pub(crate) fn composed() -> Composed {
        let all = Catalogue::read(None).unwrap();
        let header = record::tests::header();
        Composed {
            scenario: compose(&all, true, 1, "v2").unwrap().scenario,
            cells: header.cells,
            subjects: header.subjects,
            series: header.series,
        }
    }

    #[test]
    fn what_is_done_is_not_done_again_and_the_order_stays() {
        let (_, options) = parse(["run", "--seed", "3"].map(Into::into)).unwrap();
        let ready = ["hello/slow", "hello/fast"].map(str::to_owned);
        let all = turns(&ready, &composed(), &options);
        assert_eq!(all.len(), 2 * (1 + 3 + 1 + 1));
        assert_eq!(all, turns(&ready, &composed(), &options));
        let done = [record::tests::sample("slow", 0, &[1], None)];
        let left = without(all.clone(), &done);
        assert_eq!(left.len(), 11);
        let rest: Vec<Turn> = (all.into_iter())
            .filter(|turn| turn.cell != "hello/slow" || turn.pass != Pass::Wall || turn.place.0 != 0)
            .collect();
        assert_eq!(left, rest);
    }

    #[test]
    fn every_block_has_its_first_rounds_before_any_has_more() {
        assert_eq!(rounds_of(0, 2, 0), [(Pass::Wall, 0)]);
        assert_eq!(rounds_of(0, 5, 2).len(), 2 + 1);
        assert_eq!(rounds_of(1, 2, 1), [(Pass::Wall, 1)]);
        assert_eq!(rounds_of(1, 5, 1), [(Pass::Wall, 1), (Pass::Wall, 2)]);
        assert_eq!(rounds_of(2, 3, 1), []);
        assert_eq!(
            rounds_of(2, 5, 1),
            [(Pass::WarmUp, 1), (Pass::Wall, 3), (Pass::Wall, 4)]
        );
        assert_eq!(rounds_of(2, 5, 0).len(), 2);
        let (_, options) = parse(["run", "--seed", "3"].map(Into::into)).unwrap();
        let ready = ["hello/slow", "hello/fast"].map(str::to_owned);
        let all = turns(&ready, &composed(), &options);
        let sweeps: Vec<usize> = all.iter().map(|turn| turn.sweep).collect();
        assert!(sweeps.is_sorted() && sweeps.last() == Some(&2), "{sweeps:?}");
    }
}
