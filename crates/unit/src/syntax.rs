//! Syntax of unit files: systemd.syntax(7).

use std::fmt;

/// A unit file: sections in order; sections of one name may be in several pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitFile {
    /// Sections of the file.
    pub sections: Vec<Section>,
}

/// Section of a unit file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name between the brackets.
    pub name: String,
    /// Line of its header, from 1 on; 0 if it was not read from a file.
    pub line: usize,
    /// Entries of the section.
    pub entries: Vec<Entry>,
}

/// Entry `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the key.
    pub key: String,
    /// Value, continued lines joined by blanks.
    pub value: String,
    /// Line where it begins.
    pub line: Line,
}

/// Place in a file, or in one of its drop-ins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Number of the drop-in, from 1 on; 0 is the file itself.
    pub file: usize,
    /// Number of the line, from 1 on; 0 if it was not read from a file.
    pub number: usize,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// Reason why a text is not a unit file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The text is longer than any unit written by hand.
    #[error("longer than {LONGEST} bytes")]
    TooLong,
    /// The text has a byte that is invalid in units.
    #[error("line {0}: a control character")]
    Control(usize),
    /// Brackets have no end or no name.
    #[error("line {0}: not a section: give [NAME]")]
    Section(usize),
    /// An entry is above every section.
    #[error("line {0}: outside of every section")]
    Outside(usize),
    /// A line is neither a section nor an entry.
    #[error("line {0}: neither a [SECTION] nor KEY=VALUE")]
    Neither(usize),
}

/// Most bytes of a unit file.
const LONGEST: usize = 1 << 20;

impl UnitFile {
    /// Parses a unit file.
    ///
    /// # Errors
    /// [`SyntaxError`] names the line.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        if text.len() > LONGEST {
            return Err(SyntaxError::TooLong);
        }
        let mut file = Self::default();
        let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
        while let Some((number, line)) = lines.next() {
            let mut line = line.trim().to_owned();
            if is_comment(&line) {
                continue;
            }
            while let Some(begun) = line.strip_suffix('\\') {
                // Comments may stand between the parts.
                let Some((_, next)) = lines.by_ref().find(|(_, next)| !is_note(next)) else {
                    line = begun.trim_end().to_owned();
                    break;
                };
                line = format!("{begun} {}", next.trim());
            }
            file.take(number, line.trim())?;
        }
        Ok(file)
    }

    fn take(&mut self, number: usize, line: &str) -> Result<(), SyntaxError> {
        if line.chars().any(|letter| letter.is_control() && letter != '\t') {
            return Err(SyntaxError::Control(number));
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').filter(|name| !name.is_empty());
            let name = name.filter(|name| !name.contains(['[', ']']));
            self.sections.push(Section {
                name: name.ok_or(SyntaxError::Section(number))?.to_owned(),
                line: number,
                entries: Vec::new(),
            });
            return Ok(());
        }
        let (key, value) = line.split_once('=').ok_or(SyntaxError::Neither(number))?;
        let section = self.sections.last_mut().ok_or(SyntaxError::Outside(number))?;
        let key = key.trim_end();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(SyntaxError::Neither(number));
        }
        section.entries.push(Entry {
            key: key.to_owned(),
            value: value.trim_start().to_owned(),
            line: Line { file: 0, number },
        });
        Ok(())
    }

    /// Returns every entry of the sections of that name.
    pub fn entries<'a>(&'a self, section: &'a str) -> impl Iterator<Item = &'a Entry> {
        let sections = self.sections.iter().filter(move |one| one.name == section);
        sections.flat_map(|one| &one.entries)
    }

    /// Returns the value of a key that takes one: the last one; `None` if that is empty.
    #[must_use]
    pub fn value<'a>(&'a self, section: &'a str, key: &'a str) -> Option<&'a Entry> {
        let last = self.entries(section).filter(|entry| entry.key == key).last();
        last.filter(|entry| !entry.value.is_empty())
    }

    /// Returns the values of a key that takes several: an empty one discards those before it.
    #[must_use]
    pub fn values<'a>(&'a self, section: &'a str, key: &'a str) -> Vec<&'a Entry> {
        let mut values = Vec::new();
        for entry in self.entries(section).filter(|entry| entry.key == key) {
            if entry.value.is_empty() {
                values.clear();
            } else {
                values.push(entry);
            }
        }
        values
    }

    /// Adds an entry to the section of that name, or to a new section.
    pub fn add(&mut self, section: &str, key: &str, value: impl Into<String>) {
        let entry = Entry {
            key: key.to_owned(),
            value: value.into(),
            line: Line::default(),
        };
        match self.sections.iter_mut().rfind(|one| one.name == section) {
            Some(found) => found.entries.push(entry),
            None => self.sections.push(Section {
                name: section.to_owned(),
                line: 0,
                entries: vec![entry],
            }),
        }
    }

    /// Adds an entry if the section does not have the key.
    pub fn add_missing(&mut self, section: &str, key: &str, value: impl Into<String>) {
        if self.entries(section).all(|entry| entry.key != key) {
            self.add(section, key, value);
        }
    }

    /// Adds the contents of a drop-in with that number.
    pub fn merge(&mut self, other: Self, file: usize) {
        for mut section in other.sections {
            for entry in &mut section.entries {
                entry.line.file = file;
            }
            match self.sections.iter_mut().rfind(|one| one.name == section.name) {
                Some(found) => found.entries.extend(section.entries),
                None => self.sections.push(section),
            }
        }
    }
}

