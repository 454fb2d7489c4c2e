//! Go's templates over JSON, which docker's users write after `--format`.
//!
//! [`Template`] is a single template, and [`Format`] the whole value: `json`, `table`, `table TEMPLATE` or a
//! template.
//!
//! Invariants:
//!
//! - The crate is pure: it reads and prints nothing.
//! - A template may be an enemy's: its length, its depth, its output and its work are limited, so that it ends within
//!   a fraction of a second whatever it says. No input makes it panic.
//! - Words and meanings are Go's and docker's. `define`, `template` and `block` are left out, because they are
//!   useless in a single line, and so are `call`, `html`, `js` and `urlquery`.
//!
//! There is one difference, because JSON has no types: a missing field is an error where it is printed, and counts as
//! empty in conditions and in `json`. docker knows which of its fields may be missing; a caller who knows them, too,
//! names them to [`Template::render_typed`].

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

/// Longest template, in bytes.
const LONGEST: usize = 1 << 14;

/// Parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<syntax::Node>,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// [`TemplateError`] for an invalid template, and for one that is too long or too deep.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > LONGEST {
            return Err(TemplateError::Long { most: LONGEST });
        }
        let nodes = parse::parse(text)?;
        Ok(Self { nodes })
    }

    /// Renders the template for one value, which is `.` and `$`.
    ///
    /// # Errors
    /// [`TemplateError`] if the value lacks a printed member, or is of another kind, or if the template takes too
    /// long.
    pub fn render(&self, value: &Value) -> Result<String, TemplateError> {
        self.render_with(value, &Value::Null)
    }

    /// Renders with methods of `.` that take one argument: `{{.Label "key"}}` is the member `key` of the member
    /// `Label` of `methods`, or empty.
    ///
    /// # Errors
    /// Those of [`render`](Self::render).
    pub fn render_with(&self, value: &Value, methods: &Value) -> Result<String, TemplateError> {
        render::render(&self.nodes, value, methods, &[])
    }

    /// Renders with types: `fields` gives the types of fields that may be missing, by their names, at any depth.
    ///
    /// # Errors
    /// Those of [`render`](Self::render).
    pub fn render_typed(&self, value: &Value, fields: &[(&str, Unset)]) -> Result<String, TemplateError> {
        render::render(&self.nodes, value, &Value::Null, fields)
    }
}
