//! Values of expressions.

use crate::error::NOTHING;
use serde_json::{Map, Number, Value};
use std::rc::Rc;

/// Value that is cheap to copy.
#[derive(Clone, Debug)]
pub(crate) enum Datum<'a> {
    /// Part of the value that the template is rendered with.
    Json(&'a Value),
    Text(Rc<str>),
    Number(Number),
    Bool(bool),
    List(Rc<[Datum<'a>]>),
    Nil,
    /// Missing field, with its name.
    Missing(Rc<str>),
    /// Pointer, map or list without a value: [`Datum::unset`].
    Unset(Unset),
    /// Value of a missing member of a map, and of every member of that.
    NoValue,
}

/// Type of a field that JSON leaves out or has as null, where Go would print an empty value of that type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// Printed as `<nil>`.
    Pointer,
    /// Printed as `map[]`; if it has a value, a missing member is not an error but `<no value>`.
    Map,
    /// Printed as `[]`.
    List,
    /// Printed as nothing.
    Text,
    /// Printed as `0`.
    Number,
    /// Printed as `false`.
    Flag,
}

impl Unset {
    /// Returns the text that Go prints.
    const fn printed(self) -> &'static str {
        match self {
            Self::Pointer => "<nil>",
            Self::Map => "map[]",
            Self::List => "[]",
            Self::Text => "",
            Self::Number => "0",
            Self::Flag => "false",
        }
    }
}

impl<'a> Datum<'a> {
    /// Converts JSON; constants become variants of their own, so that no code has to check two forms.
    pub(crate) fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Nil,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.clone()),
            value => Self::Json(value),
        }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Text(Rc::from(text))
    }

    pub(crate) fn whole(number: usize) -> Self {
        Self::Number(Number::from(number))
    }

    /// Returns the characters of a string.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Makes the value of a field without one.
    pub(crate) fn unset(unset: Unset) -> Self {
        match unset {
            Unset::Text => Self::text(""),
            Unset::Number => Self::whole(0),
            Unset::Flag => Self::Bool(false),
            Unset::Pointer | Unset::Map | Unset::List => Self::Unset(unset),
        }
    }

    /// True if it is nil or absent.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(
            self,
            Self::Nil | Self::Missing(_) | Self::NoValue | Self::Unset(_)
        )
    }

    /// True if Go counts it as true: everything that is not empty, zero or absent.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Bool(value) => *value,
            Self::Number(number) => number.as_f64() != Some(0.0),
            Self::Nil | Self::Missing(_) | Self::Unset(_) | Self::NoValue => false,
            other => other.len() != Some(0),
        }
    }

    /// Returns the number of bytes of a string, items of a list or members of an object; `None` if it has no length.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Self::Text(text) => Some(text.len()),
            Self::Json(Value::String(text)) => Some(text.len()),
            Self::Json(Value::Array(items)) => Some(items.len()),
            Self::Json(Value::Object(members)) => Some(members.len()),
            Self::List(items) => Some(items.len()),
            Self::Unset(Unset::Map | Unset::List) => Some(0),
            _ => None,
        }
    }

    /// Returns an item of a list.
    pub(crate) fn item(&self, index: usize) -> Option<Datum<'a>> {
        match self {
            Self::Json(Value::Array(items)) => items.get(index).map(Datum::of),
            Self::List(items) => items.get(index).cloned(),
            _ => None,
        }
    }

    /// True if it is a list.
    pub(crate) fn is_list(&self) -> bool {
        matches!(
            self,
            Self::List(_) | Self::Json(Value::Array(_)) | Self::Unset(Unset::List)
        )
    }

    /// Returns its name in errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Json(Value::Object(_)) => "an object",
            Self::Json(Value::Array(_)) | Self::List(_) => "a list",
            Self::Json(_) | Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Bool(_) => "a boolean",
            Self::Nil | Self::NoValue | Self::Unset(_) => NOTHING,
            Self::Missing(_) => "what is not there",
        }
    }
}

/// Limit of the text's length, and so of the time that it takes to make the text.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
}

/// Error: the budget is used up.
#[derive(Debug)]
pub(crate) struct Spent;

impl Budget {
    /// Units that one rendering may use: one for each step, and one for each byte of text. This takes a fraction of a
    /// second.
    pub(crate) const WHOLE: usize = 1 << 24;

    pub(crate) fn new() -> Self {
        Self { left: Self::WHOLE }
    }

    /// Subtracts units.
    pub(crate) fn spend(&mut self, units: usize) -> Result<(), Spent> {
        self.left = self.left.checked_sub(units).ok_or(Spent)?;
        Ok(())
    }