/// True for empty lines and comments.
fn is_comment(line: &str) -> bool {
    line.is_empty() || is_note(line)
}

fn is_note(line: &str) -> bool {
    line.trim_start().starts_with(['#', ';'])
}

impl fmt::Display for UnitFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, section) in self.sections.iter().enumerate() {
            let apart = if place == 0 { "" } else { "\n" };
            writeln!(f, "{apart}[{}]", section.name)?;
            for Entry { key, value, .. } in &section.entries {
                // A backslash at the end of a line continues it: here with an empty line.
                let end = if value.ends_with('\\') { "\\\n" } else { "" };
                writeln!(f, "{key}={value}{end}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslashes_at_the_end_of_a_value_stay() {
        let file = UnitFile::parse("[A]\nB=c\\\\\\\n\nD=e\n").unwrap();
        let value = |file: &UnitFile| file.value("A", "B").map(|entry| entry.value.clone());
        let before = value(&file).unwrap();
        assert!(before.ends_with('\\'), "{before}");
        let again = UnitFile::parse(&file.to_string()).unwrap();
        assert_eq!(value(&again), Some(before));
        assert_eq!(again.to_string(), file.to_string());
    }

    #[test]
    fn sections_entries_comments_and_continued_lines() {
        let text = "# first\n[Unit]\nDescription = a  b \n; no\n\n[Container]\nExec=one \\\n# between\n  two \\\nthree\nVolume=\n";
        let file = UnitFile::parse(text).unwrap();
        let entry = file.value("Unit", "Description").unwrap();
        assert_eq!((entry.value.as_str(), entry.line.number), ("a  b", 3));
        let entry = file.value("Container", "Exec").unwrap();
        assert_eq!((entry.value.as_str(), entry.line.number), ("one  two  three", 7));
        assert_eq!(file.value("Container", "Volume"), None);
        let again = UnitFile::parse(&file.to_string()).unwrap();
        assert_eq!(again.to_string(), file.to_string());
    }

    #[test]
    fn an_empty_value_takes_back_those_before_it() {
        let file = UnitFile::parse("[A]\nK=1\nK=\nK=2\nK=3\n").unwrap();
        let values: Vec<_> = file.values("A", "K").iter().map(|entry| &*entry.value).collect();
        assert_eq!(values, ["2", "3"]);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, error) in [
            ("A=1", SyntaxError::Outside(1)),
            ("[A]\nnothing", SyntaxError::Neither(2)),
            ("[A]\n=1", SyntaxError::Neither(2)),
            ("\n[A", SyntaxError::Section(2)),
            ("[]", SyntaxError::Section(1)),
            ("[A]\nB=\u{1}", SyntaxError::Control(2)),
        ] {
            assert_eq!(UnitFile::parse(text), Err(error), "{text:?}");
        }
        assert_eq!(UnitFile::parse(&"#".repeat(2 << 20)), Err(SyntaxError::TooLong));
    }
}
