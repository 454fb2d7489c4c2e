//! Output of lists and descriptions by `--format`: tables, JSON, or a Go template for each row.

use crate::tell::{engine_error, failure, print};
use crate::words::words;
use serde_json::Value;
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;
use tote_template::{Format, Template, TemplateError};
use tote_view::Listing;

/// docker's exit code for an invalid template of a description.
pub(crate) const BAD_TEMPLATE: u8 = 64;

/// Prints a list in the form of the option `format`.
pub(crate) fn show(listing: &Listing, parsed: &Parsed) -> ExitCode {
    match text(listing, parsed) {
        Ok(text) => print(&text),
        Err(code) => code,
    }
}

/// Formats a list in the form of the option `format`.
pub(crate) fn text(listing: &Listing, parsed: &Parsed) -> Result<String, ExitCode> {
    let format = parsed.setting("format");
    let format = format.as_deref().and_then(std::ffi::OsStr::to_str);
    let names_fields = format.is_some_and(|format| format.contains("{{") && !format.contains("json"));
    let format = Format::parse(format.unwrap_or("table")).map_err(|error| refused(&error, 1))?;
    if names_fields && !listing.also.is_empty() {
        return listing
            .clone()
            .with_podmans_fields()
            .formatted(&format)
            .map_err(|error| refused(&error, 1));
    }
    listing.formatted(&format).map_err(|error| refused(&error, 1))
}

/// True if only ids are printed: docker applies `--quiet` unless the format is a template.
pub(crate) fn only_ids(parsed: &Parsed) -> bool {
    let own = parsed.value("format").is_some_and(|format| {
        format
            .to_str()
            .is_none_or(|format| !matches!(format, "table" | "json"))
    });
    parsed.flag("quiet") && !own
}

/// Prints descriptions, as docker's `inspect` does: all of them as a list in JSON, or a template for each.
pub(crate) fn describe(parsed: &Parsed, found: &[Value]) -> ExitCode {
    let format = parsed.value("format").and_then(std::ffi::OsStr::to_str);
    let done = match format.map(str::trim) {
        None | Some("") => serde_json::to_string_pretty(found).map(|text| text + "\n"),
        Some("json") => serde_json::to_string(found).map(|text| text + "\n"),
        Some(template) if template.contains("json") => return render(template, found),
        Some(template) => {
            let with_podmans = |of| tote_view::with_podmans_fields(of, template);
            let found: Vec<Value> = found.iter().map(with_podmans).collect();
            return render(template, &found);
        }
    };
    match done {
        Ok(text) => print(&text),
        Err(error) => failure(&format!("print the description: {error}"), None, 1),
    }
}

/// Looks up the objects that the command names and prints their descriptions, then errors about missing ones.
pub(crate) fn describe_each(parsed: &Parsed, find: impl Fn(&str) -> Result<Value, EngineError>) -> ExitCode {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for wanted in words(parsed) {
        match find(&wanted) {
            Ok(value) => found.push(value),
            Err(error) => errors.push(error),
        }
    }
    let printed = describe(parsed, &found);
    for error in &errors {
        engine_error(error);
    }
    if errors.is_empty() {
        printed
    } else {
        ExitCode::from(1)
    }
}

/// Calls `work` with each name that the command was given, and prints the returned text. An error is printed at
/// once, and the names after it are still processed.
pub(crate) fn each_named(
    parsed: &Parsed,
    mut work: impl FnMut(&str) -> Result<String, EngineError>,
) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for name in words(parsed) {
        match work(&name) {
            Ok(text) => {
                print(&text);
            }
            Err(error) => {
                engine_error(&error);
                code = ExitCode::from(1);
            }
        }
    }
    code
}

/// Prints a line for each value, by a template.
pub(crate) fn render(template: &str, found: &[Value]) -> ExitCode {
    let template = match Template::parse(template) {
        Ok(template) => template,
        Err(error) => return refused(&error, BAD_TEMPLATE),
    };
    let mut text = String::new();
    for value in found {
        match template.render_typed(value, tote_view::UNSET_FIELDS) {
            Ok(line) => text += &(line + "\n"),
            Err(error) => {
                print(&text);
                return refused(&error, 1);
            }
        }
    }
    print(&text)
}

/// Reports an invalid format.
pub(crate) fn refused(error: &TemplateError, code: u8) -> ExitCode {
    let hint = match error {
        TemplateError::NoField { .. } => "'{{json .}}' shows which fields there are",
        _ => "a format is json, table, or a Go template such as '{{.ID}}'",
    };
    failure(&format!("--format: {error}"), Some(hint), code)
}
