//! Value of `--format`.

use crate::{Template, TemplateError};
use serde_json::Value;

/// Format in which a list is printed.
#[derive(Clone, Debug)]
pub enum Format {
    /// Line of JSON for each row: `json`.
    Json,
    /// Table: `table`, with the columns of the command's own template, or `table TEMPLATE`.
    Table(Option<Template>),
    /// Line of text for each row.
    Lines(Template),
}

impl Format {
    /// Parses the value. `\t` and `\n` stand for a tabulator and a line's end, as docker's users write them.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let trimmed = text.trim();
        if trimmed == "json" {
            return Ok(Self::Json);
        }
        let plain = trimmed.replace("\\t", "\t").replace("\\n", "\n");
        match plain.strip_prefix("table") {
            Some("") => Ok(Self::Table(None)),
            Some(columns) if columns.starts_with([' ', '\t', '{']) => {
                Template::parse(columns.trim()).map(|template| Self::Table(Some(template)))
            }
            _ => Template::parse(&plain).map(Self::Lines),
        }
    }
}

impl Template {
    /// Returns the cells of a row of a table, between its tabulators.
    ///
    /// # Errors
    /// Those of [`render`](Self::render).
    pub fn cells(&self, row: &Value, methods: &Value) -> Result<Vec<String>, TemplateError> {
        let text = self.render_with(row, methods)?;
        Ok(text.split('\t').map(ToOwned::to_owned).collect())
    }
}
