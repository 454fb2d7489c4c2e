//! Commands about tote itself: `tote --version`, `version`, `info` and `help`.

use crate::home::home;
use crate::tell::{engine_error, failure, print, width};
use serde_json::{Value, json};
use std::process::ExitCode;
use tote_engine::MachineFacts;
use tote_options::Parsed;

/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs `tote` without a command.
pub(crate) fn itself(parsed: &Parsed) -> ExitCode {
    if parsed.flag("version") {
        return print(&format!("tote version {VERSION}\n"));
    }
    crate::tell::help(parsed)
}

pub(crate) fn help(parsed: &Parsed) -> ExitCode {
    let words: Vec<&str> = parsed
        .positionals()
        .iter()
        .filter_map(|word| word.to_str())
        .collect();
    match tote_options::find(parsed.root(), &words) {
        Some(path) => print(&tote_options::help(&path, width())),
        None => failure(
            &format!("no such command: {}", words.join(" ")),
            Some("see 'tote --help'"),
            1,
        ),
    }
}

pub(crate) fn version(parsed: &Parsed) -> ExitCode {
    let own = json!({ "version": VERSION, "oci": tote_engine::OCI_VERSION, "arch": std::env::consts::ARCH });
    if parsed.value("format").is_none() {
        return print(&tote_view::version_text(VERSION));
    }
    show(parsed, &own, || tote_view::version_details(VERSION))
}

pub(crate) fn info(parsed: &Parsed) -> ExitCode {
    match home(parsed) {
        Ok(home) => {
            let report = tote_engine::look_at_machine(&home);
            match serde_json::to_value(&report) {
                Ok(value) => show(parsed, &value, || {
                    tote_view::machine_details(&report, &MachineFacts::look(&home), VERSION)
                }),
                Err(error) => failure(&format!("print the machine's description: {error}"), None, 1),
            }
        }
        Err(error) => engine_error(&error),
    }
}

/// Prints JSON for programs, with the fields that docker and podman use, or lines for people.
fn show(parsed: &Parsed, value: &Value, others: impl FnOnce() -> Value) -> ExitCode {
    if let Some(format) = parsed.value("format") {
        let mut all = value.clone();
        if let (Value::Object(all), Value::Object(others)) = (&mut all, others()) {
            all.extend(others);
        }
        if format == "json" {
            return print(&format!("{all}\n"));
        }
        return crate::listing::render(&format.to_string_lossy(), std::slice::from_ref(&all));
    }
    let mut text = String::new();
    lines("", value, &mut text);
    print(&text)
}

fn lines(indent: &str, value: &Value, text: &mut String) {
    let Value::Object(map) = value else { return };
    for (key, value) in map {
        match value {
            Value::Object(_) => {
                *text += &format!("{indent}{key}:\n");
                lines(&format!("{indent}  "), value, text);
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(plain).collect();
                *text += &format!("{indent}{key}: {}\n", items.join(", "));
            }
            value => *text += &format!("{indent}{key}: {}\n", plain(value)),
        }
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}
