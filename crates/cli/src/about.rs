//! `tote version` and `tote info`.

use crate::{VERSION, engine_error, home, print};
use serde_json::{Value, json};
use std::process::ExitCode;
use tote_options::Parsed;

pub(crate) fn version(parsed: &Parsed) -> ExitCode {
    show(
        parsed,
        &json!({ "version": VERSION, "oci": tote_engine::OCI_VERSION, "arch": std::env::consts::ARCH }),
    )
}

pub(crate) fn info(parsed: &Parsed) -> ExitCode {
    match home(parsed) {
        Ok(home) => {
            let report = tote_engine::look_at_machine(&home);
            match serde_json::to_value(&report) {
                Ok(value) => show(parsed, &value),
                Err(error) => crate::failure(&format!("print the machine's description: {error}"), None, 1),
            }
        }
        Err(error) => engine_error(&error),
    }
}

/// As JSON for programs, or as lines for people.
fn show(parsed: &Parsed, value: &Value) -> ExitCode {
    if parsed.value("format").is_some_and(|format| format == "json") {
        return print(&format!("{value}\n"));
    }
    if let Some(format) = parsed.value("format") {
        return crate::listing::render(&format.to_string_lossy(), std::slice::from_ref(value));
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
