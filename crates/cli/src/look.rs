//! Commands that look at containers and change nothing.

mod events;
mod inspect;
mod places;
mod ports;
mod ps;

pub(crate) use ps::joined;

use crate::{engine_error, home, print};
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;

/// Runs one of them.
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

/// What was given besides options.
pub(crate) fn words(parsed: &Parsed) -> Vec<String> {
    let words = parsed.positionals().iter();
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Every value of an option that may be given several times.
pub(crate) fn values(parsed: &Parsed, option: &str) -> Vec<String> {
    let values = parsed.all(option);
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}
