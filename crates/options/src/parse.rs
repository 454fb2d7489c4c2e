//! From arguments to [`Parsed`], by the rules of Go's pflag, which docker's command line follows.

use crate::error::{Fault, UsageError, printable};
use crate::parsed::Parsed;
use crate::suggest::nearest;
use crate::table::{Command, HELP, Kind, Opt, Parsing, spelled};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Parses the arguments that follow the program's name.
///
/// A group without a command (`tote image`) is valid: [`Parsed::is_group`] is true then, and the program should
/// show help.
///
/// # Errors
/// Error for the first argument that the table does not allow.
pub fn parse(
    root: &'static Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Parsed, UsageError> {
    let parsed = Parsed {
        command: root,
        path: vec![root],
        values: Vec::new(),
        positionals: Vec::new(),
    };
    let mut line = Line {
        arguments: arguments.into_iter(),
        parsed,
        options_ended: false,
    };
    while let Some(argument) = line.arguments.next() {
        let halted = match argument.as_bytes() {
            [b'-', b'-'] if !line.options_ended => {
                line.options_ended = true;
                false
            }
            [b'-', b'-', body @ ..] if !line.options_ended => line.long(&argument, body)?,
            [b'-', letters @ ..] if !line.options_ended && !letters.is_empty() => line.letters(letters)?,
            _ => {
                line.word(argument)?;
                false
            }
        };
        if halted {
            return Ok(line.parsed);
        }
    }
    line.check_positionals()?;
    Ok(line.parsed)
}

/// Command line that is being parsed.
struct Line<I> {
    arguments: I,
    parsed: Parsed,
    options_ended: bool,
}

impl<I: Iterator<Item = OsString>> Line<I> {
    /// Parses `--name`, `--name=value`; `body` is the part after the dashes. True if the option ends parsing.
    fn long(&mut self, argument: &OsStr, body: &[u8]) -> Result<bool, UsageError> {
        let (name, glued) = match body.iter().position(|byte| *byte == b'=') {
            Some(equals) => (&body[..equals], Some(&body[equals + 1..])),
            None => (body, None),
        };
        if name.is_empty() || name.starts_with(b"-") {
            return Err(self.fault(Fault::BadSyntax(printable(argument)), None));
        }
        let found = str::from_utf8(name)
            .ok()
            .and_then(|name| self.parsed.command.long(name));
        let Some(opt) = found else {
            return Err(self.unknown_flag(OsStr::from_bytes(name)));
        };
        let value = match (glued, opt.kind) {
            (Some(value), _) => bytes_to_value(value),
            (None, Kind::Flag | Kind::Halt) => "true".into(),
            (None, Kind::OptionalValue { bare, .. }) => bare.into(),
            (None, Kind::Value { .. } | Kind::List { .. }) => match self.arguments.next() {
                Some(value) => value,
                None => return Err(self.fault(Fault::NeedsArgument(printable(argument)), None)),
            },
        };
        self.note(opt, value)
    }

    /// Parses `-it`, `-eX=1`, `-t=false`, `-m` and the next argument. True if one of them ends parsing.
    fn letters(&mut self, letters: &[u8]) -> Result<bool, UsageError> {
        let mut rest = letters;
        while let [letter, tail @ ..] = rest {
            let known = letter
                .is_ascii()
                .then(|| self.parsed.command.short(char::from(*letter)))
                .flatten();
            let Some(opt) = known else {
                return Err(self.unknown_letter(rest, letters));
            };
            // The rule is pflag's: `-t=` is `-t` and a flag called `=`.
            let (value, last) = match (tail, opt.kind) {
                ([b'=', value @ ..], _) if !value.is_empty() => (bytes_to_value(value), true),
                (_, Kind::Flag | Kind::Halt) => ("true".into(), false),
                (_, Kind::OptionalValue { bare, .. }) => (bare.into(), false),
                ([], Kind::Value { .. } | Kind::List { .. }) => match self.arguments.next() {
                    Some(value) => (value, true),
                    None => {
                        let letter = char::from(*letter);
                        let flag = format!("'{letter}' in -{letter}");
                        return Err(self.fault(Fault::NeedsArgument(flag), None));
                    }
                },
                (value, Kind::Value { .. } | Kind::List { .. }) => (bytes_to_value(value), true),
            };
            if self.note(opt, value)? {
                return Ok(true);
            }
            rest = if last { &[] } else { tail };
        }
        Ok(false)
    }

