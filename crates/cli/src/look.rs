//! Commands that look at containers; of those, only `port` has commands that change something.

mod events;
mod inspect;
mod places;
mod ports;
mod ps;

pub(crate) use ps::joined;

use crate::home::home;
use crate::tell::{engine_error, print};
use crate::words::{values, words};
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
        ("add", _) => add_ports(parsed),
        ("rm", _) => remove_ports(parsed),
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

fn add_ports(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let container = words(parsed).pop().unwrap_or_default();
    let ports = values(parsed, "publish");
    if ports.is_empty() {
        return Err(EngineError::Usage(
            "give the ports to publish with --publish".to_owned(),
        ));
    }
    let lines = tote_engine::add_ports(&home(parsed)?, &container, &ports)?;
    Ok(print(
        &lines.iter().map(|line| format!("{line}\n")).collect::<String>(),
    ))
}

fn remove_ports(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let container = words.first().map(String::as_str).unwrap_or_default();
    let ports = words.get(1..).unwrap_or_default();
    tote_engine::remove_ports(&home(parsed)?, container, ports)?;
    Ok(ExitCode::SUCCESS)
}
