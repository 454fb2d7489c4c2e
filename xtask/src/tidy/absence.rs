//! Errors of the file system that are taken for absence.
//!
//! A call that fails because a process has no descriptor left (`EMFILE`), or because a disk is bad (`EIO`), says nothing about the
//! file. Code that took each failure for absence has removed containers, left libraries out of images and closed ports. So a statement
//! that looks for something and throws its error away is refused, unless it asks one of the functions of `absence.rs` in `sys`, which
//! name the errors that are absence, or a comment says what an error means there: `// absence: …`.

use super::source::{Source, is_word};
use crate::finding::Finding;

/// Crates whose code is not shipped.
const TESTING: [&str; 2] = ["crates/e2e/", "crates/testkit/"];

/// Calls that look for something by its name. A method begins with a dot, another word is a function's whole name.
const LOOKS: &[&str] = &[
    "Dir::new(",
    "Dir::read_from(",
    "File::open(",
    "fs::metadata(",
    "fs::read(",
    "fs::read_dir(",
    "fs::read_link(",
    "fs::read_to_string(",
    "fs::symlink_metadata(",
    ".metadata()",
    ".stat(",
    ".symlink_metadata()",
    ".try_exists()",
    "getxattr(",
    "is_there(",
    "lgetxattr(",
    "lstat(",
    "names_in(",
    "open(",
    "open_dir(",
    "open_in_root(",
    "open_straight(",
    "openat(",
    "openat2(",
    "readlink(",
    "readlinkat(",
    "stat(",
    "statat(",
    "statx(",
];

/// Readers of records, whose first argument is the state root.
const RECORDS: &[&str] = &[
    "read(home",
    "read(self.home",
    "read(&self.home",
    "all(home",
    "find(home",
];

/// Ends of a statement by which an error is lost.
const LOSES: &[&str] = &[
    ".ok()",
    ".unwrap_or(",
    ".unwrap_or_default()",
    ".unwrap_or_else(|_|",
    ".is_ok()",
    ".is_ok_and(",
    ".is_err()",
    ".is_err_and(",
    ".map_or(",
    ".map_or_else(|_|",
    ".flatten()",
    ".filter_map(Result::ok)",
];

/// Functions of `absence.rs` in `sys`.
const NAMED: &[&str] = &["present(", "reachable(", "visible(", "alive("];

/// Beginning of the reason.
const REASON: &str = "absence:";

/// Finds statements that take each error for absence.
pub(super) fn taken_from_errors(path: &str, source: &Source) -> Vec<Finding> {
    let is_shipped = path.starts_with("crates/")
        && path.contains("/src/")
        && !TESTING.iter().any(|folder| path.starts_with(folder))
        && !path.ends_with("tests.rs")
        && !path.contains("/tests/");
    if !is_shipped {
        return Vec::new();
    }
    let end = source
        .code
        .find("#[cfg(test)]\nmod ")
        .unwrap_or(source.code.len());
    let comments: Vec<&str> = source.comments.lines().collect();
    let message = "takes each error for absence: ask present, reachable, visible or alive of `sys`, return the error, \
                   or say in `// absence: …` what it means here";
    statements(&source.code[..end])
        .filter(|(_, statement)| loses(statement))
        .filter(|(first, statement)| !has_reason(&comments, *first, statement.matches('\n').count()))
        .map(|(first, _)| Finding::new(path, first, message))
        .collect()
}

/// Splits code at semicolons and braces; each part with the number of its first line that has something in it.
fn statements(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut line = 1;
    code.split_inclusive([';', '{', '}']).map(move |part| {
        let text = part.trim_start();
        let first = line + part[..part.len() - text.len()].matches('\n').count();
        line += part.matches('\n').count();
        (first, text)
    })
}

/// True if the statement looks for something, and loses an error that says nothing about it.
fn loses(statement: &str) -> bool {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let code = words.join(" ").replace(" .", ".").replace("( ", "(");
    looks(&code).any(|at| {
        let (before, call) = code.split_at(at);
        if NAMED.iter().any(|name| encloses(before, name)) {
            return false;
        }
        let after = &call[arguments_end(call)..];
        // The question mark has returned the error by then.
        let returned = after.find('?').unwrap_or(after.len());
        let lost = LOSES.iter().filter_map(|end| after.find(end)).min();
        let asks_for_success = before.contains("let Ok(")
            || encloses(before, "matches!(") && after.contains(" Ok(") && !after.contains("Err(");
        lost.is_some_and(|lost| lost < returned) || asks_for_success && returned == after.len()
    })
}

