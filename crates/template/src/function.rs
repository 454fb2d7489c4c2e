//! Functions that templates can call: Go's and docker's.

use crate::TemplateError;
use crate::datum::{Budget, Datum};
use crate::printf;
use serde_json::Value;
use std::cmp::Ordering;
use std::rc::Rc;

/// Function of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    And,
    Or,
    Not,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Len,
    Index,
    Slice,
    Print,
    Printf,
    Println,
    Json,
    Split,
    Join,
    Title,
    Lower,
    Upper,
    Pad,
    Truncate,
}

/// Functions with their names, and the least and the greatest number of arguments.
const FUNCTIONS: &[(Function, &str, usize, usize)] = &[
    (Function::And, "and", 1, usize::MAX),
    (Function::Or, "or", 1, usize::MAX),
    (Function::Not, "not", 1, 1),
    (Function::Eq, "eq", 2, usize::MAX),
    (Function::Ne, "ne", 2, 2),
    (Function::Lt, "lt", 2, 2),
    (Function::Le, "le", 2, 2),
    (Function::Gt, "gt", 2, 2),
    (Function::Ge, "ge", 2, 2),
    (Function::Len, "len", 1, 1),
    (Function::Index, "index", 1, usize::MAX),
    (Function::Slice, "slice", 1, 3),
    (Function::Print, "print", 0, usize::MAX),
    (Function::Printf, "printf", 1, usize::MAX),
    (Function::Println, "println", 0, usize::MAX),
    (Function::Json, "json", 1, 1),
    (Function::Split, "split", 2, 2),
    (Function::Join, "join", 2, 2),
    (Function::Title, "title", 1, 1),
    (Function::Lower, "lower", 1, 1),
    (Function::Upper, "upper", 1, 1),
    (Function::Pad, "pad", 3, 3),
    (Function::Truncate, "truncate", 2, 2),
];

impl Function {
    pub(crate) fn named(name: &str) -> Option<Self> {
        FUNCTIONS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    pub(crate) fn error(self, reason: impl Into<String>) -> TemplateError {
        TemplateError::Call {
            function: self.name(),
            reason: reason.into(),
        }
    }

    pub(crate) fn call<'a>(
        self,
        arguments: &[Datum<'a>],
        budget: &mut Budget,
    ) -> Result<Datum<'a>, TemplateError> {
        let row = FUNCTIONS.iter().find(|row| row.0 == self);
        let (least, most) = row.map_or((0, 0), |row| (row.2, row.3));
        if !(least..=most).contains(&arguments.len()) {
            let count = arguments.len();
            let plural = if least == 1 { "" } else { "s" };
            return Err(self.error(format!("it needs {least} argument{plural}, not {count}")));
        }
        match self {
            // The caller has decided on all arguments but the last.
            Self::And | Self::Or => Ok(arguments.last().cloned().unwrap_or(Datum::Nil)),
            Self::Not => Ok(Datum::Bool(!arguments[0].is_true())),
            Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge => {
                self.compare(arguments, budget).map(Datum::Bool)
            }
            Self::Len => {
                let length = arguments[0].len();
                length
                    .map(Datum::whole)
                    .ok_or_else(|| self.error(format!("{} has no length", arguments[0].kind())))
            }
            Self::Index => {
                let mut value = arguments[0].clone();
                for key in &arguments[1..] {
                    budget.spend(1)?;
                    value = self.index(&value, key)?;
                }
                Ok(value)
            }
            Self::Slice => self.slice(arguments, budget),
            Self::Json => Ok(Datum::text(&budget.json(&arguments[0])?)),
            Self::Split => {
                let (text, by) = (self.text(&arguments[0])?, self.text(&arguments[1])?);
                // A part costs more memory than its characters do.
                budget.spend(text.len() * 16)?;
                let parts: Vec<Datum> = if by.is_empty() {
                    text.chars()
                        .map(|c| Datum::text(c.encode_utf8(&mut [0; 4])))
                        .collect()
                } else {
                    text.split(by).map(Datum::text).collect()
                };
                Ok(Datum::List(Rc::from(parts)))
            }
            _ => self.make_text(arguments, budget).map(|text| Datum::text(&text)),
        }
    }

    /// Calls a function that makes a text.
    fn make_text(self, arguments: &[Datum], budget: &mut Budget) -> Result<String, TemplateError> {
        let mut text = String::new();
        match self {
            Self::Print | Self::Println => {
                for (index, argument) in arguments.iter().enumerate() {
                    // print puts a space only between two operands neither of which is a string; this is Go's rule.
                    let apart = |datum: &Datum| self == Self::Println || datum.as_text().is_none();
                    if index > 0 && apart(argument) && apart(&arguments[index - 1]) {
                        budget.push(&mut text, " ")?;
                    }
                    budget.print(&mut text, argument)?;
                }
                budget.push(&mut text, if self == Self::Println { "\n" } else { "" })?;
            }
            Self::Printf => text = printf::printf(self.text(&arguments[0])?, &arguments[1..], budget)?,
            Self::Join => {
                let by = self.text(&arguments[1])?;
                let list = &arguments[0];
                if !list.is_list() && list.is_true() {
                    return Err(self.error(format!("{} is not a list", list.kind())));
                }
                for index in 0..list.len().unwrap_or_default() {
                    budget.push(&mut text, if index > 0 { by } else { "" })?;
                    budget.print(&mut text, &list.item(index).unwrap_or(Datum::Nil))?;
                }
            }
            Self::Lower | Self::Upper | Self::Title => {
                let from = self.text(&arguments[0])?;
                // Some characters become three when capitalised.
                budget.spend(from.len() * 3)?;
                text = match self {
                    Self::Lower => from.to_lowercase(),
                    Self::Upper => from.to_uppercase(),
                    _ => title(from),
                };
            }
            Self::Pad => {
                let from = self.text(&arguments[0])?;
                let (before, after) = (self.count(&arguments[1])?, self.count(&arguments[2])?);
                if !from.is_empty() {
                    budget.spend(before.saturating_add(after).saturating_add(from.len()))?;
                    text = format!("{}{from}{}", " ".repeat(before), " ".repeat(after));
                }
            }
            _ => {
                let from = self.text(&arguments[0])?;
                budget.spend(from.len())?;
                text = from.chars().take(self.count(&arguments[1])?).collect();
            }
        }
        Ok(text)
    }

