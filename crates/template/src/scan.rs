//! Scanner: a template as text and actions, and actions as words.

use crate::TemplateError;
use serde_json::Number;

/// Word of an action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// The dot, `.`.
    Dot,
    /// A field, `.Name`.
    Field(String),
    /// A variable, `$` or `$name`.
    Variable(String),
    /// A keyword, a constant or a function.
    Name(String),
    Text(String),
    Number(Number),
    Open,
    Close,
    Pipe,
    Comma,
    /// The sign `:=`.
    Declare,
    /// The sign `=`.
    Assign,
}

/// Word and its place.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    /// Number of its first character, from 1.
    pub(crate) at: usize,
    /// True if it follows the word before it directly.
    pub(crate) close: bool,
    pub(crate) word: Word,
}

/// Piece of a template.
#[derive(Debug)]
pub(crate) enum Piece {
    Text(String),
    /// Words of an action, and the character where it begins.
    Action(usize, Vec<Token>),
}

/// Cuts a template into text and actions, without comments, and without the space that `{{-` and `-}}` remove.
pub(crate) fn scan(template: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut trims = false;
    let mut from = 0;
    while let Some(length) = template[from..].find("{{") {
        let start = from + length;
        let inside = start + 2;
        let left = takes_left(&template[inside..]);
        push_text(&mut pieces, &template[from..start], trims, left);
        let at = character(template, start);
        let body = if left { inside + 1 } else { inside };
        let (words, end) = action(template, body, at)?;
        if let Some(words) = words {
            pieces.push(Piece::Action(at, words));
        }
        trims = template[body..end].ends_with('-') && template[..end - 1].ends_with([' ', '\t', '\r', '\n']);
        from = end + 2;
    }
    push_text(&mut pieces, &template[from..], trims, false);
    Ok(pieces)
}

/// True for `{{- `, which removes the space before it. A minus without a space after it belongs to a number.
fn takes_left(inside: &str) -> bool {
    inside.starts_with('-') && inside[1..].starts_with([' ', '\t', '\r', '\n'])
}

fn push_text(pieces: &mut Vec<Piece>, text: &str, left: bool, right: bool) {
    const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
    let text = if left {
        text.trim_start_matches(SPACE)
    } else {
        text
    };
    let text = if right { text.trim_end_matches(SPACE) } else { text };
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// Returns the number of the character at a byte, from 1.
fn character(template: &str, byte: usize) -> usize {
    template[..byte].chars().count() + 1
}

/// Returns the words from a place within an action up to its `}}`, and the place of that; `None` for a comment.
fn action(template: &str, from: usize, at: usize) -> Result<(Option<Vec<Token>>, usize), TemplateError> {
    let begins = from + (template[from..].len() - template[from..].trim_start().len());
    if template[begins..].starts_with("/*") {
        let endless = TemplateError::Endless { at, what: "comment" };
        let end = begins + 2 + template[begins + 2..].find("*/").ok_or(endless)? + 2;
        let rest = template[end..].trim_start_matches([' ', '\t', '\r', '\n', '-']);
        let close = template.len() - rest.len();
        if !rest.starts_with("}}") {
            return Err(TemplateError::Unclosed { at });
        }
        return Ok((None, close));
    }
    let mut words: Vec<Token> = Vec::new();
    let mut place = from;
    let mut close = false;
    loop {
        let rest = &template[place..];
        let Some(first) = rest.chars().next() else {
            return Err(TemplateError::Unclosed { at });
        };
        if rest.starts_with("}}") {
            return Ok((Some(words), place));
        }
        if first.is_whitespace() {
            place += first.len_utf8();
            close = false;
            continue;
        }
        if rest.starts_with("-}}") && !close {
            return Ok((Some(words), place + 1));
        }
        let here = character(template, place);
        let (word, length) = word(rest, here)?;
        let token = Token {
            at: here,
            close,
            word,
        };
        words.push(token);
        place += length;
        close = true;
    }
}

/// Returns the word that a text begins with, and its length in bytes.
fn word(rest: &str, at: usize) -> Result<(Word, usize), TemplateError> {
    let unexpected = |found: &str| TemplateError::Unexpected {
        at,
        found: format!("{found:?}"),
    };
    let first = rest.chars().next().unwrap_or_default();
    let name = |from: usize| {
        rest[from..]
            .find(|c| !is_letter(c))
            .map_or(rest.len(), |to| from + to)
    };
    Ok(match first {
        '(' => (Word::Open, 1),
        ')' => (Word::Close, 1),
        '|' => (Word::Pipe, 1),
        ',' => (Word::Comma, 1),
        '=' => (Word::Assign, 1),
        ':' if rest.starts_with(":=") => (Word::Declare, 2),
        '$' => (Word::Variable(rest[..name(1)].to_owned()), name(1)),
        '.' if rest[1..].starts_with(is_letter) && !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
            (Word::Field(rest[1..name(1)].to_owned()), name(1))
        }
        '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => (Word::Dot, 1),
        '"' | '`' | '\'' => quoted(rest, first, at)?,
        '0'..='9' | '+' | '-' | '.' => {
            let end = rest[1..]
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_')))
                .map_or(rest.len(), |to| to + 1);
            let number = number(&rest[..end]).ok_or_else(|| unexpected(&rest[..end]))?;
            (Word::Number(number), end)
        }
        first if is_letter(first) => (Word::Name(rest[..name(0)].to_owned()), name(0)),
        other => return Err(unexpected(other.encode_utf8(&mut [0; 4]))),
    })
}

