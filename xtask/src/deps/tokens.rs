//! Rust source as identifiers and signs, without comments, literals and tests.

/// Splits source into identifiers, `::` and single signs. Each string becomes `"`; comments, characters and
/// lifetimes are removed.
pub(crate) fn tokens(source: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let (token, length) = next(rest, first);
        tokens.extend(token);
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

/// Returns the first token of the text, if it has a meaning here, and its length in bytes.
fn next(rest: &str, first: char) -> (Option<&str>, usize) {
    let until = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    if rest.starts_with("//") {
        return (None, until("\n"));
    }
    if rest.starts_with("/*") {
        return (None, until("*/"));
    }
    if let Some(length) = raw_text(rest) {
        return (Some("\""), length);
    }
    if first == '"' {
        return (Some("\""), text_length(rest));
    }
    if first == '\'' {
        return (None, character_length(rest));
    }
    if rest.starts_with("::") {
        return (Some("::"), 2);
    }
    if is_word(first) {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        return (rest.get(..length), length);
    }
    let length = first.len_utf8();
    (rest.get(..length).filter(|_| !first.is_whitespace()), length)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the length of `r"…"`, `r#"…"#` and their byte forms, if the text begins with one.
fn raw_text(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r')?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let body = body.trim_start_matches('#').strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let at = body.find(&end)?;
    Some(rest.len() - body.len() + at + end.len())
}

/// Returns the length of a string with its quotes.
fn text_length(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of a character with its quotes, or of the sign that begins a lifetime.
fn character_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            let end = rest.get(from..).and_then(|rest| rest.find('\''));
            end.map_or(rest.len(), |end| from + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Leaves out each item with the attribute `#[cfg(test)]`, because imports of tests do not count.
pub(crate) fn without_tests<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut rest = tokens;
    while let Some((first, behind)) = rest.split_first() {
        match rest.strip_prefix(&TEST) {
            Some(item) => rest = behind_item(item),
            None => {
                kept.push(*first);
                rest = behind;
            }
        }
    }
    kept
}

/// Returns the tokens behind the first item, which ends with a `;` or a closed block, whichever comes first.
fn behind_item<'a, 'b>(tokens: &'a [&'b str]) -> &'a [&'b str] {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "{" | "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(*token, ";" | "}") {
            return tokens.get(at + 1..).unwrap_or_default();
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_characters_and_comments_have_no_words() {
        let source =
            "fn a<'x>(b: &'x str) { /* c */ d('e', '\\'', \"f \\\" g\", r#\"h \" i\"#); } // j\nk::l";
        let expected = "fn a < x > ( b : & x str ) { d ( , , \" , \" ) ; } k :: l";
        assert_eq!(tokens(source).join(" "), expected);
        for broken in ["\"", "'", "r#\"", "/*", "'\\", "é"] {
            tokens(broken);
        }
    }

    #[test]
    fn items_of_tests_are_left_out() {
        let source = "use a; #[cfg(test)] use b; #[cfg(test)] #[path = \"x\"] mod c { fn d() {} } #[cfg(test)] fn e(f: [u8; 2]) -> G {} h";
        assert_eq!(without_tests(&tokens(source)).join(" "), "use a ; h");
        assert!(without_tests(&tokens("#[cfg(test)] mod open {")).is_empty());
    }
}
