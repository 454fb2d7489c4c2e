//! Commands that look at containers and change nothing.

mod events;
mod inspect;
mod places;
mod ps;

pub(crate) use ps::joined;

use crate::home::home;
use crate::tell::{engine_error, print};
use crate::words::words;
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;

/// Runs the parsed command.
pub(crate) fn dispatch(parsed: &Parsed) -> ExitCode {
    let done = match (parsed.command().name, parsed.path().len()) {
        ("ps", _) | ("ls", 3) => ps::ps(parsed),
        ("ls", _) => places::ls(parsed),
        ("init", _) => places::init(parsed),
        ("inspect", 3) => inspect::containers(parsed),
        ("inspect", _) => inspect::inspect(parsed),
        ("events", _) => events::events(parsed),
        _ => port(parsed),
    };
    done.unwrap_or_else(|error| engine_error(&error))
}

fn port(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let container = words.first().map(String::as_str).unwrap_or_default();
    let lines = tote_engine::ports(&home(parsed)?, container, words.get(1).map(String::as_str))?;
    Ok(print(
        &lines.iter().map(|line| format!("{line}\n")).collect::<String>(),
    ))
}
