//! `bench`: measures tote and its peers on one machine under the same conditions.
//!
//! The scenarios are the project's own, with targets; the [harness](bench) does the rest. The comparison for everyone
//! is another program, `tote-bench`.
//!
//! The engine does not depend on this program, which is not a load generator either.

#![expect(
    clippy::disallowed_methods,
    reason = "a harness runs programs and waits for them; nothing here is on anybody's hot path"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to people"
)]

mod arguments;
mod markdown;
mod set;
mod slim;

use crate::arguments::{Action, Options};
use anyhow::{Context, Result, ensure};
use bench::chance::Chance;
use bench::machine::{Machine, Subject};
use bench::report::{Conditions, Report};
use bench::sample::Pass;
use bench::scenario::Scenario;
use bench::session::{Session, Settings};
use bench::timings::Breakdown;
use bench::{clock, interruption, machine, report, timings, world};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the command line. Exit codes: 0 if all was measured and sound; 1 for faulty runs or leaks; 2 without a
/// measurement; 130 and 143 after a signal.
fn main() -> ExitCode {
    let result = arguments::parse(std::env::args_os().skip(1)).and_then(|(action, options)| match action {
        Action::Help => {
            print!("{}", arguments::USAGE);
            Ok(true)
        }
        Action::Boot => measure("boot", &options),
        Action::Oci => measure("oci", &options),
        Action::Disks => measure("disks", &options),
        Action::Engine => measure("engine", &options),
        Action::Debug => measure("debug", &options),
        Action::Graph => measure("graph", &options),
        Action::Slim => slim::run(&options),
        Action::Net => measure("net", &options),
        Action::Vm => measure("vm", &options),
        Action::Timings => measure("timings", &options),
        Action::Images => match &options.set {
            Some(directory) => set::run(directory, &options).map(|()| true),
            None => measure("images", &options),
        },
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(interruption::exit_code().unwrap_or(2))
        }
    }
}

/// Measures the scenario of `command` and writes its report. Returns whether it is sound.
fn measure(command: &str, options: &Options) -> Result<bool> {
    let path = options.scenario.clone().unwrap_or_else(|| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("scenarios")
            .join(command)
            .with_extension("json")
    });
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let mut scenario = Scenario::parse(&text).with_context(|| format!("understand {}", path.display()))?;
    scenario.only(&options.only)?;
    ensure!(options.runs > 0, "--runs 0 measures nothing");

    let world = world::enter(&scenario.hidden_mounts, &scenario.apparatus)?;
    interruption::prepare();
    let mut machine = Machine::describe(&world)?;
    let tote = options.tote.as_deref().map(Subject::describe).transpose()?;
    // Done after everything that depends on the initial directory: candidates run in a directory that all users can
    // read.
    std::env::set_current_dir("/").context("change to /")?;
    fs::create_dir_all(&options.out).with_context(|| format!("make {}", options.out.display()))?;
    let file = |extension: &str| options.out.join(&scenario.name).with_extension(extension);

    ensure!(
        file("json") != path,
        "the report would replace the scenario {}: choose another --out",
        path.display()
    );

    let directory = path.parent().unwrap_or(Path::new("/"));
    let raw = file("jsonl");
    let raw = fs::File::create(&raw).with_context(|| format!("make {}", raw.display()))?;
    let mut session = Session::open(&scenario, directory, &world, &settings(options))?;
    session.write_to(raw);
    let started = clock::now_nanos() / 1_000_000_000;
    let mut samples = session.measure(Pass::WarmUp, options.warm_up)?;
    samples.extend(session.measure(Pass::Wall, options.runs)?);
    if command != "timings" {
        samples.extend(session.measure(Pass::PeakRss, options.memory_runs)?);
    }
    machine.note_load_after()?;
    let skipped = std::mem::take(&mut session.skipped);
    let leaks = session.close()?;

    let mut chance = Chance::new(options.seed);
    let candidates = report::rows(&scenario, &samples, &skipped, &mut chance);
    let compared = scenario.comparisons.iter();
    let report = Report {
        comparisons: compared
            .map(|c| report::compare(c, &candidates, &samples, &mut chance))
            .collect(),
        scenario: scenario.name.clone(),
        about: scenario.about.clone(),
        started,
        conditions: conditions(command, options),
        machine,
        tote,
        versions: machine::versions(&scenario.versions),
        candidates,
        leaks,
    };
    // For images only the sums of some steps are compared, so breakdowns are left out.
    let names = scenario
        .candidates
        .iter()
        .filter(|_| command != "images")
        .map(|candidate| candidate.name.as_str());
    let breakdowns: Vec<Breakdown> = names
        .filter_map(|name| timings::break_down(name, &samples, &mut chance))
        .collect();
    write_down(&report, &breakdowns, command, &file("json"), &file("md"))?;
    Ok(report.is_sound())
}

fn settings(options: &Options) -> Settings {
    Settings {
        tote: options.tote.clone(),
        seed: options.seed,
        as_user: options.as_user.clone(),
        settle: options.settle,
        cold: false,
    }
}

fn conditions(command: &str, options: &Options) -> Conditions {
    Conditions {
        seed: options.seed,
        rounds: options.runs,
        warm_up_rounds: options.warm_up,
        memory_rounds: if command == "timings" {
            0
        } else {
            options.memory_runs
        },
        settle_ms: u64::try_from(options.settle.as_millis()).unwrap_or(u64::MAX),
    }
}

/// The JSON document: the report, and the steps that programs reported.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    breakdowns: &'a [Breakdown],
}

fn write_down(
    report: &Report,
    breakdowns: &[Breakdown],
    command: &str,
    json: &PathBuf,
    markdown: &PathBuf,
) -> Result<()> {
    let mut document =
        serde_json::to_string_pretty(&Document { report, breakdowns }).context("write the report as JSON")?;
    document.push('\n');
    let text = markdown::report(report, breakdowns, command);
    fs::write(json, document).with_context(|| format!("write {}", json.display()))?;
    fs::write(markdown, &text).with_context(|| format!("write {}", markdown.display()))?;
    print!("{text}");
    Ok(())
}
