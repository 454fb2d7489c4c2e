//! Output of lists by `--format`: tables, JSON, or a Go template for each row.

use crate::text;
use serde_json::Value;
use tote_template::{Format, Template, TemplateError};

/// A list in docker's form.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Fields of the rows, with the headings of their columns.
    pub headings: &'static [(&'static str, &'static str)],
    /// Template of the default table.
    pub columns: String,
    /// An object for each row, with docker's fields.
    pub rows: Vec<Value>,
    /// True if the table has no headings.
    pub no_heading: bool,
    /// For each row, an object in which methods such as `{{.Label "KEY"}}` look up their value; may be empty.
    pub methods: Vec<Value>,
    /// For each row, further fields of podman's that templates may name; may be empty.
    pub also: Vec<Value>,
}

impl Listing {
    /// Formats the list.
    ///
    /// # Errors
    /// [`TemplateError`], about a field that the rows do not have, for example.
    pub fn formatted(&self, format: &Format) -> Result<String, TemplateError> {
        match format {
            Format::Json => Ok(self.rows.iter().map(|row| format!("{row}\n")).collect()),
            Format::Lines(template) => self.lines(template),
            Format::Table(Some(template)) => self.table(template),
            Format::Table(None) => Template::parse(&self.columns).and_then(|columns| self.table(&columns)),
        }
    }

    /// Gives the rows podman's fields as well, for templates that name single fields.
    #[must_use]
    pub fn with_podmans_fields(mut self) -> Self {
        for (row, also) in self.rows.iter_mut().zip(std::mem::take(&mut self.also)) {
            if let (Value::Object(row), Value::Object(also)) = (row, also) {
                row.extend(also);
            }
        }
        self
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
            ..Listing::default()
        }
    }

    fn shown(list: &Listing, format: &str) -> Result<String, TemplateError> {
        list.formatted(&Format::parse(format)?)
    }

    #[test]
    fn tables_without_headings() {
        let list = Listing {
            no_heading: true,
            ..listing()
        };
        assert_eq!(shown(&list, "table").unwrap(), "abc       1kB\nd\n");
    }

    #[test]
    fn formats() {
        let list = listing();
        let table = "IMAGE ID   SIZE\nabc        1kB\nd\n";
        assert_eq!(shown(&list, "table").unwrap(), table);
        assert_eq!(shown(&list, "table").unwrap(), table);
        assert_eq!(
            shown(&list, "table {{.Size}}\\t{{upper .ID}}").unwrap(),
            "SIZE      IMAGE ID\n1kB       ABC\n          D\n"
        );
        assert_eq!(shown(&list, "{{.ID}}={{.Size}}").unwrap(), "abc=1kB\nd=\n");
        assert_eq!(
            shown(&list, "json").unwrap(),
            "{\"ID\":\"abc\",\"Size\":\"1kB\"}\n{\"ID\":\"d\",\"Size\":\"\"}\n"
        );
        assert!(shown(&list, "{{.Nothing}}").is_err());
        assert!(shown(&list, "{{.ID").is_err());
    }
}
