//! What expressions evaluate to.

use serde_json::{Map, Number, Value};
use std::rc::Rc;

/// A value; copying one is cheap.
#[derive(Clone, Debug)]
pub(crate) enum Datum<'a> {
    /// Part of what the template is rendered with.
    Json(&'a Value),
    Text(Rc<str>),
    Number(Number),
    Bool(bool),
    List(Rc<[Datum<'a>]>),
    Nil,
    /// A field that is not there, with its name.
    Missing(Rc<str>),
    /// A pointer, map or list without a value: [`Datum::unset`].
    Unset(Unset),
    /// What a map has under a name that it lacks, and whatever is asked of that.
    NoValue,
}

/// The type of a field that JSON leaves out or has as null, where Go would print an empty value of that type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// `<nil>`
    Pointer,
    /// `map[]`; where it has a value, names that it lacks are no error but `<no value>`.
    Map,
    /// `[]`
    List,
    /// Nothing.
    Text,
    /// `0`
    Number,
    /// `false`
    Flag,
}

impl Unset {
    /// As Go prints it.
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
    /// As a constant of JSON where it is one, so that nobody has to look in two places.
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

    /// The characters of a string.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// A field without a value.
    pub(crate) fn unset(unset: Unset) -> Self {
        match unset {
            Unset::Text => Self::text(""),
            Unset::Number => Self::whole(0),
            Unset::Flag => Self::Bool(false),
            Unset::Pointer | Unset::Map | Unset::List => Self::Unset(unset),
        }
    }

    /// Whether it is nil or absent.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(
            self,
            Self::Nil | Self::Missing(_) | Self::NoValue | Self::Unset(_)
        )
    }

    /// What Go counts as true: whatever is not empty, zero or absent.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Bool(value) => *value,
            Self::Number(number) => number.as_f64() != Some(0.0),
            Self::Nil | Self::Missing(_) | Self::Unset(_) | Self::NoValue => false,
            other => other.len() != Some(0),
        }
    }

    /// The bytes of a string, the items of a list or the members of an object; `None` for what has no length.
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

    /// An item of a list.
    pub(crate) fn item(&self, index: usize) -> Option<Datum<'a>> {
        match self {
            Self::Json(Value::Array(items)) => items.get(index).map(Datum::of),
            Self::List(items) => items.get(index).cloned(),
            _ => None,
        }
    }

    /// Whether it is a list.
    pub(crate) fn is_list(&self) -> bool {
        matches!(
            self,
            Self::List(_) | Self::Json(Value::Array(_)) | Self::Unset(Unset::List)
        )
    }

    /// What it is called in errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Json(Value::Object(_)) => "an object",
            Self::Json(Value::Array(_)) | Self::List(_) => "a list",
            Self::Json(_) | Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Bool(_) => "a boolean",
            Self::Nil | Self::NoValue | Self::Unset(_) => "nothing",
            Self::Missing(_) => "what is not there",
        }
    }
}

/// A text of limited length, by which also the time is limited that making it takes.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
}

/// The budget is used up.
#[derive(Debug)]
pub(crate) struct Spent;

impl Budget {
    /// How much one rendering may do: a unit for each step, and for each byte that is made. A fraction of a second.
    pub(crate) const WHOLE: usize = 1 << 24;

    pub(crate) fn new() -> Self {
        Self { left: Self::WHOLE }
    }

    /// Takes units off.
    pub(crate) fn spend(&mut self, units: usize) -> Result<(), Spent> {
        self.left = self.left.checked_sub(units).ok_or(Spent)?;
        Ok(())
    }

    /// Appends and pays for it.
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
                        // In docker's maps what has nothing is Go's `struct{}`: `map[80/tcp:{}]`.
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

    /// A value as JSON, in one line.
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
