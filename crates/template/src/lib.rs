//! Go's templates over JSON: what docker's users write after `--format`.
//!
//! [`Template`] is one of them, and [`Format`] the whole word: `json`, `table`, `table TEMPLATE` or a template.
//!
//! What holds here:
//!
//! - Pure: nothing is read, and nothing printed.
//! - A template may be an enemy's: its length, its depth, and all that it makes and does are limited, so that it ends
//!   within a fraction of a second whatever it says. No input makes it panic.
//! - The words and what they do are Go's and docker's. Left out are `define`, `template` and `block`, which no single
//!   line needs, and `call`, `html`, `js` and `urlquery`.
//!
//! One thing differs, because JSON knows no types: a field that is not there is an error where it is printed, and
//! counts as empty in conditions and in `json`; docker knows which of its fields may be missing, and whoever calls
//! [`Template::render_typed`] says so.

mod datum;
mod error;
mod format;
mod function;
mod parse;
mod printf;
mod render;
mod scan;
mod syntax;

pub use datum::Unset;
pub use error::TemplateError;
pub use format::Format;

use serde_json::Value;

/// The longest template, in bytes.
const LONGEST: usize = 1 << 14;

/// A template that has been read.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<syntax::Node>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// [`TemplateError`] where it is none, or longer or deeper than anybody means.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > LONGEST {
            return Err(TemplateError::Long { most: LONGEST });
        }
        let nodes = parse::parse(text)?;
        Ok(Self { nodes })
    }

    /// The text for one value, which is `.` and `$`.
    ///
    /// # Errors
    /// [`TemplateError`] where the value lacks what is to be printed, or is of another kind, or where the template takes
    /// too long.
    pub fn render(&self, value: &Value) -> Result<String, TemplateError> {
        self.render_with(value, &Value::Null)
    }

    /// The same, where `.` has methods with one argument, too: `{{.Label "key"}}` is the member `key` of the member
    /// `Label` of `methods`, or empty.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_with(&self, value: &Value, methods: &Value) -> Result<String, TemplateError> {
        render::render(&self.nodes, value, methods, &[])
    }

    /// As [`render`](Self::render), where `fields` tells by their names what fields are of which a value may lack, wherever they
    /// stand.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_typed(&self, value: &Value, fields: &[(&str, Unset)]) -> Result<String, TemplateError> {
        render::render(&self.nodes, value, &Value::Null, fields)
    }
}
