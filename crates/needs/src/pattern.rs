//! Patterns of paths.

/// Longest path in bytes that is compared: with several wildcards the time grows with a power of it.
const MAX_PATH: usize = 1024;
/// Most wildcards in a pattern.
const MAX_WILD: usize = 6;

/// A pattern of paths: `*` stands for any text without a slash, `**` for any text, `?` for one character other than a
/// slash. `<*name>` and `<**name>` are the same with a name, and `<name>` in a pattern that is filled in is their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    One,
    Any { deep: bool, name: Option<Box<str>> },
    Filled(Box<str>),
}

/// Why a text is not a valid pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// A `<` has no `>`.
    Open,
    /// There are more wildcards than are compared in a bearable time.
    Wildcards,
}

impl std::fmt::Display for PatternError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("a `<` has no `>`"),
            Self::Wildcards => write!(f, "it has more than {MAX_WILD} wildcards"),
        }
    }
}

impl std::error::Error for PatternError {}

/// Texts of the named wildcards.
pub(crate) type Captures = Vec<(Box<str>, Vec<u8>)>;

impl Pattern {
    /// Parses a pattern that a person wrote; `<` and `>` stand for themselves. A leading slash is dropped.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        Self::read(text, false)
    }

    /// Parses a pattern of a rule.
    pub(crate) fn of_rule(text: &str) -> Result<Self, PatternError> {
        Self::read(text, true)
    }

    fn read(text: &str, named: bool) -> Result<Self, PatternError> {
        let mut rest = text.trim_start_matches('/');
        let mut parts: Vec<Part> = Vec::new();
        while let Some(first) = rest.chars().next() {
            let part = match first {
                '<' if named => {
                    let (inside, after) = rest[1..].split_once('>').ok_or(PatternError::Open)?;
                    rest = after;
                    match inside.strip_prefix('*') {
                        Some(name) => Part::Any {
                            deep: name.starts_with('*'),
                            name: Some(name.trim_start_matches('*').into()),
                        },
                        None => Part::Filled(inside.into()),
                    }
                }
                '*' => {
                    let deep = rest.starts_with("**");
                    rest = rest.trim_start_matches('*');
                    Part::Any { deep, name: None }
                }
                '?' => {
                    rest = &rest[1..];
                    Part::One
                }
                _ => {
                    let is_special = |found: char| matches!(found, '*' | '?') || named && found == '<';
                    let end = rest.find(is_special).unwrap_or(rest.len());
                    let (text, after) = rest.split_at(end);
                    rest = after;
                    Part::Text(text.as_bytes().to_vec())
                }
            };
            parts.push(part);
        }
        let wild = parts
            .iter()
            .filter(|part| matches!(part, Part::Any { .. }))
            .count();
        if wild > MAX_WILD {
            return Err(PatternError::Wildcards);
        }
        Ok(Self { parts })
    }

    /// True if a path, without its leading slash, is meant.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        self.captures(path).is_some()
    }

    /// Compares a path, and returns the texts of the named wildcards.
    pub(crate) fn captures(&self, path: &[u8]) -> Option<Captures> {
        let mut captures = Vec::new();
        (path.len() <= MAX_PATH && compare(&self.parts, path, &mut captures)).then_some(captures)
    }

    /// Fills the texts of named wildcards in.
    pub(crate) fn filled(&self, captures: &Captures) -> Self {
        let fill = |part: &Part| match part {
            Part::Filled(name) => {
                let found = captures.iter().find(|(known, _)| known == name);
                Part::Text(found.map(|(_, text)| text.clone()).unwrap_or_default())
            }
            part => part.clone(),
        };
        Self {
            parts: self.parts.iter().map(fill).collect(),
        }
    }

    /// True if a path that is meant may be below this directory.
    pub(crate) fn leads_below(&self, dir: &[u8]) -> bool {
        reaches(&self.parts, &[dir, b"/"].concat())
    }

    /// Returns the text with which every path begins that is meant, and whether there is nothing else.
    pub(crate) fn prefix(&self) -> (Vec<u8>, bool) {
        let texts = self.parts.iter().map_while(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        });
        let texts: Vec<&[u8]> = texts.collect();
        (texts.concat(), texts.len() == self.parts.len())
    }
}

