//! Commands about tote itself: `tote --version`, `version`, `info` and `help`.

use crate::home::home;
use crate::tell::{engine_error, failure, print, width};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::process::ExitCode;
use tote_engine::MachineFacts;
use tote_options::Parsed;

/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs `tote` without a command.
pub(crate) fn itself(parsed: &Parsed) -> ExitCode {
    if parsed.flag("version") {
        if crate::podman::is_called_so() {
            // Programs search the line for podman's name, and take its last word for the version.
            let podmans = crate::podman::VERSION;
            return print(&format!("podman version {podmans}\n"));
        }
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
    let version = followed();
    match parsed.value("format") {
        Some(format) => show(format, &own, &tote_view::version_details(version)),
        None => print(&tote_view::version_text(version)),
    }
}

/// The version that programs ask for: podman's where they call this one podman, else this program's own.
fn followed() -> &'static str {
    if crate::podman::is_called_so() {
        crate::podman::VERSION
    } else {
        VERSION
    }
}

pub(crate) fn info(parsed: &Parsed) -> ExitCode {
    let home = match home(parsed) {
        Ok(home) => home,
        Err(error) => return engine_error(&error),
    };
    let report = tote_engine::look_at_machine(&home);
    let dockers = tote_view::machine_details(&report, &MachineFacts::look(&home), followed());
    match (serde_json::to_value(&report), parsed.value("format")) {
        (Ok(own), Some(format)) => show(format, &own, &dockers),
        (Ok(own), None) => print(&machine_text(&own, &dockers)),
        (Err(error), _) => failure(&format!("print the machine's description: {error}"), None, 1),
    }
}

/// The machine as `docker info` lays it out, and then what docker does not tell.
fn machine_text(own: &Value, dockers: &Value) -> String {
    let mut text = tote_view::machine_text(dockers);
    text += "\nThis machine:\n";
    let fields = ["rootless", "cgroups", "drivers", "features"];
    let fields = fields.map(|field| (field.to_owned(), own[field].clone()));
    lines(" ", &Value::Object(fields.into_iter().collect()), &mut text);
    text
}

/// Prints fields in the format that was asked for, with those that docker and podman use.
fn show(format: &OsStr, value: &Value, others: &Value) -> ExitCode {
    let mut all = value.clone();
    if let (Value::Object(all), Value::Object(others)) = (&mut all, others) {
        all.extend(others.clone());
    }
    if format == "json" {
        return print(&format!("{all}\n"));
    }
    crate::listing::render(&format.to_string_lossy(), std::slice::from_ref(&all))
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
