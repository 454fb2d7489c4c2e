//! `.dockerignore`: patterns in the syntax of Go's `filepath.Match` with `**`, and exceptions.

/// Patterns of the files in a context that are left out.
#[derive(Clone, Debug, Default)]
pub struct Ignore {
    patterns: Vec<Pattern>,
}

/// A pattern that Go does not accept either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {pattern:?}: syntax error in pattern")]
pub struct IgnoreError {
    /// Line number, counted from 1.
    pub line: usize,
    /// The pattern.
    pub pattern: String,
}

#[derive(Clone, Debug)]
struct Pattern {
    exception: bool,
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    One(char),
    /// `?`: any character except a slash.
    Any,
    /// `*`: any number of characters except slashes.
    Many,
    /// `**`: any number of characters, also slashes.
    All,
    /// `**/`: any number of whole directories.
    Directories,
    /// `[…]`: a character in one of the ranges, or in none if negated.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Ignore {
    /// Parses the file's text: a pattern on each line, `!` before exceptions, `#` before comments.
    ///
    /// # Errors
    /// The first invalid pattern.
    pub fn parse(text: &str) -> Result<Self, IgnoreError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut patterns = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            // `#` begins a comment only at the very start of the line.
            let trimmed = if text.starts_with('#') { "" } else { text.trim() };
            let (exception, pattern) = match trimmed.strip_prefix('!') {
                Some(rest) => (true, rest.trim()),
                None => (false, trimmed),
            };
            let failed = || IgnoreError {
                line,
                pattern: trimmed.to_owned(),
            };
            if exception && pattern.is_empty() {
                return Err(failed());
            }
            let clean = clean(pattern);
            if clean.is_empty() {
                continue;
            }
            patterns.push(Pattern {
                exception,
                tokens: tokens(&clean).ok_or_else(failed)?,
            });
        }
        Ok(Self { patterns })
    }

    /// True if the file is left out: the last pattern that matches the file or a directory on the way to it
    /// decides. The path is relative to the context, with slashes.
    #[must_use]
    pub fn excludes(&self, path: &str) -> bool {
        let path = clean(path);
        let ends: Vec<_> = path
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([path.len()])
            .collect();
        let mut excluded = false;
        for pattern in &self.patterns {
            // Skip the match of a pattern that would not change the result.
            if pattern.exception == excluded && ends.iter().any(|end| pattern.matches(&path[..*end])) {
                excluded = !pattern.exception;
            }
        }
        excluded
    }

    /// True if an exception may select files in an excluded directory, which must then be searched.
    #[must_use]
    pub fn has_exceptions(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.exception)
    }
}

/// Cleans a path as Go's `filepath.Clean` does, within the context: removes `.`, `..`, and doubled, leading or
/// trailing slashes.
fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn tokens(pattern: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        tokens.push(match next {
            '*' if chars.next_if_eq(&'*').is_some() => {
                while chars.next_if_eq(&'*').is_some() {}
                if chars.next_if_eq(&'/').is_some() {
                    Token::Directories
                } else {
                    Token::All
                }
            }
            '*' => Token::Many,
            '?' => Token::Any,
            '\\' => Token::One(chars.next()?),
            '[' => class(&mut chars)?,
            other => Token::One(other),
        });
    }
    Some(tokens)
}

/// Parses a class after its `[`: ranges up to `]`, at least one.
fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Token> {
    let negated = chars.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && chars.next_if_eq(&']').is_some() {
            return Some(Token::Class { negated, ranges });
        }
        let low = member(chars)?;
        let high = if chars.next_if_eq(&'-').is_some() {
            member(chars)?
        } else {
            low
        };
        ranges.push((low, high));
    }
}

fn member(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match chars.next()? {
        '\\' => chars.next(),
        '-' | ']' => None,
        other => Some(other),
    }
}

impl Pattern {
    /// Matches in time proportional to both lengths. A state is the index of the token that comes next; `inside`
    /// marks states where `**/` is in the middle of a directory's name.
    fn matches(&self, text: &str) -> bool {
        let end = self.tokens.len();
        let mut now = vec![false; end + 1];
        let mut inside = vec![false; end + 1];
        now[0] = true;
        self.skip(&mut now);
        for next in text.chars() {
            let (mut then, mut still) = (vec![false; end + 1], vec![false; end + 1]);
            for at in 0..end {
                let enters = now[at] && self.tokens[at] == Token::Directories;
                if enters || inside[at] {
                    still[at] = true;
                    then[at + 1] |= next == '/';
                }
                if !now[at] {
                    continue;
                }
                match &self.tokens[at] {
                    Token::One(wanted) => then[at + 1] |= *wanted == next,
                    Token::Any => then[at + 1] |= next != '/',
                    Token::Many => then[at] |= next != '/',
                    Token::All => then[at] = true,
                    Token::Directories => {}
                    Token::Class { negated, ranges } => {
                        let within = ranges.iter().any(|(low, high)| (low..=high).contains(&&next));
                        then[at + 1] |= within != *negated && next != '/';
                    }
                }
            }
            self.skip(&mut then);
            (now, inside) = (then, still);
        }
        now[end]
    }

    /// Adds the states that follow tokens which may match the empty text.
    fn skip(&self, states: &mut [bool]) {
        for (at, token) in self.tokens.iter().enumerate() {
            if states[at] && matches!(token, Token::Many | Token::All | Token::Directories) {
                states[at + 1] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, path, excluded) in [
            ("a", "a", true),
            ("a", "a/b/c", true),
            ("a", "b/a", false),
            ("/a", "a", true),
            ("./a/", "a/x", true),
            ("*.txt", "a.txt", true),
            ("*.txt", "d/a.txt", false),
            ("*/a", "d/a", true),
            ("*/a", "d/e/a", false),
            ("**/a", "a", true),
            ("**/a", "d/e/a", true),
            ("**/a", "d/ba", false),
            ("d/**", "d/e/f", true),
            ("d/**", "d", false),
            ("d/**/f", "d/f", true),
            ("d/**/f", "d/e/e/f", true),
            ("**", "anything/at/all", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("a[\\]]", "a]", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a/../b", "b", true),
            (".", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(
                Ignore::parse(pattern).unwrap().excludes(path),
                excluded,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn the_last_match_decides() {
        let ignore = Ignore::parse("# comment\n*\n!src\nsrc/*.log\n!src/keep.log\n\n").unwrap();
        let excluded = |path: &str| ignore.excludes(path);
        assert_eq!(
            ["a", "src", "src/a", "src/a.log", "src/keep.log"].map(excluded),
            [true, false, false, true, false]
        );
        assert!(ignore.has_exceptions());
        assert!(!Ignore::parse(" #x\n").unwrap().excludes("y"));
        assert!(Ignore::parse(" #x\n").unwrap().excludes("#x"));
    }

    #[test]
    fn no_patterns() {
        for bad in ["[", "[a", "[]", "a\\", "[a-]", "[-a]", "!"] {
            let error = Ignore::parse(&format!("ok\n{bad}")).unwrap_err();
            assert_eq!(
                error,
                IgnoreError {
                    line: 2,
                    pattern: bad.into()
                }
            );
        }
    }
}
