//! Units for the host's init: of containers that are there, and of files that describe some.

mod generate;
mod generator;
mod pod;

pub use generate::{
    GenerateOptions, GeneratedUnit, ScriptInit, generate_script, generate_units, restart_unit,
};
pub use generator::{QuadletOptions, QuadletOutcome, generate_quadlets};

use std::path::PathBuf;

/// Why there is no unit.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// Options that do not go together; podman's words.
    #[error("{0}")]
    Options(&'static str),
    /// Not one of systemd's words.
    #[error("{0:?} is not a valid restart policy: give one of {words}", words = tote_unit::RESTART_POLICIES.join(", "))]
    Restart(String),
    /// One that leaves no record.
    #[error(
        "cannot make a unit for container {0}: it was started with --rm in the foreground and cannot be started again"
    )]
    Unkept(String),
    /// A file or a directory.
    #[error("cannot {attempt} {path}")]
    File {
        /// What was tried.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// What is not a unit file.
    #[error("{path}")]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: tote_unit::SyntaxError,
    },
    /// What is one, and describes no container.
    #[error("{path}")]
    Quadlet {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: tote_unit::QuadletError,
    },
    /// What podman knows and tote does not.
    #[error("cannot make a unit from {0}: tote reads .container, .volume and .pod files")]
    Kind(PathBuf),
}

/// The path of this program, for an init that looks for nothing.
fn program() -> String {
    let path = std::env::current_exe();
    path.map_or_else(|_| "/usr/bin/tote".to_owned(), |path| path.display().to_string())
}
