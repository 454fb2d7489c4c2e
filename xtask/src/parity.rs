//! `cargo xtask parity`: runs command lines of docker's reference with docker and with tote, and compares how they
//! end and what they print.
//!
//! The lines are in the folder `tables`, in groups, each of which begins without containers, volumes, networks of its own and
//! images but one. docker is the installed client with a daemon of its own; both engines run in an [`Enclosure`], in
//! the same directory and one after the other, and see the same shell, files and network. Ids, points in time,
//! addresses and the widths of columns are made equal before the comparison, and of objects in JSON the names of fields count.
//!
//! A line that is known to differ has a reason below it in its table. Each other difference is a failure, and so is a
//! line that no longer differs, or too many lines with reasons.

mod daemon;
mod equal;
mod lines;
mod options;
mod report;
mod side;

use crate::build::{ENGINE, release};
use crate::dropin::Place;
use crate::enclosure::Enclosure;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use options::Options;
use report::Report;
use side::Side;
use std::process::ExitCode;

const ENCLOSURE: Enclosure = Enclosure {
    command: "parity",
    name: "tote-parity",
};

/// Runs the hidden stages of this command, if the words select one.
pub(crate) fn stage(words: &[&str]) -> Option<Result<ExitCode>> {
    ENCLOSURE.stage(words, inside)
}

/// # Errors
/// The engines cannot be run. Differences only affect the exit code.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<ExitCode> {
    let mut options = Options::parse(words)?;
    if options.tote.is_none() {
        options.tote = Some(release(workspace, ENGINE)?);
    }
    if options.docker.is_none() {
        options.docker = Some(daemon::client()?);
    }
    daemon::check()?;
    let logs = workspace.target.join("parity");
    std::fs::create_dir_all(&logs).with_context(|| format!("create {}", logs.display()))?;
    options.logs = Some(logs);
    ENCLOSURE.run(&options.words())
}

/// Runs all lines inside the enclosure. Returns exit code 0 if no difference is unexplained.
fn inside(outside: &str, words: &[&str]) -> Result<ExitCode> {
    let options = Options::parse(words)?;
    ENCLOSURE.furnish(outside, options.shown)?;
    let for_people = "parity: --inside is not for people";
    let logs = options.logs.as_deref().context(for_people)?;
    let tote = options.tote.as_deref().context(for_people)?;
    let docker = options.docker.as_deref().context(for_people)?;
    let place = Place::furnish(&ENCLOSURE.scratch(), logs)?;
    let groups = lines::selected(options.filter.as_deref())?;

    let ours = answers(&Side::tote(&place, tote)?, &groups)?;
    let daemons = daemon::start(&place, docker)?;
    let theirs = answers(&Side::docker(&place, docker)?, &groups);
    daemons.end()?;
    let theirs = theirs?;
    let report = Report::new(&groups, &ours, &theirs);
    let text = report.differences();
    let file = place.work.join("logs").join("differences.txt");
    std::fs::write(&file, &text).with_context(|| format!("write {}", file.display()))?;
    print!("{text}{report}");
    Ok(if report.is_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs all groups with one engine: an answer for each line of each group.
fn answers(side: &Side, groups: &[lines::Group]) -> Result<Vec<Vec<side::Answer>>> {
    groups.iter().map(|group| side.group(group)).collect()
}
