//! From a file's text to stages and instructions.

use crate::command;
use crate::error::{ArgumentReason, ParseError, Reason};
use crate::flags::Flags;
use crate::instruction::{Arg, Command, Dockerfile, Instruction, Lines, Stage};
use crate::lines::{self, LogicalLine};

impl Dockerfile {
    /// Parses a Dockerfile.
    ///
    /// # Errors
    /// The first error that docker would report, in its words, with the line. Stages, files and images need not
    /// exist.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (directives, lines) = lines::split(text)?;
        let mut file = Self {
            directives,
            args: Vec::new(),
            stages: Vec::new(),
        };
        for line in lines {
            let number = line.first;
            file.add(line)
                .map_err(|reason| ParseError { line: number, reason })?;
        }
        match file.stages.is_empty() {
            true => Err(ParseError {
                line: 1,
                reason: Reason::NoStage,
            }),
            false => Ok(file),
        }
    }

    fn add(&mut self, line: LogicalLine) -> Result<(), Reason> {
        let escape = self.directives.escape;
        let lines = Lines {
            first: line.first,
            last: line.last,
        };
        let (name, arguments) = split_name(&line.text);
        if name.eq_ignore_ascii_case("FROM") {
            self.stages.push(stage(arguments, lines, escape)?);
            return Ok(());
        }
        let command = command::parse(name, arguments, line.heredocs, escape)?;
        match (self.stages.last_mut(), command) {
            (Some(stage), command) => stage.instructions.push(Instruction {
                lines,
                text: line.text,
                command,
            }),
            (None, Command::Arg(args)) => self.args.extend::<Vec<Arg>>(args),
            (None, _) => return Err(Reason::NoStage),
        }
        Ok(())
    }
}

/// Splits an instruction into its name and the rest.
pub(crate) fn split_name(text: &str) -> (&str, &str) {
    match text.split_once(|next: char| next.is_ascii_whitespace()) {
        Some((name, rest)) => (name, rest.trim()),
        None => (text, ""),
    }
}

fn stage(arguments: &str, lines: Lines, escape: char) -> Result<Stage, Reason> {
    let (mut flags, rest) = Flags::parse(arguments, escape);
    let platform = flags.value("platform")?;
    flags.finish()?;
    let words: Vec<_> = rest.split_ascii_whitespace().collect();
    let (base, name) = match *words {
        [base] => (base, None),
        [base, word, name] if word.eq_ignore_ascii_case("as") => (base, Some(stage_name(name)?)),
        _ => return Err(Reason::Argument(ArgumentReason::From)),
    };
    Ok(Stage {
        name,
        base: base.to_owned(),
        platform,
        lines,
        instructions: Vec::new(),
    })
}

fn stage_name(name: &str) -> Result<String, Reason> {
    let lower = name.to_ascii_lowercase();
    let starts = lower.starts_with(|first: char| first.is_ascii_lowercase());
    let symbols = |next: char| !(next.is_ascii_lowercase() || next.is_ascii_digit() || "-_.".contains(next));
    if starts && !lower.contains(symbols) {
        Ok(lower)
    } else {
        Err(Reason::StageName(name.to_owned()))
    }
}
