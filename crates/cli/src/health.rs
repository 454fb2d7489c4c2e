//! `tote healthcheck run`.

use crate::home::home;
use crate::tell::{engine_error, print};
use std::process::ExitCode;
use tote_options::Parsed;

/// Runs a health check, as podman does: prints nothing for a healthy container, and ends with 1 for an unhealthy
/// one.
pub(crate) fn run(parsed: &Parsed) -> ExitCode {
    let name = parsed.positionals().first();
    let name = name
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    match home(parsed).and_then(|home| tote_engine::check_now(&home, &name)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            print("unhealthy\n");
            ExitCode::FAILURE
        }
        Err(error) => engine_error(&error),
    }
}
