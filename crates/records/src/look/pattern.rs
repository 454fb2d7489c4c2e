//! The regular expressions of docker's filters, as far as people write them there: `^web-[0-9]+$`.

/// A pattern that has been read.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Alternatives, of which one must match.
    branches: Vec<Vec<Piece>>,
}

#[derive(Clone, Debug)]
struct Piece {
    what: What,
    times: Times,
}

#[derive(Clone, Debug)]
enum What {
    Start,
    End,
    Any,
    Letter(char),
    OneOf { not: bool, ranges: Vec<(char, char)> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Times {
    Once,
    Optional,
    Any,
    Many,
}

impl Pattern {
    /// Reads `^ $ . * + ? [a-z] [^a] \x` and `|`; `None` for what is wrong or beyond that.
    pub fn parse(text: &str) -> Option<Self> {
        let mut branches = vec![Vec::new()];
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let what = match letter {
                '^' => What::Start,
                '$' => What::End,
                '.' => What::Any,
                '|' => {
                    branches.push(Vec::new());
                    continue;
                }
                '[' => class(&mut letters)?,
                '\\' => What::Letter(letters.next()?),
                '(' | ')' | '{' | '}' | '*' | '+' | '?' => return None,
                letter => What::Letter(letter),
            };
            let times = match letters.peek() {
                Some('?') => Times::Optional,
                Some('*') => Times::Any,
                Some('+') => Times::Many,
                _ => Times::Once,
            };
            if times != Times::Once {
                letters.next();
            }
            branches.last_mut()?.push(Piece { what, times });
        }
        Some(Self { branches })
    }

    /// Whether it fits somewhere in the text. The time is at most the product of both lengths.
    pub fn is_in(&self, text: &str) -> bool {
        let letters: Vec<char> = text.chars().collect();
        self.branches.iter().any(|branch| fits(branch, &letters))
    }
}

fn class(letters: &mut impl Iterator<Item = char>) -> Option<What> {
    let mut inside = Vec::new();
    let mut not = false;
    loop {
        match letters.next()? {
            ']' if !inside.is_empty() => break,
            '^' if inside.is_empty() && !not => not = true,
            '\\' => inside.push(letters.next()?),
            letter => inside.push(letter),
        }
    }
    let (mut ranges, mut at) = (Vec::new(), 0);
    while let Some(&from) = inside.get(at) {
        match (inside.get(at + 1), inside.get(at + 2)) {
            (Some('-'), Some(&to)) => {
                ranges.push((from, to));
                at += 3;
            }
            _ => {
                ranges.push((from, from));
                at += 1;
            }
        }
    }
    Some(What::OneOf { not, ranges })
}

/// All places in the pattern at once, so that nothing is tried twice: `reached[i]` says that the first `i` pieces can be
/// behind us.
fn fits(pieces: &[Piece], text: &[char]) -> bool {
    let mut reached = vec![false; pieces.len() + 1];
    for place in 0..=text.len() {
        reached[0] = true;
        // What takes no letter is passed here.
        for (index, piece) in pieces.iter().enumerate() {
            let passes = match piece.what {
                What::Start => place == 0 || skippable(piece),
                What::End => place == text.len() || skippable(piece),
                _ => skippable(piece),
            };
            reached[index + 1] |= reached[index] && passes;
        }
        if reached[pieces.len()] {
            return true;
        }
        let Some(letter) = text.get(place) else { break };
        let mut next = vec![false; pieces.len() + 1];
        for (index, piece) in pieces.iter().enumerate() {
            if takes(&piece.what, *letter) {
                let repeats = matches!(piece.times, Times::Any | Times::Many);
                next[index + 1] |= reached[index];
                // Still before it: the piece may take more.
                next[index] |= repeats && reached[index];
            }
        }
        reached = next;
    }
    false
}

fn skippable(piece: &Piece) -> bool {
    matches!(piece.times, Times::Optional | Times::Any)
}

fn takes(what: &What, letter: char) -> bool {
    match what {
        What::Start | What::End => false,
        What::Any => true,
        What::Letter(own) => *own == letter,
        What::OneOf { not, ranges } => {
            ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter)) != *not
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("web", "my-web-1", true),
            ("web", "wb", false),
            ("^web$", "web", true),
            ("^web$", "web1", false),
            ("^/?web$", "web", true),
            ("web-[0-9]+$", "web-12", true),
            ("web-[0-9]+$", "web-", false),
            ("^[^a-c]x", "dx", true),
            ("^[^a-c]x", "ax", false),
            ("a.*z", "xabcz", true),
            ("a.+z", "az", false),
            ("ab*c", "ac", true),
            ("ab*c", "abbbc", true),
            ("ab*c", "abxc", false),
            ("(a)", "a", false),
            ("one|two", "a two", true),
            ("one|two", "a three", false),
            ("a\\.b", "a.b", true),
            ("a\\.b", "axb", false),
            ("[a]-]", "x", false),
            ("", "anything", true),
            ("a+a+a+a+a+a+a+a+a+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaab", false),
        ] {
            let found = Pattern::parse(pattern).is_some_and(|pattern| pattern.is_in(text));
            assert_eq!(found, expected, "{pattern} in {text}");
        }
        for bad in ["*", "(", "[", "[a", "\\", "a**", "a{2}"] {
            assert!(Pattern::parse(bad).is_none(), "{bad}");
        }
    }
}
