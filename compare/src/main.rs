//! `tote-bench`: the comparison of container engines as a tool that anyone can run.
//!
//! Candidates, experiments and images are TOML files ([`catalogue`]). They become a scenario of the harness
//! ([`compose`]), whose samples go to a file that can be continued ([`record`], [`mod@run`]); reports are made of that file
//! alone ([`mod@report`]).
//!
//! It is not the engine, whose command `bench` only starts it, and it measures nothing itself: clock, order and checks
//! are those of the crate `bench`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to people"
)]

mod analysis;
mod arguments;
mod catalogue;
mod compose;
mod history;
mod import;
mod joined;
mod progress;
mod published;
mod record;
mod report;
mod run;
mod tables;

use crate::arguments::{Action, Options};
use crate::catalogue::Catalogue;
use anyhow::{Context, Result};
use std::net::TcpListener;
use std::process::ExitCode;
use tote_testkit::FakeRegistry;

/// Runs the command line. Exit codes: 0 if all was measured and sound; 1 for runs that failed, lies or leaks; 2 without
/// a result; 130 and 143 after a signal.
#[expect(
    clippy::disallowed_methods,
    reason = "the entry point is the standard library's"
)]
fn main() -> ExitCode {
    let result = arguments::parse(std::env::args_os().skip(1)).and_then(|(action, options)| match action {
        Action::Help => {
            print!("{}", arguments::USAGE);
            Ok(true)
        }
        Action::Candidates => candidates(&options),
        Action::Experiments => experiments(&options),
        Action::Run => run::run(&options).map(|(sound, _)| sound),
        Action::Report => report(&options),
        Action::Teardown => teardown(),
        Action::Ablate => ablate(options),
        Action::Setup => run::try_out(&options),
        Action::History => history(&options),
        Action::Registry => registry(&options),
        Action::Import => import::import(&options).map(|path| {
            println!("{}", path.display());
            true
        }),
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("tote bench: {error:#}");
            ExitCode::from(bench::interruption::exit_code().unwrap_or(2))
        }
    }
}

fn candidates(options: &Options) -> Result<bool> {
    let mut all = Catalogue::read(options.data.as_deref())?;
    all.choose(&options.candidates, &options.experiments, options.quick)?;
    let composed = compose::compose(&all, options.quick, options.time_limit_ms, &run::cgroups()?)?;
    println!(
        "{:<20} {:<14} {:<9} {:<20} {:<6} HERE",
        "CANDIDATE", "MANAGER", "RUNTIME", "DRIVER", "USER"
    );
    for one in &composed.subjects {
        let user = if one.rootless { "user" } else { "root" };
        let here = one
            .skipped
            .as_deref()
            .map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}"));
        println!(
            "{:<20} {:<14} {:<9} {:<20} {user:<6} {here}",
            one.name, one.manager, one.runtime, one.driver
        );
    }
    Ok(true)
}

fn experiments(options: &Options) -> Result<bool> {
    let all = Catalogue::read(options.data.as_deref())?;
    for one in &all.experiments {
        println!("{}\n    {}", one.name, one.about);
        let sizes: Vec<String> = one.steps(false).into_iter().map(|(name, _)| name).collect();
        if !one.sizes.is_empty() {
            println!("    sizes: {}", sizes.join(" "));
        }
    }
    Ok(true)
}

fn ablate(mut options: Options) -> Result<bool> {
    let all = Catalogue::read(options.data.as_deref())?;
    let whole = "tote".to_owned();
    if options.candidates.is_empty() {
        options.candidates = all.group("ablation");
        // What has an option of its own is a candidate already: where writes go, and sandboxes that are there before.
        let drivers = ["tote-pool", "tote-split", "tote-reflink", "tote-copy"];
        options.candidates.extend(drivers.map(str::to_owned));
    }
    if !options.candidates.contains(&whole) {
        options.candidates.push(whole);
    }
    if options.experiments.is_empty() {
        options.experiments = ["hello-world", "run"].map(str::to_owned).to_vec();
    }
    run::run(&options).map(|(sound, _)| sound)
}

fn history(options: &Options) -> Result<bool> {
    let place = options.files.first().unwrap_or(&options.out);
    let (text, written) = history::write(place)?;
    print!("{text}");
    for path in written {
        eprintln!("{}", path.display());
    }
    Ok(true)
}

fn report(options: &Options) -> Result<bool> {
    for path in report::write(options)? {
        println!("{}", path.display());
    }
    Ok(true)
}

/// Serves an empty registry until the process is ended.
fn registry(options: &Options) -> Result<bool> {
    let address = options.files.first().context("the registry lacks an address")?;
    let address = address.to_string_lossy();
    let listener = TcpListener::bind(&*address).with_context(|| format!("listen on {address}"))?;
    let _registry = FakeRegistry::on(listener);
    loop {
        std::thread::park();
    }
}

fn teardown() -> Result<bool> {
    for path in bench::stage::sweep()? {
        println!("removed {}", path.display());
    }
    Ok(true)
}