    /// Takes a word other than an option: the next command's name, or a positional.
    fn word(&mut self, word: OsString) -> Result<(), UsageError> {
        let is_first = self.parsed.positionals.is_empty() && !self.options_ended;
        let child = word.to_str().and_then(|name| self.parsed.command.child(name));
        let takes_words = self.parsed.command.subcommands.is_empty() || self.parsed.command.is_mixed();
        let Some(command) = child.filter(|_| is_first || !takes_words) else {
            if !takes_words {
                return Err(self.unknown_command(&word));
            }
            self.parsed.positionals.push(word);
            if self.parsed.command.parsing == Parsing::StopAtFirstPositional {
                self.parsed.positionals.extend(self.arguments.by_ref());
            }
            return Ok(());
        };
        self.parsed.path.push(command);
        self.parsed.command = command;
        self.options_ended = false;
        Ok(())
    }

    fn note(&mut self, opt: &'static Opt, value: OsString) -> Result<bool, UsageError> {
        let halts = opt.kind == Kind::Halt;
        self.parsed.push(opt, value)?;
        Ok(halts && self.parsed.flag(opt.long))
    }

    fn check_positionals(&self) -> Result<(), UsageError> {
        if !self.parsed.command.subcommands.is_empty() && !self.parsed.command.is_mixed() {
            return Ok(());
        }
        let table = self.parsed.command.positionals;
        let least = table.iter().filter(|positional| positional.required).count();
        let most = if table.last().is_some_and(|last| last.many) {
            usize::MAX
        } else {
            table.len()
        };
        let named = usize::from(self.parsed.first_is_named_by().is_some());
        if (least..=most).contains(&(self.parsed.positionals.len() + named)) {
            return Ok(());
        }
        let expected = match (least, most) {
            (0, 0) => "accepts no arguments".to_owned(),
            (_, usize::MAX) => format!("requires at least {least} {}", arguments(least)),
            (0, _) => format!("requires at most {most} {}", arguments(most)),
            (_, _) if least == most => format!("requires exactly {least} {}", arguments(least)),
            (_, _) => format!("requires at least {least} and at most {most} {}", arguments(most)),
        };
        Err(self.fault(
            Fault::Positionals {
                command: spelled(&self.parsed.path),
                expected,
            },
            None,
        ))
    }

    fn fault(&self, fault: Fault, advice: Option<String>) -> UsageError {
        UsageError::new(&self.parsed.path, fault, advice)
    }

    fn unknown_flag(&self, name: &OsStr) -> UsageError {
        let flag = format!("--{}", printable(name));
        let advice = self
            .misplaced(name)
            .or_else(|| self.absent(&flag))
            .or_else(|| self.similar_option(name));
        self.fault(Fault::UnknownFlag(flag), advice)
    }

    /// Makes the error for an unknown letter. `whole` is the argument from its first letter on, `rest` from the
    /// unknown letter on.
    fn unknown_letter(&self, rest: &[u8], whole: &[u8]) -> UsageError {
        let text = OsStr::from_bytes(rest).to_string_lossy();
        let first: String = text.chars().take(1).collect();
        let (letter, cluster) = (printable(OsStr::new(&first)), printable(OsStr::from_bytes(rest)));
        // The most frequent slip is `-rm` for `--rm`.
        let similar = || self.similar_option(OsStr::from_bytes(whole));
        let advice = self.absent(&format!("-{letter}")).or_else(similar);
        self.fault(Fault::UnknownShorthand { letter, cluster }, advice)
    }

    fn unknown_command(&self, word: &OsStr) -> UsageError {
        let names = || {
            self.parsed
                .command
                .shown_children()
                .flat_map(|command| std::iter::once(command.name).chain(command.aliases.iter().copied()))
        };
        let similar = |word| {
            let name = nearest(word, names())?;
            Some(format!("did you mean '{} {name}'?", spelled(&self.parsed.path)))
        };
        let advice = word
            .to_str()
            .and_then(|word| self.absent(word).or_else(|| similar(word)));
        let group = spelled(&self.parsed.path);
        self.fault(
            Fault::UnknownCommand {
                name: printable(word),
                group,
            },
            advice,
        )
    }

    /// Returns advice for a word that the command lacks on purpose.
    fn absent(&self, word: &str) -> Option<String> {
        self.parsed.command.advice(word).map(str::to_owned)
    }

    /// Returns advice for an option of an earlier command: `tote run --root DIR`.
    fn misplaced(&self, name: &OsStr) -> Option<String> {
        let name = name.to_str()?;
        let earlier = self.parsed.path.iter().take(self.parsed.path.len() - 1);
        let owner = earlier.copied().find(|command| command.long(name).is_some())?;
        Some(format!(
            "--{name} belongs right after '{}', before the command.",
            owner.name
        ))
    }

    fn similar_option(&self, name: &OsStr) -> Option<String> {
        let names = self
            .parsed
            .command
            .own_options()
            .chain([&HELP])
            .flat_map(|opt| std::iter::once(opt.long).chain(opt.aliases.iter().copied()));
        nearest(name.to_str()?, names).map(|near| format!("did you mean --{near}?"))
    }
}

fn bytes_to_value(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

fn arguments(count: usize) -> &'static str {
    if count == 1 { "argument" } else { "arguments" }
}
