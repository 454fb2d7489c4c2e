//! `cargo xtask dropin --runtime PATH …`: checks that a runtime serves the common engines as well as the runtime
//! that they come with.
//!
//! The engines are podman as root and as a user, docker and containerd, each with daemons, storage, sockets and
//! configuration of its own. They run in an [`Enclosure`]: their files are in memory, `/etc` and `/var` are
//! covered, the network is a loopback device. The image is made of busybox-static. The cases are in [`tables`], as
//! a person would type them. Every case is run with the runtime and with a reference; a case counts as lost if it
//! passes with the reference only.

mod engine;
mod image;
mod options;
mod place;
mod rootless;
mod session;
mod table;
mod tables;

use crate::conformance::engine_as_runtime;
use crate::enclosure::Enclosure;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use options::Options;
use session::Session;
use std::path::Path;
use std::process::ExitCode;
use table::Table;

pub(crate) use engine::{Engine, Networks, PATH, containerd, dockerd, find};
pub(crate) use place::Place;

const ENCLOSURE: Enclosure = Enclosure {
    command: "dropin",
    name: "tote-dropin",
};

/// Runs the hidden stages of this command, if the words select one.
pub(crate) fn stage(words: &[&str]) -> Option<Result<ExitCode>> {
    ENCLOSURE.stage(words, inside)
}

/// # Errors
/// The engines cannot be run. Failed cases only affect the exit code.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<ExitCode> {
    let mut options = Options::parse(words)?;
    if options.runtime.is_none() {
        options.runtime = Some(engine_as_runtime(workspace)?);
    }
    if options.reference.is_none() {
        options.reference = find("runc");
    }
    let logs = workspace.target.join("dropin");
    std::fs::create_dir_all(&logs).with_context(|| format!("create {}", logs.display()))?;
    options.logs = Some(logs);
    ENCLOSURE.run(&options.words())
}

/// Runs all cases inside the enclosure.
///
/// Returns exit code 0 if the runtime passes every case that the reference passes; without a reference, if none
/// failed.
fn inside(outside: &str, words: &[&str]) -> Result<ExitCode> {
    let options = Options::parse(words)?;
    ENCLOSURE.furnish(outside, options.shown)?;
    let logs = options
        .logs
        .as_deref()
        .context("dropin: --inside is not for people")?;
    let runtime = options
        .runtime
        .as_deref()
        .context("dropin: --inside needs a runtime")?;
    let place = Place::furnish(&ENCLOSURE.scratch(), logs)?;

    let mut table = Table::new(runtime, options.reference.as_deref());
    for engine in Engine::ALL {
        if options.engine.is_some_and(|only| only != engine) {
            continue;
        }
        if let Some(missing) = engine.missing() {
            println!("skipped: needs {missing}");
            continue;
        }
        println!("{}: {}", engine.name(), engine.version()?);
        let contestants = [Some(runtime), options.reference.as_deref()];
        for (side, runtime) in contestants.into_iter().enumerate() {
            if let Some(runtime) = runtime {
                try_out(&place, engine, runtime, side, &options, &mut table)?;
            }
        }
    }
    print!("{table}");
    Ok(if table.is_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs all cases of an engine with one runtime.
fn try_out(
    place: &Place,
    engine: Engine,
    runtime: &Path,
    side: usize,
    options: &Options,
    table: &mut Table,
) -> Result<()> {
    let session = Session::open(place, engine, runtime, side)?;
    for case in engine.cases() {
        if options
            .filter
            .as_deref()
            .is_none_or(|filter| case.name.contains(filter))
        {
            let verdict = session.attempt(case)?;
            table.enter(engine, case.name, side, verdict);
        }
    }
    let left = session.close()?;
    table.enter(engine, "leaves nothing behind", side, left);
    Ok(())
}