    fn text<'d>(self, datum: &'d Datum) -> Result<&'d str, TemplateError> {
        match datum {
            Datum::Missing(key) => Err(TemplateError::NoField { key: key.to_string() }),
            Datum::Nil | Datum::NoValue => Ok(""),
            other => other
                .as_text()
                .ok_or_else(|| self.error(format!("{} is not a string", other.kind()))),
        }
    }

    fn count(self, datum: &Datum) -> Result<usize, TemplateError> {
        let number = match datum {
            Datum::Number(number) => number.as_u64(),
            _ => None,
        };
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| self.error(format!("{} is not a count", datum.kind())))
    }

    fn compare(self, arguments: &[Datum], budget: &mut Budget) -> Result<bool, TemplateError> {
        let first = &arguments[0];
        for other in &arguments[1..] {
            let length = first.as_text().map_or(1, str::len);
            budget.spend(length)?;
            let order = self.order(first, other)?;
            let holds = match self {
                Self::Eq => order == Some(Ordering::Equal),
                Self::Ne => order != Some(Ordering::Equal),
                Self::Lt => order == Some(Ordering::Less),
                Self::Gt => order == Some(Ordering::Greater),
                Self::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            };
            if holds {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares two values; `None` if one of them is absent.
    fn order(self, one: &Datum, other: &Datum) -> Result<Option<Ordering>, TemplateError> {
        if let (Some(one), Some(other)) = (one.as_text(), other.as_text()) {
            return Ok(Some(one.cmp(other)));
        }
        match (one, other) {
            (one, other) if one.is_nothing() && other.is_nothing() => Ok(Some(Ordering::Equal)),
            (one, other) if one.is_nothing() || other.is_nothing() => Ok(None),
            (Datum::Bool(one), Datum::Bool(other)) => Ok(Some(one.cmp(other))),
            (Datum::Number(one), Datum::Number(other)) => match (one.as_i64(), other.as_i64()) {
                (Some(one), Some(other)) => Ok(Some(one.cmp(&other))),
                _ => Ok(one.as_f64().partial_cmp(&other.as_f64())),
            },
            _ => Err(self.error(format!("{} cannot be compared with {}", one.kind(), other.kind()))),
        }
    }

    /// Takes one step of `index`. A missing member is an empty text if all members are strings, as labels are.
    fn index<'a>(self, of: &Datum<'a>, key: &Datum) -> Result<Datum<'a>, TemplateError> {
        if let Some(name) = key.as_text() {
            return match of {
                Datum::Json(Value::Object(members)) => Ok(match members.get(name) {
                    Some(member) => Datum::of(member),
                    None if members.values().all(Value::is_string) => Datum::text(""),
                    None => Datum::Nil,
                }),
                nothing if nothing.is_nothing() => Ok(Datum::text("")),
                other => Err(self.error(format!("{} has no field {name:?}", other.kind()))),
            };
        }
        let place = self.count(key)?;
        if let Some(text) = of.as_text() {
            let byte = text.as_bytes().get(place);
            return byte
                .map(|byte| Datum::whole(usize::from(*byte)))
                .ok_or_else(|| self.error(format!("index out of range: {place}")));
        }
        if !of.is_list() {
            return Err(self.error(format!("{} has no items", of.kind())));
        }
        of.item(place)
            .ok_or_else(|| self.error(format!("index out of range: {place}")))
    }

    fn slice<'a>(self, arguments: &[Datum<'a>], budget: &mut Budget) -> Result<Datum<'a>, TemplateError> {
        let of = &arguments[0];
        let length = of
            .len()
            .ok_or_else(|| self.error(format!("{} cannot be sliced", of.kind())))?;
        let bound = |index: usize, otherwise| match arguments.get(index) {
            Some(datum) => self.count(datum),
            None => Ok(otherwise),
        };
        let (from, to) = (bound(1, 0)?, bound(2, length)?);
        let outside = || self.error(format!("index out of range: {from} to {to}"));
        if from > to || to > length {
            return Err(outside());
        }
        budget.spend(to - from)?;
        if let Some(text) = of.as_text() {
            return text.get(from..to).map(Datum::text).ok_or_else(outside);
        }
        if !of.is_list() {
            return Err(self.error(format!("{} cannot be sliced", of.kind())));
        }
        let items: Vec<Datum> = (from..to).filter_map(|index| of.item(index)).collect();
        Ok(Datum::List(Rc::from(items)))
    }
}

/// Capitalises each word.
fn title(text: &str) -> String {
    let mut begins = true;
    let mut titled = String::with_capacity(text.len());
    for letter in text.chars() {
        if begins {
            titled.extend(letter.to_uppercase());
        } else {
            titled.push(letter);
        }
        begins = !(letter.is_alphanumeric() || letter == '_' || letter == '\'');
    }
    titled
}
