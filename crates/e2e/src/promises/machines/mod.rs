//! Matrix of machines as people have them: a cell is a user, a network and mount namespace, and in them files, links, rules and settings of
//! its own; in each of them the same is tried. What cannot work says so in one sentence with what to do.
//!
//! The axes are a table, `tables/axes.rs`; `machine.sh` makes each value, `tries.sh` has what is tried, `expected.rs` what is seen. The
//! tests of every run are a sample in which each value occurs, `cargo xtask machines` tries cells in which each two values occur.

mod cell;
mod cover;
mod expected;

use super::firewalls;
use super::ports;
use crate::context::{Context, note};
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use cell::{Cell, GROUP, User};
use expected::{Expected, TRIES, expected};
use std::fs;
use std::io::Write as _;
use std::path::Path;

const NEEDS: &[Need] = &[
    Need::Root,
    Need::Userns,
    Need::Program("unshare"),
    Need::Program("nsenter"),
    Need::Program("setpriv"),
    Need::Program("ip"),
    Need::Program("nft"),
    Need::Program("iptables-legacy"),
    Need::Program("perl"),
    Need::Program("busybox"),
    Need::Program("pasta"),
    Need::Program("newuidmap"),
    Need::Program("pgrep"),
];

/// Variable with the seed of the choice of cells.
const SEED: &str = "TOTE_TEST_SEED";

/// Variable that is set where the whole matrix is tried and nothing else.
const WHOLE: &str = "TOTE_TEST_MACHINES";

/// File of the run's directory with a line of counts for each cell that was tried.
const COUNTS: &str = "machines.counts";

/// True if the whole matrix is tried and nothing else.
pub(crate) fn whole() -> bool {
    std::env::var_os(WHOLE).is_some()
}

fn seed() -> u64 {
    let given = std::env::var(SEED).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Makes the tests of the cells: a sample, or the whole matrix.
pub(crate) fn tests() -> Vec<Test> {
    let strength = if whole() { 2 } else { 1 };
    let cells = User::ALL
        .into_iter()
        .flat_map(|user| cover::cells(user, strength, seed()));
    cells.map(|cell| of_name(cell.name())).collect()
}

/// Makes the test of the cell with this name.
pub(crate) fn named(name: &str) -> Option<Test> {
    Cell::parse(name).map(|cell| of_name(cell.name()))
}

/// Names last as long as the program, which makes the table of its tests once.
fn of_name(name: String) -> Test {
    test(String::leak(name), NEEDS, run)
}

/// Says the counts of the cells that were tried, if there were any.
pub(crate) fn counts(directory: &Path) -> Result<Option<String>> {
    let path = directory.join(COUNTS);
    if !path.try_exists()? {
        return Ok(None);
    }
    let text = fs::read_to_string(&path)?;
    let mut sums = [0_u64; 4];
    for (sum, place) in sums.iter_mut().zip(0..) {
        for line in text.lines() {
            let number = line.split(' ').nth(place).context("a line of counts")?;
            *sum += number.parse::<u64>()?;
        }
    }
    let [tries, passed, failed, explained] = sums;
    let cells = text.lines().count();
    Ok(Some(format!(
        "machines: seed {}, {cells} cells, {tries} tries: {passed} passed, {failed} failed, {explained} explained",
        seed()
    )))
}

fn run(cx: &Context) -> Result<()> {
    let name = cx.scratch().file_name().context("a directory with a name")?;
    let name = name.to_string_lossy().replacen('-', "::", 1);
    let cell = Cell::parse(&name)
        .with_context(|| format!("{name} is no name of a cell, such as {GROUP}root.rp-2"))?;
    let script = [
        &cell.assignments(),
        firewalls::WORDS,
        ports::WORDS,
        include_str!("machine.sh"),
        include_str!("tries.sh"),
    ];
    let (script, file) = (cx.file("script", &script.join("\n"))?, cx.path("file")?);
    let out = Invocation::new(["unshare", "--net", "--mount", "sh", &script])
        .env("TOTE", cx.binary())
        .env("STATE", cx.root())
        .env("IMAGE", cx.image())
        .env("FILE", &file)
        .output()?;
    let errors = fs::read(format!("{file}.err")).unwrap_or_default();
    let errors = String::from_utf8_lossy(&errors);
    let (mut counts, mut wrong) = ([0; 3], Vec::new());
    for attempt in TRIES {
        let text = out.out();
        let saw = text
            .lines()
            .find_map(|line| line.strip_prefix(attempt)?.strip_prefix('\t'));
        let place = match (expected(&cell, attempt), saw) {
            (Expected::Works(line), Some(saw)) if line == saw => 0,
            (Expected::Explained(words), Some(_)) if errors.contains(words) => 2,
            (expected, saw) => {
                wrong.push(format!("{attempt}: saw {saw:?}, expected {expected:?}"));
                1
            }
        };
        counts[place] += 1;
    }
    let [passed, failed, explained] = counts;
    let mut tally = fs::File::options()
        .create(true)
        .append(true)
        .open(cx.run_directory().join(COUNTS))?;
    tally.write_all(format!("{} {passed} {failed} {explained}\n", TRIES.len()).as_bytes())?;
    note(&format!("standard error of its commands:\n{errors}"));
    ensure!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    out.exits(0)?;
    cx.nothing_left()
}
