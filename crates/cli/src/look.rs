//! Commands that look at containers; of those, only `port` has commands that change something.

mod events;
mod inspect;
mod places;
mod ps;

pub(crate) use events::events;
pub(crate) use inspect::{inspect, inspect_containers};
pub(crate) use places::{init, ls};
pub(crate) use ps::ps;

use crate::home::home;
use crate::tell::print;
use crate::words::{values, words};
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;

pub(crate) fn port(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let container = words.first().map(String::as_str).unwrap_or_default();
    let lines = tote_engine::ports(&home(parsed)?, container, words.get(1).map(String::as_str))?;
    Ok(print(
        &lines.iter().map(|line| format!("{line}\n")).collect::<String>(),
    ))
}

pub(crate) fn add_ports(parsed: &Parsed) -> Result<ExitCode, EngineError> {
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

pub(crate) fn remove_ports(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let container = words.first().map(String::as_str).unwrap_or_default();
    let ports = words.get(1..).unwrap_or_default();
    tote_engine::remove_ports(&home(parsed)?, container, ports)?;
    Ok(ExitCode::SUCCESS)
}
