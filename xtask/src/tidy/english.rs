//! English that a stranger reads once: words that send a reader of comments back to the beginning of a sentence.

use super::source::is_word;
use crate::finding::Finding;

/// First words of a doc comment that name nothing: pronouns, and question words without a question.
const PRONOUNS: &[&str] = &[
    "What", "Who", "Whoever", "Whom", "Whose", "That", "Those", "These", "It", "One", "Of", "As",
];

/// Words after which `who` has no noun before it.
const BEFORE_WHO: &[&str] = &[
    "of", "by", "for", "to", "with", "from", "and", "or", "than", "as", "but", "that", "if", "in", "on",
    "at", "into", "is", "where", "when", "not", "all", "unless", "until", "because", "since", "while",
    "only",
];

/// Words that stand for a number or an actor which the writer knew.
const VAGUE: &[&str] = &["nobody", "somebody", "whoever", "whomever"];

/// Words that may stand behind `is no`.
const NO: &[&str] = &[
    "longer", "more", "matter", "such", "space", "room", "way", "need", "use",
];

/// Verbs that an error begins with when it gives an order instead of saying what failed.
const ORDERS: &[&str] = &[
    "apply", "attach", "compile", "connect", "copy", "create", "download", "enter", "extract", "find",
    "give", "join", "link", "list", "look", "make", "move", "note", "open", "pack", "parse", "prepare",
    "read", "remove", "rename", "run", "save", "send", "set", "signal", "start", "talk", "trust", "verify",
    "wait", "walk", "watch", "write",
];

/// Findings in the comments of a Rust file; lines are those of the file, and all but comments is blank.
pub(super) fn of_comments(path: &str, comments: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_in_doc = false;
    for (line, comment) in (1..).zip(comments.lines()) {
        let comment = comment.trim();
        let doc = comment
            .strip_prefix("///")
            .or_else(|| comment.strip_prefix("//!"));
        let text = doc.unwrap_or_else(|| comment.trim_start_matches('/')).trim();
        let first = (doc.is_some() && !is_in_doc).then(|| beginning(text)).flatten();
        findings.extend(
            first
                .or_else(|| vague(text))
                .map(|message| Finding::new(path, line, message)),
        );
        is_in_doc = doc.is_some();
    }
    findings
}

/// Findings in the texts of `#[error("…")]`, but for those below a line `// docker's words`.
pub(super) fn of_errors(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, attribute) in text.match_indices("#[error(") {
        let rest = text[at + attribute.len()..].trim_start();
        let Some(words) = rest.strip_prefix('"') else {
            continue;
        };
        let mut before = text[..at].split('\n').rev();
        let line = before.clone().count();
        if before
            .nth(1)
            .is_some_and(|above| above.trim().starts_with("// docker's"))
        {
            continue;
        }
        let order = words
            .split([' ', '"'])
            .next()
            .filter(|word| ORDERS.contains(word) || *word == "{attempt}");
        if let Some(order) = order {
            let message = format!("an error that begins with the order {order:?}: say \"cannot {order} …\"");
            findings.push(Finding::new(path, line, message));
        }
    }
    findings
}

/// Finds a beginning of a doc comment that names nothing.
fn beginning(text: &str) -> Option<String> {
    let word = text.split(|letter| !is_word(letter)).next()?;
    let words = if text.starts_with("The same ") {
        "The same"
    } else {
        PRONOUNS.iter().find(|pronoun| **pronoun == word)?
    };
    Some(format!(
        "a doc comment that begins with {words}: begin with the noun or the verb that it is about"
    ))
}

/// Finds a word that a reader has to decode.
fn vague(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        let plain = word.trim_matches(|letter| !is_word(letter)).to_ascii_lowercase();
        let next = words
            .get(at + 1)
            .map(|word| word.trim_matches(|letter| !is_word(letter)));
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        match (plain.as_str(), next) {
            (vague, _) if VAGUE.contains(&vague) => {
                return Some(format!(
                    "{vague}, which names nobody: name the process or the person"
                ));
            }
            ("so", Some(next @ ("many" | "much"))) => {
                return Some(format!("so {next}: name the number or the amount"));
            }
            ("is" | "are", Some("none")) => return Some(format!("{plain} none: say what it is not")),
            ("is", Some("no"))
                if words
                    .get(at + 2)
                    .is_some_and(|word| !NO.contains(&word.trim_matches(|letter| !is_word(letter)))) =>
            {
                return Some("is no …: say \"is not a …\" or \"is invalid\"".to_owned());
            }
            ("who", Some(_)) if before.is_none_or(|before| has_no_noun(before)) && at > 0 => {
                return Some("who without a noun before it: name the process or the person".to_owned());
            }
            _ => {}
        }
    }
    None
}

/// Whether a word before `who` is not its noun.
fn has_no_noun(word: &str) -> bool {
    word.ends_with(['.', ';', ':', '(']) || BEFORE_WHO.contains(&word.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(comments: &str) -> Vec<String> {
        let findings = of_comments("crates/sys/src/a.rs", comments);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn doc_comments_begin_with_their_noun() {
        for bad in [
            "/// What is read.",
            "//! Of the image.",
            "    /// The same for a user.",
            "/// Whose it is.",
        ] {
            assert_eq!(found(bad).len(), 1, "{bad}");
        }
        for good in [
            "/// Layers of the image,\n/// What follows.",
            "/// Ones and zeros.",
            "/// Asks for a name.",
            "// What for?",
        ] {
            assert!(found(good).is_empty(), "{good}");
        }
    }

    #[test]
    fn actors_and_numbers_are_named() {
        for bad in [
            "// it is left to who comes",
            "/// Waits for somebody.",
            "// so many bytes",
            "// that is none",
            "// it is no directory",
            "// it is left. Who has it",
        ] {
            assert_eq!(found(bad).len(), 1, "{bad}");
        }
        for good in [
            "// a process who waits",
            "// it is no longer there",
            "// none is left",
            "// no directory",
        ] {
            assert!(found(good).is_empty(), "{good}");
        }
    }

    #[test]
    fn errors_say_what_failed() {
        for (text, count) in [
            ("#[error(\"read {path}\")]", 1),
            ("#[error(\n    \"{attempt} {path}\"\n)]", 1),
            ("#[error(\"cannot read {path}\")]", 0),
            ("#[error(\"record at byte {0}\")]", 0),
            ("#[error(transparent)]", 0),
            ("// docker's words.\n#[error(\"remove {0}: in use\")]", 0),
            ("    // docker's words.\n    #[error(\"remove {0}: in use\")]", 0),
        ] {
            assert_eq!(of_errors("a.rs", text).len(), count, "{text}");
        }
        assert_eq!(of_errors("a.rs", "\n    #[error(\"read {0}\")]")[0].line, 2);
    }
}
