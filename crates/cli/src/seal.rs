//! Commands that make processes which a container can see: this program's file is sealed first.

use crate::tell::engine_error;
use std::process::ExitCode;
use tote_options::{Action, Parsed};

/// Makes sure that no container can write to this program (CVE-2019-5736), then runs the command.
pub(crate) fn sealed(parsed: &Parsed, command: Action) -> ExitCode {
    match tote_engine::prepare_seal() {
        Ok(()) => command(parsed),
        Err(error) => engine_error(&error.into()),
    }
}
