//! Splitting into words and removing quotes, before variables are expanded.

/// Splits at blanks outside of quotes. Quotes and escapes stay in the words.
pub(crate) fn split(text: &str, escape: char) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        match quote {
            None if next.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            None if next == '\'' || next == '"' => quote = Some(next),
            Some(open) if open == next => quote = None,
            // Single quotes have no escapes.
            None | Some('"') if next == escape => {
                word.push(next);
                if let Some(escaped) = chars.next() {
                    word.push(escaped);
                }
                continue;
            }
            _ => {}
        }
        word.push(next);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Removes quotes and escapes from a word; `None` if a quote does not end.
pub(crate) fn unquoted(word: &str, escape: char) -> Option<String> {
    let mut out = String::new();
    let mut quote = None;
    let mut chars = word.chars();
    while let Some(next) = chars.next() {
        match quote {
            None if next == '\'' || next == '"' => quote = Some(next),
            Some(open) if open == next => quote = None,
            None | Some('"') if next == escape => out.extend(chars.next()),
            _ => out.push(next),
        }
    }
    if quote.is_some() { None } else { Some(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_quotes() {
        for (text, words) in [
            ("a  b\tc", &["a", "b", "c"][..]),
            ("a='b c' d", &["a='b c'", "d"]),
            ("a=\"b \\\" c\" d", &["a=\"b \\\" c\"", "d"]),
            ("a\\ b c", &["a\\ b", "c"]),
            ("'a\\' b", &["'a\\'", "b"]),
            ("'open a b", &["'open a b"]),
            ("", &[]),
        ] {
            assert_eq!(split(text, '\\'), words, "{text}");
        }
        assert_eq!(unquoted("a\\ 'b\"'\"c'\"", '\\').as_deref(), Some("a b\"c'"));
        assert_eq!(unquoted("'a", '\\'), None);
    }
}
