//! Rules for comments and documents.

use super::source::is_word;
use crate::finding::Finding;

/// Applies all rules for comments. `comments` has the lines of the file, with everything but comments blank.
pub(super) fn check(path: &str, comments: &str) -> Vec<Finding> {
    let mut findings = machine_paths(path, comments);
    findings.extend(examples(path, comments));
    for (line, text) in (1..).zip(comments.lines()) {
        if is_numbered(text) {
            let message = "a step numbered by hand, which lies after the next change: name it instead";
            findings.push(Finding::new(path, line, message));
        }
        if let Some(word) = unfinished(text) {
            let message =
                format!("{word} without an issue's number, which nobody will find: write {word}(#N)");
            findings.push(Finding::new(path, line, message));
        }
    }
    findings
}

/// Finds examples in Rust, which no test run compiles: a fence without a language begins such an example.
fn examples(path: &str, comments: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inside = false;
    for (line, text) in (1..).zip(comments.lines()) {
        let text = text.trim_start();
        let doc = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"));
        let Some(language) = doc.and_then(|doc| doc.trim_start().strip_prefix("```")) else {
            inside &= doc.is_some();
            continue;
        };
        inside = !inside;
        let language = language.split([',', ' ']).next().unwrap_or_default();
        let rust = ["", "rust", "no_run", "ignore", "should_panic", "compile_fail"];
        if inside && rust.contains(&language) {
            let message = "an example that no test runs: make it a unit test, or name its language (```text)";
            findings.push(Finding::new(path, line, message));
        }
    }
    findings
}

/// Finds paths that exist only on the author's machine.
pub(super) fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    const ROOTS: &[&str] = &["/work/", "/root/", "/home/"];
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let root = ROOTS
            .iter()
            .find(|root| text.match_indices(**root).any(|(at, _)| starts_path(text, at)));
        if let Some(root) = root {
            let message = format!("a path below {root}, which only its author has: make it relative");
            findings.push(Finding::new(path, line, message));
        }
    }
    findings
}

/// True if an absolute path starts there, rather than a part of a relative or longer one.
fn starts_path(text: &str, at: usize) -> bool {
    !text[..at]
        .chars()
        .next_back()
        .is_some_and(|c| is_word(c) || matches!(c, '/' | '.' | '-' | '~' | '}' | '>'))
}

pub(super) fn trailing_space(path: &str, text: &str) -> Vec<Finding> {
    (1..)
        .zip(text.split('\n'))
        .filter(|(_, line)| line.ends_with([' ', '\t', '\r']))
        .map(|(line, _)| {
            Finding::new(
                path,
                line,
                "white space at the end of the line, noise in every diff",
            )
        })
        .collect()
}

/// True if the text has the word step with a number after it.
fn is_numbered(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.match_indices("step").any(|(at, word)| {
        let before = text[..at].chars().next_back();
        let rest = text[at + word.len()..].trim_start_matches([' ', '#']);
        !before.is_some_and(is_word) && rest.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Finds a mark of unfinished work that names no issue.
fn unfinished(text: &str) -> Option<&'static str> {
    const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];
    let names_issue = text
        .split('#')
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if names_issue {
        return None;
    }
    let word = text.split(|c| !is_word(c)).find(|word| MARKS.contains(word))?;
    MARKS.iter().copied().find(|mark| *mark == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps() {
        for bad in ["// Step 3: mount", "/// step 1", "# STEP 12", "// as in step #2"] {
            assert!(is_numbered(bad), "{bad}");
        }
        for good in [
            "// the next step",
            "// footstep 3",
            "// steps: 3",
            "// a stepping 3",
        ] {
            assert!(!is_numbered(good), "{good}");
        }
    }

    #[test]
    fn examples_in_comments() {
        let lines = |text| -> Vec<usize> {
            let found = examples("a.rs", text);
            found.iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("/// ```\n/// a();\n/// ```\n"), [1]);
        assert_eq!(
            lines("    //! ```no_run\n    //! ```\n//! ```rust,ignore\n"),
            [1, 3]
        );
        assert!(lines("//! ```text\n//! a -> b\n//! ```\nfn a() {}\n// ```\n").is_empty());
    }

    #[test]
    fn marks_of_unfinished_work() {
        for bad in [
            "// TODO: later",
            "// FIXME",
            "// XXX why",
            "// TODO(me) # no number",
        ] {
            assert!(unfinished(bad).is_some(), "{bad}");
        }
        for good in ["// TODO(#12): later", "// mkdtemp's XXXXXX", "// TODOs"] {
            assert!(unfinished(good).is_none(), "{good}");
        }
    }

    #[test]
    fn paths_of_one_machine() {
        for bad in ["see /work/x.md", "(/root/notes)", "`/home/me/x`"] {
            assert_eq!(machine_paths("a.md", bad).len(), 1, "{bad}");
        }
        for good in [
            "upper/work/x",
            "$HOME/root/x",
            "/proc/1/root/etc",
            "/work",
            "{dir}/work/x",
        ] {
            assert!(machine_paths("a.md", good).is_empty(), "{good}");
        }
    }

    #[test]
    fn white_space_at_the_end() {
        let lines: Vec<_> = trailing_space("a", "a\nb \n\tc\t\nd\r\n")
            .iter()
            .map(|finding| finding.line)
            .collect();
        assert_eq!(lines, [2, 3, 4]);
    }
}