    /// Appends text and pays for it.
    pub(crate) fn push(&mut self, text: &mut String, more: &str) -> Result<(), Spent> {
        self.spend(more.len())?;
        text.push_str(more);
        Ok(())
    }

    /// Appends a value as Go prints it: `[a b]`, `map[k:v]`.
    pub(crate) fn print(&mut self, text: &mut String, datum: &Datum) -> Result<(), Spent> {
        self.spend(1)?;
        match datum {
            Datum::Json(value) => self.print_json(text, value),
            Datum::Text(more) => self.push(text, more),
            Datum::Number(number) => self.push(text, &number.to_string()),
            Datum::Bool(value) => self.push(text, if *value { "true" } else { "false" }),
            Datum::Nil | Datum::Missing(_) | Datum::NoValue => self.push(text, "<no value>"),
            Datum::Unset(unset) => self.push(text, unset.printed()),
            Datum::List(items) => {
                self.push(text, "[")?;
                for (index, item) in items.iter().enumerate() {
                    self.push(text, if index > 0 { " " } else { "" })?;
                    self.print(text, item)?;
                }
                self.push(text, "]")
            }
        }
    }

    fn print_json(&mut self, text: &mut String, value: &Value) -> Result<(), Spent> {
        self.spend(1)?;
        match value {
            Value::Null => self.push(text, "<nil>"),
            Value::Bool(value) => self.push(text, if *value { "true" } else { "false" }),
            Value::Number(number) => self.push(text, &number.to_string()),
            Value::String(more) => self.push(text, more),
            Value::Array(items) => {
                self.push(text, "[")?;
                for (index, item) in items.iter().enumerate() {
                    self.push(text, if index > 0 { " " } else { "" })?;
                    self.print_json(text, item)?;
                }
                self.push(text, "]")
            }
            Value::Object(members) => {
                if let Some(structure) = structure(members) {
                    return self.print_structure(text, structure, members);
                }
                self.push(text, "map[")?;
                for (index, (name, member)) in members.iter().enumerate() {
                    self.push(text, if index > 0 { " " } else { "" })?;
                    self.push(text, name)?;
                    self.push(text, ":")?;
                    match member.as_object() {
                        // Empty objects in docker's maps are Go's `struct{}`: `map[80/tcp:{}]`.
                        Some(nothing) if nothing.is_empty() => self.push(text, "{}")?,
                        _ => self.print_json(text, member)?,
                    }
                }
                self.push(text, "]")
            }
        }
    }

    /// Appends values without their names, in the order in which docker declares them: `{always 0}`.
    fn print_structure(
        &mut self,
        text: &mut String,
        structure: &[&str],
        members: &Map<String, Value>,
    ) -> Result<(), Spent> {
        self.push(text, "{")?;
        for (index, name) in structure.iter().enumerate() {
            self.push(text, if index > 0 { " " } else { "" })?;
            if let Some(member) = members.get(*name) {
                self.print_json(text, member)?;
            }
        }
        self.push(text, "}")
    }

    /// Formats a value as JSON, in one line.
    pub(crate) fn json(&mut self, datum: &Datum) -> Result<String, Spent> {
        let text = match datum {
            Datum::Json(value) => value.to_string(),
            Datum::Text(text) => Value::from(&**text).to_string(),
            Datum::Number(number) => number.to_string(),
            Datum::Bool(value) => value.to_string(),
            Datum::Nil | Datum::Missing(_) | Datum::NoValue | Datum::Unset(_) => "null".to_owned(),
            Datum::List(items) => {
                let items: Result<Vec<String>, Spent> = items.iter().map(|item| self.json(item)).collect();
                format!("[{}]", items?.join(","))
            }
        };
        self.spend(text.len())?;
        Ok(text)
    }
}

/// docker's structures of `inspect` that users print whole: their fields in the order of docker's declarations. Texts that
/// have nothing are left out of JSON, so that a mount may have fewer.
const STRUCTURES: [&[&str]; 3] = [
    &["Name", "MaximumRetryCount"],
    &["Type", "Config"],
    &[
        "Type",
        "Name",
        "Source",
        "Destination",
        "Driver",
        "Mode",
        "RW",
        "Propagation",
    ],
];

/// The structure that an object is one of: it has the last field, and none that the structure lacks.
fn structure(members: &Map<String, Value>) -> Option<&'static [&'static str]> {
    let is_one = |fields: &&&[&str]| {
        fields.last().is_some_and(|last| members.contains_key(*last))
            && members.keys().all(|name| fields.contains(&name.as_str()))
            && (members.len() > 1)
    };
    STRUCTURES.iter().find(is_one).copied()
}
