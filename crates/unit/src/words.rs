//! Words as systemd takes them in `ExecStart=` and its like: systemd.service(5), COMMAND LINES.

/// Reason why a value cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// A quotation mark is not closed.
    #[error("a quotation mark is not closed")]
    Quote,
    /// A backslash precedes a character that does not form an escape sequence with it.
    #[error("an unknown escape sequence")]
    Escape,
    /// The value has a NUL character, which no argument can hold.
    #[error("a NUL character")]
    Nul,
}

/// Quotes a word in which systemd still replaces specifiers (`%n`) and variables (`$A`).
#[must_use]
pub fn quote(word: &str) -> String {
    let special = |letter: char| letter.is_whitespace() || letter.is_control() || "\"'\\;".contains(letter);
    if !word.is_empty() && !word.contains(special) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            letter if letter.is_control() => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    text.push_str(&format!("\\x{byte:02x}"));
                }
            }
            letter => text.push(letter),
        }
    }
    text + "\""
}

/// Quotes a word that systemd leaves unchanged.
#[must_use]
pub fn quote_literal(word: &str) -> String {
    quote(&word.replace('%', "%%").replace('$', "$$"))
}

/// Splits a value into words. Specifiers and variables stay unchanged.
///
/// # Errors
/// [`WordsError`].
pub fn split(text: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quoted = None;
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match (quoted, letter) {
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, '"' | '\'') => {
                quoted = Some(letter);
                word.get_or_insert_default();
            }
            (Some(mark), letter) if letter == mark => quoted = None,
            (_, '\0') => return Err(WordsError::Nul),
            (_, '\\') => rest = escape(rest, word.get_or_insert_default())?,
            (_, letter) => {
                let bytes = letter.encode_utf8(&mut [0; 4]).len();
                let mut buffer = [0; 4];
                letter.encode_utf8(&mut buffer);
                word.get_or_insert_default().extend(&buffer[..bytes]);
            }
        }
    }
    if quoted.is_some() {
        return Err(WordsError::Quote);
    }
    words.extend(word);
    words
        .into_iter()
        .map(|word| String::from_utf8(word).map_err(|_| WordsError::Escape))
        .collect()
}

/// Decodes an escape sequence after its backslash; returns the text after it.
fn escape<'a>(rest: &'a str, word: &mut Vec<u8>) -> Result<&'a str, WordsError> {
    let letter = rest.chars().next().ok_or(WordsError::Escape)?;
    let after = &rest[letter.len_utf8()..];
    let plain = match letter {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        's' => b' ',
        't' => b'\t',
        'v' => 11,
        '\\' | '"' | '\'' | ';' => letter as u8,
        'x' => return number(after, 2, 16, word),
        'u' => return number(after, 4, 16, word),
        'U' => return number(after, 8, 16, word),
        '0'..='7' => return number(rest, 3, 8, word),
        _ => return Err(WordsError::Escape),
    };
    word.push(plain);
    Ok(after)
}

fn number<'a>(text: &'a str, length: usize, radix: u32, word: &mut Vec<u8>) -> Result<&'a str, WordsError> {
    let (digits, rest) = text.split_at_checked(length).ok_or(WordsError::Escape)?;
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(WordsError::Escape);
    }
    let value = u32::from_str_radix(digits, radix).map_err(|_| WordsError::Escape)?;
    match (length, u8::try_from(value)) {
        (_, Ok(0)) => return Err(WordsError::Escape),
        // These are bytes, several of which may form a letter.
        (2 | 3, Ok(byte)) => word.push(byte),
        _ => {
            let letter = char::from_u32(value).ok_or(WordsError::Escape)?;
            word.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_apart() {
        for (text, words) in [
            ("a  b\tc", &["a", "b", "c"][..]),
            ("'a b' \"c d\"e", &["a b", "c de"]),
            (
                r#"a\x20b \101 \u00e4 "\"" '' \s"#,
                &["a b", "A", "ä", "\"", "", " "],
            ),
            ("%n ${A} $B", &["%n", "${A}", "$B"]),
            ("", &[]),
        ] {
            assert_eq!(split(text).unwrap(), words, "{text}");
        }
        for (text, error) in [
            ("'a", WordsError::Quote),
            ("a\\", WordsError::Escape),
            (r"\q", WordsError::Escape),
            (r"\x0", WordsError::Escape),
            (r"\x00", WordsError::Escape),
            (r"\xff", WordsError::Escape),
            ("a\0b", WordsError::Nul),
            ("'\0'", WordsError::Nul),
        ] {
            assert_eq!(split(text), Err(error), "{text}");
        }
    }

    #[test]
    fn what_is_quoted_comes_back() {
        for word in ["", "a", "a b", "\"'\\", ";", "ä\n\t\u{1}\u{85}", "x=y z"] {
            assert_eq!(split(&quote(word)).unwrap(), [word], "{word:?}");
        }
        assert_eq!(quote("plain/word-1:%n"), "plain/word-1:%n");
        assert_eq!(quote_literal("100% $HOME"), "\"100%% $$HOME\"");
    }
}
