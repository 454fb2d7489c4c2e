//! Here-documents: `<<EOF`, `<<-EOF`, `3<<"EOF"`, `<< EOF`.

/// A text that is written in the Dockerfile below its instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heredoc {
    /// The word that ends the text; for `COPY` and `ADD` also the file's name.
    pub name: String,
    /// The lines, each with its newline.
    pub content: String,
    /// True if variables in the text are replaced, because the word was not quoted.
    pub expand: bool,
    /// True if leading tabs were removed: `<<-`.
    pub chomp: bool,
    /// The descriptor before `<<`, 0 without one.
    pub descriptor: u32,
}

/// Finds the here-documents that an instruction announces, still without content. Only `RUN`, `COPY` and `ADD` can
/// have some, and only outside of JSON form.
pub(crate) fn announced(line: &str, escape: char) -> Vec<Heredoc> {
    let mut words = line.split_ascii_whitespace();
    let mut command = words.next().unwrap_or_default();
    if command.eq_ignore_ascii_case("ONBUILD") {
        command = words.next().unwrap_or_default();
    }
    let takes = ["RUN", "COPY", "ADD"]
        .iter()
        .any(|name| command.eq_ignore_ascii_case(name));
    let is_json = words
        .find(|word| !word.starts_with("--"))
        .is_some_and(|word| word.starts_with('['));
    if !takes || is_json || !line.contains("<<") {
        return Vec::new();
    }
    joined(crate::words::split(line, escape))
        .iter()
        .filter_map(|word| parse(word, escape))
        .collect()
}

/// Joins each lone `<<` with the word that follows it, as a shell does. A number behind `<<` stays apart: it is that of a shift,
/// as in `$(( 1 << 2 ))`.
pub(crate) fn joined(words: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        match joined.last_mut() {
            Some(last) if is_lone(last) && !word.starts_with(|letter: char| letter.is_ascii_digit()) => {
                last.push_str(&word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

/// Returns true for an announcement without a name: `<<`, `<<-`, `3<<`.
fn is_lone(word: &str) -> bool {
    let word = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
    matches!(word, "<<" | "<<-")
}

/// Returns true if the command line is nothing but the announcement of a here-document.
#[must_use]
pub fn is_only_heredoc(line: &str) -> bool {
    let words = joined(line.split_whitespace().map(str::to_owned).collect());
    matches!(words.as_slice(), [word] if word.starts_with("<<") && !is_lone(word))
}

/// Parses a word that announces a here-document.
pub(crate) fn parse(word: &str, escape: char) -> Option<Heredoc> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let rest = word[digits..].strip_prefix("<<")?;
    let (chomp, quoted) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let name = crate::words::unquoted(quoted, escape)?;
    if name.is_empty() || quoted.contains('<') || name.contains(char::is_whitespace) {
        return None;
    }
    let descriptor = if digits == 0 {
        0
    } else {
        word[..digits].parse().ok()?
    };
    Some(Heredoc {
        expand: name == quoted,
        name,
        content: String::new(),
        chomp,
        descriptor,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_announce() {
        for (word, found) in [
            ("<<EOF", Some(("EOF", true, false, 0))),
            ("<<-EOF", Some(("EOF", true, true, 0))),
            ("3<<'E O'", None),
            ("3<<'EO'", Some(("EO", false, false, 3))),
            ("<<\"a.txt\"", Some(("a.txt", false, false, 0))),
            ("<<", None),
            ("<<<here", None),
            ("a<<EOF", None),
            ("<EOF", None),
            ("99999999999<<E", None),
            ("<<'E", None),
            ("<<-", None),
        ] {
            let parsed = parse(word, '\\');
            let parsed = parsed
                .as_ref()
                .map(|doc| (&*doc.name, doc.expand, doc.chomp, doc.descriptor));
            assert_eq!(parsed, found, "{word}");
        }
    }

    #[test]
    fn lines_of_one_here_document() {
        for only in ["<<A", " <<-A ", "<< A", "<<- 'A'"] {
            assert!(is_only_heredoc(only), "{only}");
        }
        for more in ["<<A cat", "cat <<A", "<<", "<< A B", "3<<A", ""] {
            assert!(!is_only_heredoc(more), "{more}");
        }
    }

    #[test]
    fn instructions_that_may() {
        let names = |line: &str| {
            announced(line, '\\')
                .into_iter()
                .map(|doc| doc.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names("RUN cat <<A - 3<<B"), ["A", "B"]);
        assert_eq!(names("copy --chmod=1 <<A <<B /x/"), ["A", "B"]);
        assert_eq!(names("ONBUILD RUN <<A"), ["A"]);
        assert_eq!(names("RUN << A"), ["A"]);
        assert_eq!(names("RUN cat <<- 'A' > /f && cat 3<<  B"), ["A", "B"]);
        assert_eq!(names("COPY << A /f"), ["A"]);
        for none in [
            "ENV a=<<A",
            "RUN [\"a\", \"<<A\"]",
            "RUN a '<<A'",
            "RUN \"<<A\"",
            "CMD <<A",
            "RUN echo $(( 1 << 2 ))",
            "RUN a <<",
        ] {
            assert!(names(none).is_empty(), "{none}");
        }
    }
}