/// True if a longer path than this one may be meant.
fn reaches(parts: &[Part], path: &[u8]) -> bool {
    let (Some(first), Some((part, rest))) = (path.first(), parts.split_first()) else {
        return path.is_empty();
    };
    match part {
        Part::Text(text) if text.starts_with(path) => true,
        Part::Text(text) => path
            .strip_prefix(&**text)
            .is_some_and(|after| reaches(rest, after)),
        Part::One => *first != b'/' && reaches(rest, &path[1..]),
        Part::Any { deep: true, .. } => true,
        Part::Any { .. } => {
            let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
            (0..=end).any(|at| reaches(rest, &path[at..]))
        }
        // Patterns are filled in before they are asked.
        Part::Filled(_) => false,
    }
}

fn compare(parts: &[Part], path: &[u8], captures: &mut Captures) -> bool {
    let Some((part, rest)) = parts.split_first() else {
        return path.is_empty();
    };
    match part {
        Part::Text(text) => path
            .strip_prefix(&**text)
            .is_some_and(|after| compare(rest, after, captures)),
        Part::One => path
            .split_first()
            .is_some_and(|(first, after)| *first != b'/' && compare(rest, after, captures)),
        Part::Any { deep, name } => {
            let most = match deep {
                true => path.len(),
                false => path.iter().position(|byte| *byte == b'/').unwrap_or(path.len()),
            };
            let held = captures.len();
            (0..=most).any(|length| {
                captures.truncate(held);
                captures.extend(name.clone().map(|name| (name, path[..length].to_vec())));
                compare(rest, &path[length..], captures)
            })
        }
        // A pattern that was not filled in means no path.
        Part::Filled(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_patterns_lead_below() {
        for (pattern, dir, leads) in [
            ("usr/lib/*/gconv/*.so", "usr", true),
            ("usr/lib/*/gconv/*.so", "usr/lib/x86_64-linux-gnu", true),
            ("usr/lib/*/gconv/*.so", "usr/lib/x/gconv", true),
            ("usr/lib/*/gconv/*.so", "usr/lib/x/perl", false),
            ("usr/lib/*/gconv/*.so", "usr/lib/x/gconv/deep", false),
            ("usr/lib/*/gconv/*.so", "usr/lib64", false),
            ("usr/lib/ssl/*", "usr/lib/ssl", true),
            ("usr/lib/ssl/*", "usr/lib/ssl3", false),
            ("usr/share/**.crt", "usr/share/a/b", true),
            ("etc/?x/y", "etc/ax", true),
            ("etc/passwd", "etc/passwd", false),
        ] {
            let found = Pattern::of_rule(pattern).unwrap().leads_below(dir.as_bytes());
            assert_eq!(found, leads, "{pattern} {dir}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, path, is_meant) in [
            ("/etc/*.conf", "etc/host.conf", true),
            ("etc/*.conf", "etc/a/host.conf", false),
            ("etc/**.conf", "etc/a/host.conf", true),
            ("usr/**", "usr/lib/x", true),
            ("usr/**", "usr", false),
            ("**/x", "a/b/x", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("<x>", "<x>", true),
            ("", "", true),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            assert_eq!(parsed.matches(path.as_bytes()), is_meant, "{pattern} {path}");
        }
        assert_eq!(Pattern::parse("*a*b*c*d*e*f*g"), Err(PatternError::Wildcards));
        assert_eq!(Pattern::of_rule("<dir"), Err(PatternError::Open));
    }

    #[test]
    fn names_are_filled_in() {
        let when = Pattern::of_rule("<**dir>/__pycache__/<*name>.*.pyc").unwrap();
        let keep = Pattern::of_rule("<dir>/<name>.py").unwrap();
        let captures = when
            .captures(b"usr/lib/python3/__pycache__/os.cpython-311.pyc")
            .unwrap();
        assert_eq!(
            keep.filled(&captures).prefix(),
            (b"usr/lib/python3/os.py".to_vec(), true)
        );
    }
}