/// Returns the place behind the bracket that closes a call's arguments, or the length.
fn arguments_end(call: &str) -> usize {
    let mut open = 0_usize;
    for (at, c) in call.char_indices() {
        match c {
            '(' => open += 1,
            ')' if open <= 1 => return at + 1,
            ')' => open -= 1,
            _ => {}
        }
    }
    call.len()
}

/// True if what comes next stands among the arguments of the function or macro.
fn encloses(before: &str, name: &str) -> bool {
    before.rfind(name).is_some_and(|at| {
        let rest = &before[at..];
        rest.matches('(').count() > rest.matches(')').count()
    })
}

/// Finds the places of the calls.
fn looks(code: &str) -> impl Iterator<Item = usize> {
    let is_whole = move |word: &str, at: usize| {
        let previous = code[..at].chars().next_back();
        word.starts_with('.') || !previous.is_some_and(|c| is_word(c) || c == '.')
    };
    LOOKS.iter().chain(RECORDS).flat_map(move |word| {
        let found = code.match_indices(word).map(|(at, _)| at);
        found.filter(move |at| is_whole(word, *at))
    })
}

/// True if a comment right above the statement or in it has a reason.
fn has_reason(comments: &[&str], first: usize, lines: usize) -> bool {
    let within = comments.iter().skip(first - 1).take(lines + 1);
    let above = comments[..first - 1]
        .iter()
        .rev()
        .take_while(|line| !line.trim().is_empty());
    within.chain(above).any(|line| line.contains(REASON))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        taken_from_errors(path, &Source::parse(text)).len()
    }

    #[test]
    fn errors_that_are_lost() {
        for text in [
            "let text = std::fs::read_to_string(path).ok();",
            "let text = std::fs::read_to_string(path)\n    .unwrap_or_default();",
            "if path.try_exists().unwrap_or(false) {",
            "if let Ok(file) = File::open(path) {",
            "let Ok(file) = openat(dir, name, flags, mode) else {",
            "let Ok(Some(pod)) = Pod::read(home, id) else {",
            "let all = record::all(home).unwrap_or_default();",
            "for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {",
            "if matches!(is_there(&path), Ok(true)) {",
            "let size = path.metadata().map_or(0, |found| found.len());",
            "let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());",
            "let found = return lstat(path).is_err();",
            "let own = rustix::fs::readlink(link, Vec::new()).unwrap_or_else(|_| Vec::new());",
        ] {
            assert_eq!(found("crates/life/src/run.rs", text), 1, "{text}");
            for path in [
                "crates/e2e/src/a.rs",
                "crates/life/src/tests.rs",
                "crates/life/tests/a.rs",
                "xtask/src/a.rs",
            ] {
                assert_eq!(found(path, text), 0, "{path}: {text}");
            }
            let tested = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{text}\n}}\n");
            assert_eq!(found("crates/life/src/run.rs", &tested), 0, "{text}");
        }
    }

    #[test]
    fn errors_that_are_told_apart() {
        for text in [
            "let text = present(std::fs::read_to_string(path))?.unwrap_or_default();",
            "let text = present(std::fs::read_to_string(path)).ok();",
            "let record = Container::read(home, id)?.unwrap_or(container);",
            "let found = open(path, flags, mode).map_err(failed)?;",
            "let link = matches!(readlink(path), Err(Errno::NOENT));",
            "if std::fs::symlink_metadata(path)?.is_dir() {",
            "let number = text.parse().unwrap_or_default();",
            "let reopened = reopen(path).ok();",
            "let opened = self.open(port).ok();",
            "let dir = open(path.parent().unwrap_or(path), flags, mode)?;",
            "// absence: a cache that cannot be read is made anew\nlet text = std::fs::read(path).ok();",
            "let text = std::fs::read(path) // absence: it is made anew\n    .ok();",
            "// absence: the first line\n// and the second\nif let Ok(file) = File::open(path) {",
        ] {
            assert_eq!(found("crates/life/src/run.rs", text), 0, "{text}");
        }
        // A reason is for its own statement.
        let two = "// absence: shown\nlet a = std::fs::read(path).ok();\n\nlet b = std::fs::read(path).ok();";
        assert_eq!(found("crates/life/src/run.rs", two), 1);
    }

    #[test]
    fn findings_have_the_line_of_the_statement() {
        let text = "fn f() {\n\n    let text = std::fs::read(path)\n        .ok();\n}\n";
        let found = taken_from_errors("crates/life/src/run.rs", &Source::parse(text));
        assert_eq!(found.first().map(|finding| finding.line), Some(3));
    }
}
