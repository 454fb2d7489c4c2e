//! Expansion of variables, quotes and escapes in the words of an instruction, by the rules of docker's own shell
//! lexer.

use crate::pattern::Pattern;
use std::iter::Peekable;
use std::str::Chars;

/// Why a word cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// A quote without an end.
    #[error("unexpected end of statement while looking for matching {0}-quote")]
    Quote(&'static str),
    /// `${` without `}`.
    #[error("syntax error: missing '}}'")]
    Brace,
    /// `${}` and the like.
    #[error("syntax error: bad substitution")]
    Substitution,
    /// An unknown operator after the name. Known are `:-`, `:+`, `:?`, `-`, `+`, `?`, `#`, `%` and `/`.
    #[error("unsupported modifier ({0}) in substitution")]
    Modifier(String),
    /// `${name:?message}` for a variable that is not set.
    #[error("{name}: {message}")]
    Unset {
        /// The variable.
        name: String,
        /// The message in the Dockerfile.
        message: String,
    },
    /// Substitutions nested more deeply than the limit.
    #[error("syntax error: substitutions are nested too deeply")]
    Depth,
    /// The result exceeds a length that no instruction needs.
    #[error("the expanded text is larger than {} bytes", LENGTH_MAX)]
    Length,
}

/// Replaces `$name` and `${name…}` and removes quotes and escapes. A name that `lookup` does not know has an empty
/// value.
///
/// # Errors
/// The syntax is wrong, or a variable is not set although it must be.
pub fn expand(
    word: &str,
    escape: char,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<String, ExpandError> {
    Ok(expanded(word, escape, lookup)?.text)
}

/// Expands as [`expand`] does, and splits the result at blanks outside of quotes, also at blanks in values: `EXPOSE
/// $PORTS`.
///
/// # Errors
/// Those of [`expand`].
pub fn expand_words(
    text: &str,
    escape: char,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<String>, ExpandError> {
    Ok(expanded(text, escape, lookup)?.words)
}

/// Maximum length of a result in bytes: a Dockerfile may come from an attacker.
const LENGTH_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 64;

fn expanded(
    text: &str,
    escape: char,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Expanded, ExpandError> {
    let mut expander = Expander {
        chars: text.chars().peekable(),
        escape,
        lookup,
        depth: 0,
    };
    let mut out = expander.until(None, false)?;
    out.end_word();
    Ok(out)
}

/// An expanded text, and its words.
#[derive(Default)]
struct Expanded {
    text: String,
    words: Vec<String>,
    word: String,
    /// True if a word has begun, which may be an empty quoted one.
    in_word: bool,
}

impl Expanded {
    /// Appends characters that never separate words.
    fn quoted(&mut self, text: &str) -> Result<(), ExpandError> {
        if self.text.len() + text.len() > LENGTH_MAX {
            return Err(ExpandError::Length);
        }
        self.text.push_str(text);
        self.word.push_str(text);
        self.in_word = true;
        Ok(())
    }

    fn plain(&mut self, text: &str) -> Result<(), ExpandError> {
        let mut bytes = [0; 4];
        for next in text.chars() {
            if next.is_whitespace() {
                self.text.push(next);
                self.end_word();
            } else {
                self.quoted(next.encode_utf8(&mut bytes))?;
            }
        }
        Ok(())
    }

    fn end_word(&mut self) {
        if std::mem::take(&mut self.in_word) {
            self.words.push(std::mem::take(&mut self.word));
        }
    }
}

struct Expander<'a> {
    chars: Peekable<Chars<'a>>,
    escape: char,
    lookup: &'a dyn Fn(&str) -> Option<String>,
    depth: usize,
}

impl Expander<'_> {
    /// Reads up to the character `stop`, which is consumed, or to the end. With `raw` escapes are kept, for
    /// patterns.
    fn until(&mut self, stop: Option<char>, raw: bool) -> Result<Expanded, ExpandError> {
        let mut out = Expanded::default();
        let mut bytes = [0; 4];
        while let Some(next) = self.chars.next() {
            match next {
                _ if Some(next) == stop => return Ok(out),
                '\'' => out.quoted(&self.single_quoted()?)?,
                '"' => out.quoted(&self.double_quoted()?)?,
                '$' => out.plain(&self.dollar()?)?,
                _ if next == self.escape => {
                    if raw {
                        out.quoted("\\")?;
                    }
                    if let Some(escaped) = self.chars.next() {
                        out.quoted(escaped.encode_utf8(&mut bytes))?;
                    }
                }
                _ => out.plain(next.encode_utf8(&mut bytes))?,
            }
        }
        if stop.is_some() {
            Err(ExpandError::Brace)
        } else {
            Ok(out)
        }
    }

    fn single_quoted(&mut self) -> Result<String, ExpandError> {
        let mut text = String::new();
        for next in self.chars.by_ref() {
            match next {
                '\'' => return Ok(text),
                other => text.push(other),
            }
        }
        Err(ExpandError::Quote("single"))
    }

    fn double_quoted(&mut self) -> Result<String, ExpandError> {
        let mut text = String::new();
        while let Some(next) = self.chars.next() {
            match next {
                '"' => return Ok(text),
                '$' => text.push_str(&self.dollar()?),
                _ if next == self.escape => match self.chars.next() {
                    Some(escaped) if escaped == '"' || escaped == '$' || escaped == self.escape => {
                        text.push(escaped)
                    }
                    // The escape character has no effect before other characters, and is kept.
                    Some(other) => text.extend([self.escape, other]),
                    None => break,
                },
                other => text.push(other),
            }
            if text.len() > LENGTH_MAX {
                return Err(ExpandError::Length);
            }
        }
        Err(ExpandError::Quote("double"))
    }

    /// Reads a substitution after its dollar sign.
    fn dollar(&mut self) -> Result<String, ExpandError> {
        if self.chars.next_if_eq(&'{').is_none() {
            let name = self.name();
            return Ok(if name.is_empty() {
                "$".to_owned()
            } else {
                (self.lookup)(&name).unwrap_or_default()
            });
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(ExpandError::Depth);
        }
        let value = self.braced();
        self.depth -= 1;
        value
    }

    fn braced(&mut self) -> Result<String, ExpandError> {
        match self.chars.peek() {
            None => return Err(ExpandError::Brace),
            Some('{' | '}' | ':') => return Err(ExpandError::Substitution),
            Some(_) => {}
        }
        let name = self.name();
        let value = (self.lookup)(&name);
        match self.chars.next() {
            None => Err(ExpandError::Brace),
            Some('}') => Ok(value.unwrap_or_default()),
            Some(':') => {
                let set = value.filter(|value| !value.is_empty());
                match self.chars.next() {
                    None => Err(ExpandError::Brace),
                    Some(modifier @ ('-' | '+' | '?')) => self.defaulted(&name, set, modifier),
                    Some(other) => Err(ExpandError::Modifier(format!(":{other}"))),
                }
            }
            Some(modifier @ ('-' | '+' | '?')) => self.defaulted(&name, value, modifier),
            Some(modifier @ ('#' | '%')) => {
                let greedy = self.chars.next_if_eq(&modifier).is_some();
                let pattern = self.until(Some('}'), true)?.text;
                Ok(trimmed(
                    &value.unwrap_or_default(),
                    &pattern,
                    modifier == '#',
                    greedy,
                ))
            }
            Some('/') => {
                let all = self.chars.next_if_eq(&'/').is_some();
                let pattern = self.until(Some('/'), true)?.text;
                let replacement = self.until(Some('}'), false)?.text;
                replaced(&value.unwrap_or_default(), &pattern, &replacement, all)
            }
            Some(other) => Err(ExpandError::Modifier(other.to_string())),
        }
    }

    fn defaulted(
        &mut self,
        name: &str,
        value: Option<String>,
        modifier: char,
    ) -> Result<String, ExpandError> {
        let word = self.until(Some('}'), false)?.text;
        match (modifier, value) {
            ('+', Some(_)) => Ok(word),
            ('+', None) => Ok(String::new()),
            (_, Some(value)) => Ok(value),
            ('-', None) => Ok(word),
            (_, None) => {
                let message = if word.is_empty() {
                    "is not allowed to be unset".to_owned()
                } else {
                    word
                };
                Err(ExpandError::Unset {
                    name: name.to_owned(),
                    message,
                })
            }
        }
    }

    /// Reads letters, digits and underscores; or a special parameter of the shell, which is a single character.
    fn name(&mut self) -> String {
        let special = |next: &char| next.is_ascii_digit() || "@*#?-$!".contains(*next);
        if let Some(special) = self.chars.next_if(special) {
            return special.to_string();
        }
        let mut name = String::new();
        while let Some(next) = self.chars.next_if(|next| *next == '_' || next.is_alphanumeric()) {
            name.push(next);
        }
        name
    }
}

fn trimmed(value: &str, pattern: &str, start: bool, greedy: bool) -> String {
    let chars: Vec<char> = value.chars().collect();
    let pattern = Pattern::parse(pattern);
    if start {
        chars[pattern.prefix(&chars, greedy).unwrap_or(0)..]
            .iter()
            .collect()
    } else {
        chars[..chars.len() - pattern.suffix(&chars, greedy).unwrap_or(0)]
            .iter()
            .collect()
    }
}

/// Replaces the first match or all; each match is as long as possible.
fn replaced(value: &str, pattern: &str, replacement: &str, all: bool) -> Result<String, ExpandError> {
    let chars: Vec<char> = value.chars().collect();
    let pattern = Pattern::parse(pattern);
    let (mut out, mut at, mut done) = (String::new(), 0, false);
    while at < chars.len() {
        match pattern
            .prefix(&chars[at..], true)
            .filter(|count| *count > 0 && (all || !done))
        {
            Some(count) => {
                out.push_str(replacement);
                at += count;
                done = true;
            }
            None => {
                out.push(chars[at]);
                at += 1;
            }
        }
        if out.len() > LENGTH_MAX {
            return Err(ExpandError::Length);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        let known = [
            ("a", "one"),
            ("empty", ""),
            ("path", "/x/y.tar.gz"),
            ("list", "1 2"),
            ("dollar", "$a"),
        ];
        known
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn as_docker() {
        for (word, text) in [
            ("$a-${a}", "one-one"),
            ("\\$a", "$a"),
            ("'$a'", "$a"),
            ("\"$a\"", "one"),
            ("\"\\$a \\\" \\n \\\\\"", "$a \" \\n \\"),
            ("$none.", "."),
            ("$", "$"),
            ("a$/b", "a$/b"),
            ("$1a", "a"),
            ("${none:-$a}", "one"),
            ("${empty:-x}${empty-x}", "x"),
            ("${a:+y}${none:+y}${empty:+y}${empty+z}", "yz"),
            ("${a:?m}${empty?m}", "one"),
            ("${none:-${none:-'d e'}}", "d e"),
            ("${path#*/}", "x/y.tar.gz"),
            ("${path##*/}", "y.tar.gz"),
            ("${path%.*}", "/x/y.tar"),
            ("${path%%.*}", "/x/y"),
            ("${path/x/z}", "/z/y.tar.gz"),
            ("${path//?/.}", "..........."),
            ("${path/\\//_}", "_x/y.tar.gz"),
            ("$dollar", "$a"),
            ("c:\\\\d", "c:\\d"),
        ] {
            assert_eq!(expand(word, '\\', &lookup).as_deref(), Ok(text), "{word}");
        }
        assert_eq!(expand("c:\\d`$a", '`', &lookup).as_deref(), Ok("c:\\d$a"));
    }

    #[test]
    fn errors() {
        for (word, error) in [
            (
                "'a",
                "unexpected end of statement while looking for matching single-quote",
            ),
            (
                "\"a",
                "unexpected end of statement while looking for matching double-quote",
            ),
            ("${a", "syntax error: missing '}'"),
            ("${", "syntax error: missing '}'"),
            ("${a:", "syntax error: missing '}'"),
            ("${a:-x", "syntax error: missing '}'"),
            ("${}", "syntax error: bad substitution"),
            ("${a:x}", "unsupported modifier (:x) in substitution"),
            ("${a^}", "unsupported modifier (^) in substitution"),
            ("${none:?}", "none: is not allowed to be unset"),
            ("${none?set $a}", "none: set one"),
        ] {
            assert_eq!(
                expand(word, '\\', &lookup).unwrap_err().to_string(),
                error,
                "{word}"
            );
        }
        assert_eq!(
            expand(&"${a:-".repeat(100), '\\', &lookup),
            Err(ExpandError::Depth)
        );
        assert_eq!(
            expand(&"x".repeat(LENGTH_MAX + 1), '\\', &lookup),
            Err(ExpandError::Length)
        );
    }

    #[test]
    fn words() {
        let words = |text: &str| expand_words(text, '\\', &lookup).unwrap();
        assert_eq!(
            words("80 $list \"$list\" a\\ b ''"),
            ["80", "1", "2", "1 2", "a b", ""]
        );
        assert!(words("$none").is_empty());
    }
}
