//! `--name=value` before an instruction's arguments.

use crate::error::{FlagReason, Reason};
use crate::spelling::similar;
use crate::words;

/// The flags of an instruction; each one that the caller asks for is taken out.
#[derive(Debug)]
pub(crate) struct Flags {
    left: Vec<(String, Option<String>)>,
    /// The names that the caller has asked for: those that the instruction knows.
    known: Vec<&'static str>,
}

impl Flags {
    /// Takes flags off the start of an instruction's arguments; `--` alone ends them.
    pub(crate) fn parse(arguments: &str, escape: char) -> (Self, &str) {
        let mut left = Vec::new();
        let mut rest = arguments.trim_start();
        while rest.starts_with("--") {
            // The word may contain quoted blanks, so its end is where the next word begins.
            let word = words::split(rest, escape).into_iter().next().unwrap_or_default();
            rest = rest[word.len()..].trim_start();
            let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
                break;
            };
            let flag = words::unquoted(flag, escape).unwrap_or_else(|| flag.to_owned());
            left.push(match flag.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (flag, None),
            });
        }
        let known = Vec::new();
        (Self { left, known }, rest)
    }

    fn take(&mut self, name: &'static str) -> Option<(String, Option<String>)> {
        self.known.push(name);
        let at = self.left.iter().position(|(flag, _)| flag == name)?;
        Some(self.left.remove(at))
    }

    /// Takes a flag with a value that may occur at most once.
    pub(crate) fn value(&mut self, name: &'static str) -> Result<Option<String>, Reason> {
        let mut values = self.values(name)?;
        match values.len() {
            0 | 1 => Ok(values.pop()),
            _ => Err(Reason::Flag(FlagReason::DuplicateFlag(name.to_owned()))),
        }
    }

    /// Takes a flag with a value that may occur several times.
    pub(crate) fn values(&mut self, name: &'static str) -> Result<Vec<String>, Reason> {
        let mut values = Vec::new();
        while let Some((_, value)) = self.take(name) {
            values.push(value.ok_or(Reason::Flag(FlagReason::FlagValue(name.to_owned())))?);
        }
        Ok(values)
    }

    /// Takes a flag that means true without a value.
    pub(crate) fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, Reason> {
        let Some((_, value)) = self.take(name) else {
            return Ok(None);
        };
        if self.take(name).is_some() {
            return Err(Reason::Flag(FlagReason::DuplicateFlag(name.to_owned())));
        }
        match value.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            _ => Err(Reason::Flag(FlagReason::FlagBoolean(
                name.to_owned(),
                value.unwrap_or_default(),
            ))),
        }
    }

    /// Refuses the flags that the caller has not taken: they are unknown.
    pub(crate) fn finish(self) -> Result<(), Reason> {
        match self.left.into_iter().next() {
            Some((name, _)) => Err(Reason::Flag(FlagReason::UnknownFlag {
                suggestion: similar(&name, &self.known),
                name,
            })),
            None => Ok(()),
        }
    }
}
