//! Commands are chosen by the table of commands alone: each row carries its function, and no code asks for names.

use super::source::Source;
use crate::finding::Finding;

/// Folder of the command line.
const FOLDER: &str = "crates/cli/src/";

/// Spellings of a command's name.
const NAMES: &[&str] = &["parsed.name()", "command.name", "command().name"];

/// Finds comparisons of a command's name; `Parsed::name` is for texts.
pub(super) fn by_name(path: &str, source: &Source) -> Vec<Finding> {
    if !path.starts_with(FOLDER) || path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let lines = (1..).zip(source.code.lines());
    let compared = lines.filter(|(_, line)| compares(line));
    let message = "compares a command's name: give the row in the table a function of its own";
    compared
        .map(|(line, _)| Finding::new(path, line, message.to_owned()))
        .collect()
}

fn compares(line: &str) -> bool {
    let code: String = line.split_whitespace().collect();
    NAMES.iter().any(|name| {
        code.match_indices(name).any(|(at, _)| {
            let (before, after) = (&code[..at], &code[at + name.len()..]);
            ["match", "matches!(", "==", "!="]
                .iter()
                .any(|word| before.ends_with(word))
                || ["==", "!=", "."].iter().any(|word| after.starts_with(word))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_for_texts() {
        let found = |path: &str, line: &str| by_name(path, &Source::parse(line)).len();
        for line in [
            "match parsed.name().to_string().as_str() {",
            "matches!(command.name, \"start\")",
            "any(|command| command.name == \"pod\")",
            "if \"pod\" != command().name {",
        ] {
            assert_eq!(found("crates/cli/src/life.rs", line), 1, "{line}");
            assert_eq!(found("crates/cli/src/commands/tests.rs", line), 0, "{line}");
            assert_eq!(found("crates/options/src/parse.rs", line), 0, "{line}");
        }
        for line in [
            "let name = parsed.name();",
            "format!(\"{}\", parsed.name())",
            "// command.name == x",
        ] {
            assert_eq!(found("crates/cli/src/life.rs", line), 0, "{line}");
        }
    }
}
