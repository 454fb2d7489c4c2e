//! Processes that tote makes: each place in the code that makes one, or gives it its title, says in `// process: NAME` which row of the table
//! in `docs/processes.md` it is, so that no process is without its rights, its end and its bound; and no row is without a place.

use super::source::{Source, is_word};
use crate::finding::Finding;
use std::collections::BTreeSet;

/// File with the table.
pub(super) const TABLE: &str = "docs/processes.md";

/// Folders whose code is not shipped, or is what makers of processes are made of.
const OTHERS: [&str; 4] = [
    "crates/e2e/",
    "crates/testkit/",
    "crates/options/",
    "crates/cli/src/commands/",
];

/// Files that only define the makers.
const DEFINITIONS: [&str; 3] = [
    "crates/state/src/process.rs",
    "crates/sys/src/fork.rs",
    "crates/sys/src/title.rs",
];

/// Calls that make a process or say what it is.
const MAKERS: [&str; 8] = [
    "birth(&Birth",
    "fork_apart(",
    "fork_orphan(",
    "fork_parent(",
    "fork_worker(",
    "process::Command::new(",
    "process::settle(",
    "set_title(",
];

/// A name of the type that needs no path.
const COMMAND: &str = "Command::new(";

/// Beginning of the name.
const MARK: &str = "// process: ";

/// Number of lines above a call in which the name may stand: an expectation with its reason may be between.
const ABOVE: usize = 7;

/// Names of processes that the code says, with their places.
#[derive(Debug, Default)]
pub(super) struct Named {
    places: Vec<(String, usize, String)>,
    findings: Vec<Finding>,
}

impl Named {
    /// Looks at a file of Rust.
    pub(super) fn look(&mut self, path: &str, source: &Source) {
        let is_shipped = path.starts_with("crates/")
            && path.contains("/src/")
            && !OTHERS.iter().any(|folder| path.starts_with(folder))
            && !path.ends_with("tests.rs")
            && !path.contains("/tests/");
        if !is_shipped {
            return;
        }
        let comments: Vec<&str> = source.comments.lines().collect();
        let marks = (1..).zip(&comments).filter_map(|(line, text)| {
            let (_, name) = text.split_once(MARK)?;
            Some((path.to_owned(), line, name.trim().to_owned()))
        });
        self.places.extend(marks);
        if DEFINITIONS.contains(&path) {
            return;
        }
        let end = source.code.find("#[cfg(test)]\nmod ");
        let code = &source.code[..end.unwrap_or(source.code.len())];
        for (line, _) in (1..).zip(code.lines()).filter(|(_, text)| makes(text)) {
            let above = comments.iter().take(line).rev().take(ABOVE);
            if !above.into_iter().any(|comment| comment.contains(MARK)) {
                let message = format!("makes a process: say in `{MARK}…` which row of {TABLE} it is");
                self.findings.push(Finding::new(path, line, message));
            }
        }
    }

    /// Compares what was seen with the table.
    pub(super) fn compare(self, table: &str) -> Vec<Finding> {
        let rows: Vec<(usize, &str)> = rows(table).collect();
        let mut findings = self.findings;
        for (path, line, name) in &self.places {
            if !rows.iter().any(|(_, row)| is_called(row, name)) {
                let message = format!("no row of {TABLE} begins with {name:?}");
                findings.push(Finding::new(path, *line, message));
            }
        }
        let names: BTreeSet<&str> = self.places.iter().map(|(.., name)| name.as_str()).collect();
        for (line, row) in rows {
            if !names.iter().any(|name| is_called(row, name)) {
                let message = format!("no `{MARK}…` in the code names this row: {row}");
                findings.push(Finding::new(TABLE, line, message));
            }
        }
        findings
    }
}

/// True if the line calls a maker, and does not define or import it.
fn makes(line: &str) -> bool {
    let is_definition = line.trim_start().starts_with("pub") || line.contains("fn ");
    let calls = |name: &str| {
        line.match_indices(name)
            .any(|(at, _)| !line[..at].chars().next_back().is_some_and(is_word))
    };
    !is_definition && (MAKERS.iter().any(|maker| calls(maker)) || calls(COMMAND))
}

/// First cells of the table, with the numbers of their lines.
fn rows(markdown: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..)
        .zip(markdown.lines())
        .skip_while(|(_, line)| !line.starts_with("|---"))
        .skip(1)
        .take_while(|(_, line)| line.starts_with('|'))
        .filter_map(|(number, line)| Some((number, line.trim_start_matches('|').split('|').next()?.trim())))
}

/// True if the row begins with the name.
fn is_called(row: &str, name: &str) -> bool {
    let rest = row.strip_prefix(name);
    rest.is_some_and(|rest| !rest.chars().next().is_some_and(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Processes\n\nWords.\n\n| process | bound |\n|---|---|\n| listener (ps: `tote listener`) | 1 |\n| ways of `a` | 2 |\n\n| no row |\n";

    fn found(code: &str) -> Vec<(String, usize)> {
        let mut named = Named::default();
        named.look("crates/life/src/a.rs", &Source::parse(code));
        let findings = named.compare(TEXT);
        findings
            .into_iter()
            .map(|finding| (finding.path, finding.line))
            .collect()
    }

    #[test]
    fn each_process_has_a_row() {
        let both = "// process: listener\nfork_apart(x);\n// process: ways of `a`\n#[expect(x)]\nlet a = Command::new(x);\n";
        assert_eq!(found(both), []);
        let code = |path: &str, line| (path.to_owned(), line);
        let (here, table) = ("crates/life/src/a.rs", TABLE);
        // A row without a place.
        assert_eq!(found("// process: listener\nfork_worker(x);\n"), [code(table, 8)]);
        // A place without a name.
        let unnamed = format!("{both}\n\n\n\n\n\n\nset_title(x);\n");
        assert_eq!(found(&unnamed), [code(here, 13)]);
        // A name without a row.
        let stray = format!("{both}// process: listen\nset_title(x);\n");
        assert_eq!(found(&stray), [code(here, 6)]);
    }

    #[test]
    fn makers_are_told_from_their_definitions() {
        for line in [
            "    let a = tote_sys::fork_worker(|| {",
            "std::process::Command::new(x)",
            "set_title(&title);",
        ] {
            assert!(makes(line), "{line}");
        }
        for line in [
            "pub fn fork_worker(work: X)",
            "use a::{fork_worker, b};",
            "a.fork_workers(1)",
            "fn set_title(a: b) {",
            "my_set_title(a)",
        ] {
            assert!(!makes(line), "{line}");
        }
    }
}
