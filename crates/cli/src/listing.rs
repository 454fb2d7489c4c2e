//! Output of lists and descriptions by `--format`: tables, JSON, or a Go template for each row.

use crate::tell::{engine_error, failure, print};
use crate::text;
use crate::words::words;
use serde_json::Value;
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;
use tote_template::{Format, Template, TemplateError};

/// A list in docker's form.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Fields of the rows, with the headings of their columns.
    pub(crate) headings: &'static [(&'static str, &'static str)],
    /// Template of the default table.
    pub(crate) columns: String,
    /// An object for each row, with docker's fields.
    pub(crate) rows: Vec<Value>,
    /// True if the table has no headings.
    pub(crate) no_heading: bool,
    /// For each row, an object in which methods such as `{{.Label "KEY"}}` look up their value; may be empty.
    pub(crate) methods: Vec<Value>,
}

impl Listing {
    /// Prints the list in the form of the option `format`.
    pub(crate) fn print(&self, parsed: &Parsed) -> ExitCode {
        match self.text(parsed) {
            Ok(text) => print(&text),
            Err(code) => code,
        }
    }

    /// Formats the list in the form of the option `format`.
    pub(crate) fn text(&self, parsed: &Parsed) -> Result<String, ExitCode> {
        let format = parsed.setting("format");
        self.formatted(format.as_deref().and_then(std::ffi::OsStr::to_str))
    }

    fn formatted(&self, format: Option<&str>) -> Result<String, ExitCode> {
        let format = read(format.unwrap_or("table"))?;
        let done = match &format {
            Format::Json => Ok(self.rows.iter().map(|row| format!("{row}\n")).collect()),
            Format::Lines(template) => self.lines(template),
            Format::Table(Some(template)) => self.table(template),
            Format::Table(None) => Template::parse(&self.columns).and_then(|columns| self.table(&columns)),
        };
        done.map_err(|error| refused(&error, 1))
    }

    fn methods(&self, row: usize) -> &Value {
        self.methods.get(row).unwrap_or(&Value::Null)
    }

    fn lines(&self, template: &Template) -> Result<String, TemplateError> {
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            text += &template.render_with(row, self.methods(index))?;
            text.push('\n');
        }
        Ok(text)
    }

    fn table(&self, template: &Template) -> Result<String, TemplateError> {
        let headings = self.headings.iter();
        let headings = headings.map(|(field, heading)| ((*field).to_owned(), Value::from(*heading)));
        let mut rows = vec![template.cells(&headings.collect(), &Value::Null)?];
        if self.no_heading {
            rows.clear();
        }
        for (index, row) in self.rows.iter().enumerate() {
            rows.push(template.cells(row, self.methods(index))?);
        }
        Ok(text::table(&rows))
    }
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
        Some(template) => return render(template, found),
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
        Err(error) => return refused(&error, 125),
    };
    let mut text = String::new();
    for value in found {
        match template.render_typed(value, tote_engine::UNSET_FIELDS) {
            Ok(line) => text += &(line + "\n"),
            Err(error) => {
                print(&text);
                return refused(&error, 1);
            }
        }
    }
    print(&text)
}

fn read(format: &str) -> Result<Format, ExitCode> {
    Format::parse(format).map_err(|error| refused(&error, 125))
}

/// Reports an invalid format.
pub(crate) fn refused(error: &TemplateError, code: u8) -> ExitCode {
    let hint = match error {
        TemplateError::NoField { .. } => "'{{json .}}' shows which fields there are",
        _ => "a format is json, table, or a Go template such as '{{.ID}}'",
    };
    failure(&format!("--format: {error}"), Some(hint), code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listing() -> Listing {
        Listing {
            headings: &[("ID", "IMAGE ID"), ("Size", "SIZE")],
            columns: "{{.ID}}\t{{.Size}}".to_owned(),
            rows: vec![
                json!({ "ID": "abc", "Size": "1kB" }),
                json!({ "ID": "d", "Size": "" }),
            ],
            methods: vec![json!({ "Label": { "a": "b" } })],
            no_heading: false,
        }
    }

    #[test]
    fn tables_without_headings() {
        let list = Listing {
            no_heading: true,
            ..listing()
        };
        assert_eq!(list.formatted(None).as_deref(), Ok("abc       1kB\nd\n"));
    }

    #[test]
    fn formats() {
        let list = listing();
        let table = "IMAGE ID   SIZE\nabc        1kB\nd\n";
        assert_eq!(list.formatted(None).as_deref(), Ok(table));
        assert_eq!(list.formatted(Some("table")).as_deref(), Ok(table));
        assert_eq!(
            list.formatted(Some("table {{.Size}}\\t{{upper .ID}}")).as_deref(),
            Ok("SIZE      IMAGE ID\n1kB       ABC\n          D\n")
        );
        assert_eq!(
            list.formatted(Some("{{.ID}}={{.Size}}")).as_deref(),
            Ok("abc=1kB\nd=\n")
        );
        assert_eq!(
            list.formatted(Some("json")).as_deref(),
            Ok("{\"ID\":\"abc\",\"Size\":\"1kB\"}\n{\"ID\":\"d\",\"Size\":\"\"}\n")
        );
        assert!(list.formatted(Some("{{.Nothing}}")).is_err());
        assert!(list.formatted(Some("{{.ID")).is_err());
    }
}
