/// Reason why a text is not a `config.json`.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The text is not JSON, or a property has the wrong type.
    #[error("config.json: {0}")]
    Json(#[from] JsonError),
    /// This crate does not know the version.
    #[error("config.json: ociVersion {0:?} is not supported: tote knows 1.0.0 up to 1.3.x")]
    Version(String),
}

/// Longest version shown, in characters; longer texts are cut.
const LONGEST_VERSION: usize = 32;

impl ParseError {
    pub(crate) fn version(found: &str) -> Self {
        Self::Version(found.chars().take(LONGEST_VERSION).collect())
    }
}

/// Fault of a document, as one line of bounded length: the parser repeats parts of its input, which may be megabytes
/// of a stranger's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(String);

/// Characters that are kept of the beginning and of the end; the end is where the parser says what it expects and in
/// which line.
const HEAD: usize = 160;
const TAIL: usize = 160;

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        Self(one_line(&error.to_string()))
    }
}

fn one_line(text: &str) -> String {
    let tail = text.char_indices().rev().nth(TAIL - 1).map_or(0, |(at, _)| at);
    let head = text.char_indices().nth(HEAD).map_or(text.len(), |(at, _)| at);
    let mut line = String::with_capacity(HEAD + TAIL);
    let mut add = |part: &str| {
        for letter in part.chars() {
            if letter.is_control() {
                line.extend(letter.escape_default());
            } else {
                line.push(letter);
            }
        }
    };
    if head < tail {
        add(&text[..head]);
        add(" … ");
        add(&text[tail..]);
    } else {
        add(text);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_many_lines_become_one() {
        assert_eq!(one_line("a\nb\u{7f}"), "a\\nb\\u{7f}");
        assert_eq!(one_line(""), "");
        let long = format!("unknown variant `{}`, expected x at line 1", "é".repeat(1 << 20));
        let line = one_line(&long);
        assert!(line.starts_with("unknown variant `é") && line.ends_with("expected x at line 1"));
        assert_eq!(line.chars().count(), HEAD + TAIL + 3);
        let just = "x".repeat(HEAD + TAIL);
        assert_eq!(one_line(&just), just);
    }
}
