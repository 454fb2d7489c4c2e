//! Options before the command that are only checked.

use crate::tell::{engine_error, failure};
use std::process::ExitCode;
use tote_options::Parsed;

/// Levels of docker's and podman's logs.
pub(crate) const LEVELS: [&str; 8] = [
    "trace", "debug", "info", "warn", "warning", "error", "fatal", "panic",
];

/// Refuses an unknown level of a log and an unknown context with docker's exit code.
pub(crate) fn check(parsed: &Parsed) -> Result<(), ExitCode> {
    if let Some(level) = parsed.value("log-level")
        && !LEVELS.iter().any(|known| level.eq_ignore_ascii_case(known))
    {
        // docker's words.
        let text = format!("unable to parse logging level: {}", level.to_string_lossy());
        let hint = format!("levels are {}", LEVELS.join(", "));
        return Err(failure(&text, Some(&hint), 1));
    }
    if let Some(name) = parsed.value("context")
        && let Err(error) = crate::context::check(&name.to_string_lossy())
    {
        engine_error(&error);
        return Err(ExitCode::FAILURE);
    }
    Ok(())
}
