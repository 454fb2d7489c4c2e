//! `cargo xtask conformance SUITE --checkout DIR …`: runs an external test suite on a runtime.
//!
//! The suite is a checkout given by path, already built, and not part of this project. It runs in an [`Enclosure`].
//! docs/conformance.md describes how to use this command.

mod attempt;
mod options;
mod passable;
mod runc_bats;
mod runtime_tools;
mod session;
mod suite;
mod tap;

use crate::build::{ENGINE, shipped};
use crate::enclosure::Enclosure;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use options::Options;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::ExitCode;

const ENCLOSURE: Enclosure = Enclosure {
    command: "conformance",
    name: "tote-conformance",
};

/// Runs the hidden stages of this command, if the words select one.
pub(crate) fn stage(words: &[&str]) -> Option<Result<ExitCode>> {
    ENCLOSURE.stage(words, inside)
}

/// # Errors
/// The suite cannot be run. Failed tests only affect the exit code.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<ExitCode> {
    let mut options = Options::parse(words)?;
    options.suite.check(&options.checkout)?;
    if options.runtime.is_none() {
        options.runtime = Some(engine_as_runtime(workspace)?);
    }
    let logs = workspace.target.join("conformance").join(options.suite.name());
    match std::fs::remove_dir_all(&logs) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", logs.display()));
        }
        _ => {}
    }
    std::fs::create_dir_all(&logs).with_context(|| format!("create {}", logs.display()))?;
    options.logs = Some(logs);
    ENCLOSURE.run(&options.words())
}

/// Runs the tests inside the enclosure.
fn inside(outside: &str, words: &[&str]) -> Result<ExitCode> {
    let options = Options::parse(words)?;
    ENCLOSURE.furnish(outside, options.shown)?;
    session::run(&options, &ENCLOSURE.scratch())
}

/// Makes a link to the engine with the name by which it acts as an OCI runtime.
pub(crate) fn engine_as_runtime(workspace: &Workspace) -> Result<PathBuf> {
    let engine = shipped(workspace, ENGINE)?;
    let link = engine.with_file_name("tote-oci");
    match std::fs::remove_file(&link) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", link.display()));
        }
        _ => {}
    }
    symlink(&engine, &link).with_context(|| format!("link {}", link.display()))?;
    Ok(link)
}
