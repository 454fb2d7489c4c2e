//! `tote exec` and `tote top`.

use crate::home::home;
use crate::tell::{engine_error, failure, print, warning};
use std::process::ExitCode;
use tote_engine::{EngineError, ExecOptions, Executed, Processes};
use tote_options::Parsed;

pub(crate) fn exec(parsed: &Parsed) -> ExitCode {
    match run(parsed) {
        Err(error) => not_started(parsed, &error),
        result => ended(result),
    }
}

/// Reports why the process did not start. A program that is not there is missing in a container, and the hint says in
/// which one.
fn not_started(parsed: &Parsed, error: &EngineError) -> ExitCode {
    let hint = error.hint().or_else(|| {
        let program = error.missing_program()?;
        let container = words(parsed).next()?;
        Some(format!(
            "{program} is not in the container {container}, or not on its PATH"
        ))
    });
    failure(&tote_engine::chain(error), hint.as_deref(), code(parsed, error))
}

/// The exit code of an error. docker does not tell by it why a process in the background did not start.
fn code(parsed: &Parsed, error: &EngineError) -> u8 {
    match error.exit_code() {
        126 | 127 if parsed.flag("detach") => 1,
        code => code,
    }
}

/// Returns the exit code of a process that has run in a container.
pub(crate) fn ended(result: Result<Executed, EngineError>) -> ExitCode {
    match result {
        Ok(Executed::Detached) => ExitCode::SUCCESS,
        Ok(Executed::Ended(code)) => ExitCode::from(code),
        Ok(Executed::Left) => crate::tell::left(),
        Err(error) => engine_error(&error),
    }
}

fn run(parsed: &Parsed) -> Result<Executed, EngineError> {
    let mut options = ExecOptions::default();
    for (option, value) in parsed.own_values().filter(|(option, _)| !option.names_first) {
        options.set(option.long, &value.to_string_lossy())?;
    }
    let mut words = words(parsed);
    let container = words.next().unwrap_or_default();
    options.command = words.collect();
    let report = &mut |error: &EngineError| {
        not_started(parsed, error);
        code(parsed, error)
    };
    let warn = &mut |text: String| warning(&text);
    tote_engine::exec(&home(parsed)?, &container, options, warn, report)
}

pub(crate) fn words(parsed: &Parsed) -> impl Iterator<Item = String> {
    parsed
        .positionals()
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
}

pub(crate) fn top(parsed: &Parsed) -> ExitCode {
    let mut words = words(parsed);
    let container = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    match home(parsed).and_then(|home| tote_engine::top(&home, &container, &words)) {
        Ok(processes) => show(processes),
        Err(error) => engine_error(&error),
    }
}

/// Prints processes as a table with titles.
pub(crate) fn show(processes: Processes) -> ExitCode {
    let rows = std::iter::once(processes.titles).chain(processes.rows);
    print(&columns(&rows.collect::<Vec<_>>()))
}

/// Lays out columns as docker does: at least 20 wide, with three spaces between them.
fn columns(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 20);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count() + 3);
        }
    }
    let mut text = String::new();
    for row in rows {
        let last = row.len().saturating_sub(1);
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let width = if at == last { 0 } else { *width };
            text += &format!("{cell:width$}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_as_long_as_it_is() {
        let rows = [["PID", "CMD"], ["12345678901234567890", "sleep 7"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            columns(&rows),
            "PID                    CMD\n12345678901234567890   sleep 7\n"
        );
    }
}
