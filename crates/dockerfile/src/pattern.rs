//! Patterns of `*` and `?`, as in `${name#pattern}`.

/// A compiled pattern. Matching takes time proportional to both lengths.
#[derive(Debug)]
pub(crate) struct Pattern(Vec<Token>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    One(char),
    Any,
    Many,
}

impl Pattern {
    /// Parses `*`, `?`, and a backslash that makes them ordinary characters.
    pub(crate) fn parse(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut chars = text.chars();
        while let Some(next) = chars.next() {
            let token = match next {
                '*' => Token::Many,
                '?' => Token::Any,
                '\\' => Token::One(chars.next().unwrap_or('\\')),
                other => Token::One(other),
            };
            if (token, tokens.last()) != (Token::Many, Some(&Token::Many)) {
                tokens.push(token);
            }
        }
        Self(tokens)
    }

    /// Returns how many characters at the start of `text` match: the minimum, or the maximum if `greedy`.
    pub(crate) fn prefix(&self, text: &[char], greedy: bool) -> Option<usize> {
        matched(&self.0, text.iter().copied(), greedy)
    }

    /// Returns how many characters at the end of `text` match: the minimum, or the maximum if `greedy`.
    pub(crate) fn suffix(&self, text: &[char], greedy: bool) -> Option<usize> {
        let tokens: Vec<_> = self.0.iter().rev().copied().collect();
        matched(&tokens, text.iter().rev().copied(), greedy)
    }
}

fn matched(tokens: &[Token], text: impl Iterator<Item = char>, greedy: bool) -> Option<usize> {
    let end = tokens.len();
    // `now[i]` is true if token `i` may come next after the characters read so far.
    let mut now = vec![false; end + 1];
    now[0] = true;
    let skip_many = |states: &mut [bool]| {
        for at in 0..end {
            if states[at] && tokens[at] == Token::Many {
                states[at + 1] = true;
            }
        }
    };
    skip_many(&mut now);
    let mut best = now[end].then_some(0);
    for (count, next) in (1..).zip(text) {
        if best.is_some() && !greedy {
            break;
        }
        let mut then = vec![false; end + 1];
        for at in (0..end).filter(|at| now[*at]) {
            match tokens[at] {
                Token::Many => then[at] = true,
                Token::Any => then[at + 1] = true,
                Token::One(wanted) if wanted == next => then[at + 1] = true,
                Token::One(_) => {}
            }
        }
        skip_many(&mut then);
        if then[end] {
            best = Some(count);
        }
        now = then;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let text: Vec<char> = "a.b.c".chars().collect();
        for (pattern, prefix, suffix) in [
            ("*.", (Some(2), Some(4)), (None, None)),
            (".*", (None, None), (Some(2), Some(4))),
            ("?.", (Some(2), Some(2)), (None, None)),
            ("*", (Some(0), Some(5)), (Some(0), Some(5))),
            ("", (Some(0), Some(0)), (Some(0), Some(0))),
            ("\\*", (None, None), (None, None)),
            ("a.b.c", (Some(5), Some(5)), (Some(5), Some(5))),
        ] {
            let parsed = Pattern::parse(pattern);
            assert_eq!(
                (parsed.prefix(&text, false), parsed.prefix(&text, true)),
                prefix,
                "{pattern}"
            );
            assert_eq!(
                (parsed.suffix(&text, false), parsed.suffix(&text, true)),
                suffix,
                "{pattern}"
            );
        }
    }
}
