//! Markup of [`crate::Command::details`], and filling of lines.

/// Piece of long text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// Text to fill.
    Paragraph(String),
    /// Term and its meaning.
    Term(String, String),
    /// Lines to keep, their two leading spaces removed.
    Verbatim(String),
}

/// Splits a text into blocks: see [`crate::Command::details`] for the rules.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut after_blank = true;
    for line in text.lines() {
        if line.trim().is_empty() {
            after_blank = true;
            continue;
        }
        let fresh = std::mem::take(&mut after_blank);
        match (line.strip_prefix(": "), line.strip_prefix("  "), blocks.pop()) {
            (Some(meaning), _, Some(Block::Paragraph(term))) if !fresh => {
                blocks.push(Block::Term(term, meaning.trim().to_owned()));
            }
            (_, Some(kept), Some(Block::Verbatim(before))) if !fresh => {
                blocks.push(Block::Verbatim(format!("{before}\n{kept}")));
            }
            // The line after a term's meaning is the next term unless it is indented.
            (_, Some(more), Some(Block::Term(term, meaning))) if !fresh => {
                blocks.push(Block::Term(term, format!("{meaning} {}", more.trim())));
            }
            (_, None, Some(Block::Paragraph(before))) if !fresh => {
                blocks.push(Block::Paragraph(format!("{before} {}", line.trim())));
            }
            (_, kept, before) => {
                blocks.extend(before);
                blocks.push(match kept {
                    Some(kept) => Block::Verbatim(kept.to_owned()),
                    None => Block::Paragraph(line.trim().to_owned()),
                });
            }
        }
    }
    blocks
}

/// Fills lines of at most `width` characters with the words of `text`; a longer word has a line of its own.
pub(crate) fn filled(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut room = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if room > length => {
                line.push(' ');
                line.push_str(word);
                room -= length + 1;
            }
            _ => {
                lines.push(word.to_owned());
                room = width.saturating_sub(length);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup() {
        let text = "One\nparagraph.\n\nhost\n: the host's\n  own files\nrootfs:DIR\n: a directory\n\n  $ tote\n  ok\n\nEnd.";
        assert_eq!(
            blocks(text),
            [
                Block::Paragraph("One paragraph.".into()),
                Block::Term("host".into(), "the host's own files".into()),
                Block::Term("rootfs:DIR".into(), "a directory".into()),
                Block::Verbatim("$ tote\nok".into()),
                Block::Paragraph("End.".into()),
            ]
        );
        assert_eq!(blocks(""), []);
        assert_eq!(blocks(": no term"), [Block::Paragraph(": no term".into())]);
    }

    #[test]
    fn lines_are_filled_to_the_width() {
        assert_eq!(filled("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(filled("aa bb cc", 8), ["aa bb cc"]);
        assert_eq!(filled("aaaaaaaa b", 4), ["aaaaaaaa", "b"]);
        assert_eq!(filled("  ", 4), Vec::<String>::new());
        assert_eq!(filled("a b", 0), ["a", "b"]);
    }
}
