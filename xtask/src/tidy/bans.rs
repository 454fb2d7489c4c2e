//! Calls that clippy refuses: the lists of `clippy.toml` agree, and each call of theirs is known to be refused.

use crate::finding::Finding;

/// The list of what is shipped.
pub(super) const LIST: &str = "clippy.toml";

/// File in which every refused call is expected to be refused.
pub(super) const REFUSED: &str = "crates/sys/tests/refused.rs";

/// Folders with the other list: tests and tools, which may wait.
const TESTING: [&str; 6] = [
    "bench/",
    "compare/",
    "crates/e2e/",
    "crates/testkit/",
    "faults/",
    "xtask/",
];

/// Lines of the list around what tests and tools may do.
const WAITS: [&str; 2] = ["# Waits.", "# The end of the waits."];

/// True for a list of clippy's.
pub(super) fn is_list(path: &str) -> bool {
    path == LIST || path.ends_with("/clippy.toml")
}

/// Finds lists that a crate has for itself, and lines in which one differs from the list of what is shipped.
pub(super) fn differing(path: &str, text: &str, list: &str) -> Vec<Finding> {
    if path == LIST {
        return Vec::new();
    }
    let folder = path.strip_suffix(LIST).unwrap_or(path);
    if !TESTING.contains(&folder) {
        let message = "what is shipped has one list, in the root: a list beside a crate replaces it";
        return vec![Finding::new(path, 1, message)];
    }
    let mut expected = without_waits(list);
    for (line, text) in (1..).zip(text.lines()) {
        if expected.next() != Some(text) {
            let message = format!("is not as in {LIST}, whose lines it has but for the waits");
            return vec![Finding::new(path, line, message)];
        }
    }
    let missing = expected.next().map(|line| {
        let message = format!("lacks a line of {LIST}: {}", line.trim());
        Finding::new(path, text.lines().count(), message)
    });
    missing.into_iter().collect()
}

/// Finds calls of the list that the file of refused calls does not name.
pub(super) fn untried(list: &str, refused: &str) -> Vec<Finding> {
    (1..)
        .zip(list.lines())
        .filter_map(|(line, text)| Some((line, call(text)?)))
        .filter(|(_, call)| !names(refused, call))
        .map(|(line, call)| Finding::new(LIST, line, format!("{REFUSED} does not name {call}")))
        .collect()
}

fn without_waits(list: &str) -> impl Iterator<Item = &str> {
    let mut within = false;
    list.lines().filter(move |line| {
        let begins = line.trim().starts_with(WAITS[0]);
        let ends = line.trim() == WAITS[1];
        within = (within || begins) && !ends;
        !within && !ends
    })
}

fn call(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("{ path = \"")?;
    rest.split_once('"').map(|(call, _)| call)
}

/// True if a statement of the text is about that call, and not about one whose name only begins so.
fn names(text: &str, call: &str) -> bool {
    [";", "::<", "("]
        .iter()
        .any(|end| text.contains(&format!(" {call}{end}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = "disallowed-methods = [\n    { path = \"a::b\", reason = \"x\" },\n    # Waits. Not for tests.\n    \
                           { path = \"c::wait\", reason = \"y\" },\n    # The end of the waits.\n    { path = \"d::e\" },\n]\n";
    const TOOLS: &str =
        "disallowed-methods = [\n    { path = \"a::b\", reason = \"x\" },\n    { path = \"d::e\" },\n]\n";

    #[test]
    fn lists_agree_but_for_the_waits() {
        let found = |path: &str, text: &str| differing(path, text, SHIPPED);
        assert!(found("clippy.toml", "").is_empty());
        assert!(found("xtask/clippy.toml", TOOLS).is_empty());
        assert_eq!(found("crates/life/clippy.toml", TOOLS)[0].line, 1);
        assert_eq!(found("xtask/clippy.toml", SHIPPED)[0].line, 3);
        assert_eq!(
            found("bench/clippy.toml", &TOOLS.replace("d::e", "d::f"))[0].line,
            3
        );
        let message = &found("xtask/clippy.toml", &TOOLS[..TOOLS.len() - 2])[0].message;
        assert_eq!(message, "lacks a line of clippy.toml: ]");
    }

    #[test]
    fn each_refused_call_is_named() {
        let lines = |refused: &str| -> Vec<usize> {
            let found = untried(SHIPPED, refused);
            found.iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines(" a::b; c::wait::<T>; d::e(x)"), [0_usize; 0]);
        assert_eq!(lines(" a::bc; xc::wait; d::e;"), [2, 4]);
    }

    #[test]
    fn the_house_has_two_lists() {
        for path in ["clippy.toml", "xtask/clippy.toml", "crates/e2e/clippy.toml"] {
            assert!(is_list(path));
        }
        assert!(!is_list("crates/e2e/not-clippy.toml"));
    }
}
