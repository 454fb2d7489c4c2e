//! Go's `filepath.Match` for a single name: wildcards in `COPY` and `ADD`.

/// A pattern that Go does not accept either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}: syntax error in pattern")]
pub struct GlobError(pub String);

enum Token {
    One(char),
    Any,
    Many,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// True if a name, which must not contain a slash, matches the pattern: `*`, `?`, `[a-z]`, `[^a-z]`, and a
/// backslash before a literal character.
///
/// # Errors
/// [`GlobError`].
pub fn matches(pattern: &str, name: &str) -> Result<bool, GlobError> {
    let tokens = tokens(pattern).ok_or_else(|| GlobError(pattern.to_owned()))?;
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut here) = (0, 0);
    // Position after the last star in the pattern, and the position in the name where that star ends so far.
    let mut star = None;
    loop {
        match (tokens.get(at), name.get(here)) {
            (None, None) => return Ok(true),
            (Some(Token::Many), _) => {
                star = Some((at + 1, here));
                at += 1;
                continue;
            }
            (Some(token), Some(letter)) if token.fits(*letter) => {
                (at, here) = (at + 1, here + 1);
                continue;
            }
            _ => {}
        }
        match star {
            Some((behind, from)) if from < name.len() => {
                star = Some((behind, from + 1));
                (at, here) = (behind, from + 1);
            }
            _ => return Ok(false),
        }
    }
}

/// True if a path contains a wildcard. Only a path without one must match a file.
#[must_use]
pub fn is_pattern(path: &str) -> bool {
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '*' | '?' | '[' => return true,
            _ => {}
        }
    }
    false
}

impl Token {
    fn fits(&self, letter: char) -> bool {
        match self {
            Self::One(one) => *one == letter,
            Self::Any => true,
            Self::Many => false,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&letter)) != *negated
            }
        }
    }
}

fn tokens(pattern: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        tokens.push(match next {
            '*' => Token::Many,
            '?' => Token::Any,
            '\\' => Token::One(chars.next()?),
            '[' => {
                let negated = chars.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                while ranges.is_empty() || chars.next_if_eq(&']').is_none() {
                    let low = member(&mut chars)?;
                    let high = match chars.next_if_eq(&'-') {
                        Some(_) => member(&mut chars)?,
                        None => low,
                    };
                    ranges.push((low, high));
                }
                Token::Class { negated, ranges }
            }
            other => Token::One(other),
        });
    }
    Some(tokens)
}

fn member(chars: &mut impl Iterator<Item = char>) -> Option<char> {
    match chars.next()? {
        '-' | ']' => None,
        '\\' => chars.next(),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_pattern, matches};

    #[test]
    fn as_go_has_it() {
        for (pattern, name, expected) in [
            ("*.txt", "a.txt", true),
            ("*.txt", "a.tx", false),
            ("hom?.txt", "home.txt", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("arr[[]0].txt", "arr[0].txt", true),
            ("[a-c]", "b", true),
            ("[^a-c]", "b", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), Ok(expected), "{pattern} {name}");
        }
        for bad in ["[", "[]", "a\\", "[a-]", "[-a]"] {
            assert!(matches(bad, "x").is_err(), "{bad}");
        }
    }

    #[test]
    fn patterns() {
        for (path, expected) in [
            ("a/b*", true),
            ("a?", true),
            ("[ab]", true),
            ("a/b", false),
            ("a\\*", false),
            ("a\\\\*", true),
            ("a]", false),
        ] {
            assert_eq!(is_pattern(path), expected, "{path}");
        }
    }
}
