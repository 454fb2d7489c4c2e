//! A Rust text split into code and comments.

/// A text twice, with its lines and columns unchanged: the other half is blank, and so are the contents of string
/// and character literals in both.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Code without comments and literals.
    pub(super) code: String,
    /// Only the comments, their `//` or `/*` included.
    pub(super) comments: String,
}

#[derive(Clone, Copy)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Source {
    pub(super) fn parse(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut source = Self {
            code: String::with_capacity(text.len()),
            comments: String::new(),
        };
        let mut at = 0;
        while at < chars.len() {
            let (part, length) = next(&chars, at);
            let end = (at + length.max(1)).min(chars.len());
            source.push(part, &chars[at..end]);
            at = end;
        }
        source
    }

    fn push(&mut self, part: Part, chars: &[char]) {
        let blank = |c: &char| if *c == '\n' { '\n' } else { ' ' };
        let (code, comment) = match part {
            Part::Code => (true, false),
            Part::Comment => (false, true),
            Part::Literal => (false, false),
        };
        self.code
            .extend(chars.iter().map(|c| if code { *c } else { blank(c) }));
        self.comments
            .extend(chars.iter().map(|c| if comment { *c } else { blank(c) }));
    }
}

/// Returns the kind of text that begins at that place, and its length in characters.
fn next(chars: &[char], at: usize) -> (Part, usize) {
    let rest = &chars[at..];
    let inside_word = at > 0 && is_word(chars[at - 1]);
    match rest {
        ['/', '/', ..] => (Part::Comment, find(rest, '\n')),
        ['/', '*', ..] => (Part::Comment, block_comment(rest)),
        ['"', ..] => (Part::Literal, quoted(rest, '"')),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => (Part::Literal, quoted(rest, '\'')),
        ['r', '"' | '#', ..] if !inside_word => raw_string(rest),
        ['b' | 'c', 'r', '"' | '#', ..] if !inside_word => {
            let (part, length) = raw_string(&rest[1..]);
            (part, length + 1)
        }
        _ => (Part::Code, 1),
    }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn find(rest: &[char], wanted: char) -> usize {
    rest.iter().position(|c| *c == wanted).unwrap_or(rest.len())
}

/// Returns the length of a block comment; such comments nest.
fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] if depth == 1 => return at + 2,
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of `r"…"` or `r#"…"#`; a raw identifier such as `r#type` is code.
fn raw_string(rest: &[char]) -> (Part, usize) {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return (Part::Code, 1 + hashes);
    }
    let mut end = vec!['"'];
    end.resize(1 + hashes, '#');
    let body = &rest[2 + hashes..];
    let length = body.windows(end.len()).position(|window| window == end);
    (
        Part::Literal,
        length.map_or(rest.len(), |length| 2 + hashes + length + end.len()),
    )
}

/// Returns the comments of a text whose comments begin with `#`, at the same lines.
///
/// A `#` within quotes does not begin a comment; here-documents of a shell are not recognised.
pub(super) fn hash_comments(text: &str) -> String {
    let mut comments = String::new();
    for line in text.lines() {
        let mut quote = None;
        let mut start = line.len();
        for (at, c) in line.char_indices() {
            match (quote, c) {
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), _) if open == c => quote = None,
                (None, '#') => {
                    start = at;
                    break;
                }
                _ => {}
            }
        }
        comments.push_str(&line[start..]);
        comments.push('\n');
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squeezed(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn code_and_comments_are_told_apart() {
        for (text, code, comments) in [
            ("a // b", "a", "// b"),
            ("a /* b /* c */ d */ e", "a e", "/* b /* c */ d */"),
            (r#"f("// no", x) // yes"#, "f( , x)", "// yes"),
            (r#"f("\"// no") "#, "f( )", ""),
            (r##"f(r#"a " // no"#) // yes"##, "f( )", "// yes"),
            (r#"f(br"// no\") // yes"#, "f( )", "// yes"),
            ("let r#type = '\"'; // yes", "let r#type = ;", "// yes"),
            (r"'\'' 'x' b'\\' // yes", "b", "// yes"),
            ("fn f<'a>(x: &'a str) // yes", "fn f<'a>(x: &'a str)", "// yes"),
            ("\"open // no", "", ""),
            ("/* open", "", "/* open"),
        ] {
            let source = Source::parse(text);
            assert_eq!(squeezed(&source.code), code, "{text}");
            assert_eq!(squeezed(&source.comments), comments, "{text}");
        }
    }

    #[test]
    fn lines_stay_where_they_are() {
        let text = "/* a\nb */ \"c\nd\"\n// é\n";
        let source = Source::parse(text);
        for half in [&source.code, &source.comments] {
            assert_eq!(half.lines().count(), text.lines().count());
            assert_eq!(half.chars().count(), text.chars().count());
        }
    }

    #[test]
    fn hashes_in_quotes_are_no_comments() {
        let text = "a = \"#no\" # yes\n# all\nb = '#'\n";
        assert_eq!(hash_comments(text), "# yes\n# all\n\n");
    }
}
