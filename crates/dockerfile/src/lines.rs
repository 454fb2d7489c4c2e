//! From text to logical lines: directives, comments, continuations and here-documents.

use crate::error::{ParseError, Reason};
use crate::heredoc::{self, Heredoc};

/// Directives in the comments at the top of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directives {
    /// `# syntax=`: image of another frontend that should parse the file.
    pub syntax: Option<String>,
    /// `# escape=`: a backslash, or a backtick.
    pub escape: char,
    /// `# check=`: warnings to leave out.
    pub check: Option<String>,
}

impl Default for Directives {
    fn default() -> Self {
        Self {
            syntax: None,
            escape: '\\',
            check: None,
        }
    }
}

/// Text of an instruction, joined from its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogicalLine {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) text: String,
    pub(crate) heredocs: Vec<Heredoc>,
}

/// Splits a file into directives and logical lines.
pub(crate) fn split(text: &str) -> Result<(Directives, Vec<LogicalLine>), ParseError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let directives = directives(text)?;
    let mut lines = Lines {
        lines: text.lines().collect(),
        next: 0,
        escape: directives.escape,
    };
    let mut logical = Vec::new();
    while let Some(line) = lines.logical()? {
        logical.push(line);
    }
    match logical.is_empty() {
        true => Err(ParseError {
            line: lines.lines.len().max(1),
            reason: Reason::Empty,
        }),
        false => Ok((directives, logical)),
    }
}

/// Parses the directives, which end at the first line that is not a directive.
fn directives(text: &str) -> Result<Directives, ParseError> {
    let mut found = Directives::default();
    let mut seen = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim().strip_prefix('#') else {
            break;
        };
        let Some((key, value)) = comment.split_once('=') else {
            break;
        };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if !matches!(&*key, "syntax" | "escape" | "check") {
            break;
        }
        let failed = |reason| Err(ParseError { line: number, reason });
        if seen.contains(&key) {
            return failed(Reason::DuplicateDirective(key));
        }
        match &*key {
            "syntax" => found.syntax = Some(value.to_owned()),
            "check" => found.check = Some(value.to_owned()),
            _ => match value {
                "\\" => found.escape = '\\',
                "`" => found.escape = '`',
                _ => return failed(Reason::Escape(value.to_owned())),
            },
        }
        seen.push(key);
    }
    Ok(found)
}

struct Lines<'a> {
    lines: Vec<&'a str>,
    next: usize,
    escape: char,
}

impl<'a> Lines<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let line = self.lines.get(self.next).copied();
        self.next += usize::from(line.is_some());
        line
    }

    /// Reads the next instruction with its here-documents.
    fn logical(&mut self) -> Result<Option<LogicalLine>, ParseError> {
        loop {
            let Some(line) = self.take() else { return Ok(None) };
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let first = self.next;
            let (head, mut continues) = continuation(line, self.escape);
            let mut text = head.to_owned();
            while continues {
                let Some(line) = self.take() else { break };
                // Comments do not end a continuation; neither do empty lines, for compatibility with old files.
                let start = line.trim_start();
                if start.is_empty() || start.starts_with('#') {
                    continue;
                }
                let (part, more) = continuation(line, self.escape);
                text.push_str(part);
                continues = more;
            }
            if text.trim().is_empty() {
                continue;
            }
            let heredocs = self.heredocs(&text, first)?;
            let text = text.trim().to_owned();
            return Ok(Some(LogicalLine {
                first,
                last: self.next,
                text,
                heredocs,
            }));
        }
    }

    fn heredocs(&mut self, text: &str, first: usize) -> Result<Vec<Heredoc>, ParseError> {
        let mut found = heredoc::announced(text, self.escape);
        for heredoc in &mut found {
            loop {
                let Some(line) = self.take() else {
                    return Err(ParseError {
                        line: first,
                        reason: Reason::Heredoc,
                    });
                };
                let end = if heredoc.chomp {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                if end == heredoc.name {
                    break;
                }
                heredoc.content.push_str(if heredoc.chomp { end } else { line });
                heredoc.content.push('\n');
            }
        }
        Ok(found)
    }
}

/// Removes the continuation mark of a line; returns the line and whether there was a mark: the escape character at
/// its end, ignoring blanks. A doubled escape character is an escaped one and not a mark.
fn continuation(line: &str, escape: char) -> (&str, bool) {
    let trimmed = line.trim_end_matches([' ', '\t']);
    match trimmed.strip_suffix(escape) {
        Some(head) if !head.ends_with(escape) => (head, true),
        _ => (line, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(usize, usize, String)> {
        let (_, lines) = split(text).unwrap();
        lines
            .into_iter()
            .map(|line| (line.first, line.last, line.text))
            .collect()
    }

    #[test]
    fn continuations() {
        let text = "\n# c\nRUN a \\\n  b \\  \n# comment\n\n  c\n  CMD d\\\\\nENV x \\";
        let expected = [(3, 7, "RUN a   b   c"), (8, 8, "CMD d\\\\"), (9, 9, "ENV x")];
        assert_eq!(
            texts(text),
            expected.map(|(first, last, text)| (first, last, text.to_owned()))
        );
        assert_eq!(
            texts("# escape=`\nRUN a `\n b\nRUN c\\"),
            [(2, 3, "RUN a  b".into()), (4, 4, "RUN c\\".into())]
        );
        assert_eq!(texts("\u{feff}FROM a\r\nRUN b\r\n").len(), 2);
    }

    #[test]
    fn directives_at_the_top_only() {
        let (found, _) = split("# Syntax = docker/dockerfile:1\n#check=skip=all\n#escape=`\nFROM a").unwrap();
        assert_eq!(found.syntax.as_deref(), Some("docker/dockerfile:1"));
        assert_eq!((found.escape, found.check.as_deref()), ('`', Some("skip=all")));
        for late in [
            "\n# escape=`\nFROM a",
            "# comment\n# escape=`\nFROM a",
            "# other=1\n# escape=`\nFROM a",
        ] {
            assert_eq!(split(late).unwrap().0, Directives::default(), "{late:?}");
        }
        for (bad, text) in [
            (
                "# escape=x\nFROM a",
                "dockerfile parse error on line 1: invalid ESCAPE 'x'. Must be ` or \\",
            ),
            (
                "# escape=`\n# escape=`\nFROM a",
                "dockerfile parse error on line 2: only one escape parser directive can be used",
            ),
            (
                "# only\n",
                "dockerfile parse error on line 1: file with no instructions",
            ),
            ("", "dockerfile parse error on line 1: file with no instructions"),
            (
                "FROM a\nRUN <<EOF\nx",
                "dockerfile parse error on line 2: unterminated heredoc",
            ),
        ] {
            assert_eq!(split(bad).unwrap_err().to_string(), text);
        }
    }
}
