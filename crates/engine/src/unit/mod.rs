//! Units for the host's init: of existing containers, and of files that describe containers.

mod generate;
mod generator;
mod pod;

pub use generate::{
    GenerateOptions, GeneratedUnit, ScriptInit, generate_script, generate_units, restart_unit,
};
pub use generator::{QuadletOptions, QuadletOutcome, generate_quadlets};

use std::path::PathBuf;

/// Error of the generation of units.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// Options that exclude each other; podman's words.
    #[error("{0}")]
    Options(&'static str),
    /// Restart policy that systemd does not know.
    #[error("{0:?} is not a valid restart policy: give one of {words}", words = tote_unit::RESTART_POLICIES.join(", "))]
    Restart(String),
    /// Container without a record.
    #[error(
        "cannot make a unit for container {0}: it was started with --rm in the foreground and cannot be started again"
    )]
    Unkept(String),
    /// Failed access to a file or a directory.
    #[error("cannot {attempt} {path}")]
    File {
        /// Attempted action.
        attempt: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: std::io::Error,
    },
    /// File that is not a unit file.
    #[error("{path}")]
    Syntax {
        /// Path of the file.
        path: PathBuf,
        /// Syntax error.
        #[source]
        source: tote_unit::SyntaxError,
    },
    /// Unit file that does not describe a container.
    #[error("{path}")]
    Quadlet {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the refusal.
        #[source]
        source: tote_unit::QuadletError,
    },
    /// File of a kind that podman supports and tote does not.
    #[error("cannot make a unit from {0}: tote reads .container, .volume and .pod files")]
    Kind(PathBuf),
}

tote_records::part!(UnitError);
impl tote_records::PartError for UnitError {}

/// Returns the path of this program, for an init that does not search for programs.
fn program() -> String {
    let path = std::env::current_exe();
    path.map_or_else(|_| "/usr/bin/tote".to_owned(), |path| path.display().to_string())
}