fn is_letter(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn number(text: &str) -> Option<Number> {
    let plain = text.replace('_', "");
    let unsigned = plain.trim_start_matches(['+', '-']);
    let whole = match unsigned.get(..2) {
        Some("0x" | "0X") => i64::from_str_radix(&unsigned[2..], 16).ok(),
        Some("0o" | "0O") => i64::from_str_radix(&unsigned[2..], 8).ok(),
        Some("0b" | "0B") => i64::from_str_radix(&unsigned[2..], 2).ok(),
        _ => unsigned.parse().ok(),
    };
    match whole {
        Some(whole) if plain.starts_with('-') => Some(Number::from(-whole)),
        Some(whole) => Some(Number::from(whole)),
        None => plain.parse().ok().and_then(Number::from_f64),
    }
}

/// Parses a string in one of Go's three kinds of quotes; a character becomes its number.
fn quoted(rest: &str, quote: char, at: usize) -> Result<(Word, usize), TemplateError> {
    let endless = TemplateError::Endless { at, what: "string" };
    if quote == '`' {
        let end = 1 + rest[1..].find('`').ok_or(endless)?;
        return Ok((Word::Text(rest[1..end].to_owned()), end + 1));
    }
    let mut text = String::new();
    let mut letters = rest.char_indices().skip(1);
    while let Some((index, letter)) = letters.next() {
        match letter {
            '\n' => break,
            letter if letter == quote => {
                let word = match text.chars().next() {
                    Some(c) if quote == '\'' => Word::Number(Number::from(u32::from(c))),
                    _ => Word::Text(text),
                };
                return Ok((word, index + 1));
            }
            '\\' => text.push(escape(&mut letters).ok_or_else(|| TemplateError::Unexpected {
                at,
                found: "a string with an unknown escape".to_owned(),
            })?),
            letter => text.push(letter),
        }
    }
    Err(endless)
}

/// Decodes an escape after the backslash.
fn escape(letters: &mut impl Iterator<Item = (usize, char)>) -> Option<char> {
    let digits = match letters.next()?.1 {
        'n' => return Some('\n'),
        't' => return Some('\t'),
        'r' => return Some('\r'),
        'a' => return Some('\x07'),
        'b' => return Some('\x08'),
        'f' => return Some('\x0c'),
        'v' => return Some('\x0b'),
        same @ ('\\' | '"' | '\'') => return Some(same),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let text: String = letters.take(digits).map(|(_, letter)| letter).collect();
    char::from_u32(u32::from_str_radix(&text, 16).ok()?)
}
