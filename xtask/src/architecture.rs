//! The machine-readable parts of ARCHITECTURE.md: the crate graph, and the table of dependencies.

use anyhow::{Context, Result, bail};

/// Path of the file, relative to the workspace's root.
pub(crate) const PATH: &str = "ARCHITECTURE.md";

/// A line of the block fenced by ```` ```deps ````: `engine -> runtime spec`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrow {
    /// The crate that depends.
    pub(crate) from: String,
    /// The crates that it depends on.
    pub(crate) to: Vec<String>,
    /// Line number in the file, from 1.
    pub(crate) line: usize,
}

/// A row of the table in the section "Dependencies".
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The external package.
    pub(crate) name: String,
    /// The members of the workspace that may use it.
    pub(crate) users: Vec<String>,
    /// Line number in the file, from 1.
    pub(crate) line: usize,
}

/// Parses the fenced block of arrows.
///
/// # Errors
/// The block is missing, or a line in it is not an arrow.
pub(crate) fn arrows(markdown: &str) -> Result<Vec<Arrow>> {
    (block(markdown, "deps")?.into_iter())
        .map(|(line, text)| {
            let Some((from, to)) = text.split_once("->") else {
                bail!("{PATH}:{line}: {text:?} is not an arrow: write `crate -> crate crate …`");
            };
            Ok(Arrow {
                from: from.trim().to_owned(),
                to: to.split_whitespace().map(str::to_owned).collect(),
                line,
            })
        })
        .collect()
}

/// Returns the lines of the block that is fenced with that word, with their numbers.
fn block<'a>(markdown: &'a str, word: &str) -> Result<Vec<(usize, &'a str)>> {
    let begin = format!("```{word}");
    let mut lines = (1..)
        .zip(markdown.lines())
        .skip_while(|(_, line)| line.trim() != begin);
    lines
        .next()
        .with_context(|| format!("{PATH}: no block fenced by {begin}"))?;
    let mut block = Vec::new();
    for (line, text) in lines {
        if text.trim() == "```" {
            return Ok(block);
        }
        block.push((line, text));
    }
    bail!("{PATH}: the block fenced by {begin} has no end")
}

/// Parses the table `| crate | where | why |` of the section `## Dependencies`.
///
/// A cell of names lists them with commas; backticks are ignored.
///
/// # Errors
/// The section is missing, or has no row.
pub(crate) fn dependencies(markdown: &str) -> Result<Vec<Row>> {
    let section = (1..)
        .zip(markdown.lines())
        .skip_while(|(_, line)| line.trim_end() != "## Dependencies")
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "));
    let mut rows = Vec::new();
    for (line, text) in section
        .filter(|(_, text)| text.starts_with('|'))
        .skip(HEADER_ROWS)
    {
        let mut cells = text.trim_matches('|').split('|').map(names);
        let (packages, users) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        rows.extend(packages.into_iter().map(|name| Row {
            name,
            users: users.clone(),
            line,
        }));
    }
    if rows.is_empty() {
        bail!("{PATH}: no table in a section \"## Dependencies\"");
    }
    Ok(rows)
}

/// Number of rows before the first one with content: the titles and the dashes below them.
const HEADER_ROWS: usize = 2;

fn names(cell: &str) -> Vec<String> {
    cell.split(',')
        .map(|name| name.trim().trim_matches('`').to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_read_with_line_numbers() {
        let arrows =
            arrows("# A\n```text\nx -> y\n```\n```deps\ncli  -> engine sys\nsys  ->\n```\nz -> z\n").unwrap();
        let cli = Arrow {
            from: "cli".to_owned(),
            to: vec!["engine".to_owned(), "sys".to_owned()],
            line: 6,
        };
        let sys = Arrow {
            from: "sys".to_owned(),
            to: vec![],
            line: 7,
        };
        assert_eq!(arrows, [cli, sys]);
    }

    #[test]
    fn a_broken_block_is_an_error() {
        for (markdown, message) in [
            ("no block", "no block"),
            ("```deps\na -> b\n", "has no end"),
            (
                "```deps\na b\n```\n",
                "ARCHITECTURE.md:2: \"a b\" is not an arrow",
            ),
        ] {
            let error = arrows(markdown).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn the_table_is_read_from_its_section_only() {
        let markdown = "| a | b |\n|--|--|\n| no | no |\n## Dependencies\ntext\n| crate | where | why |\n|--|--|--|\n\
            | `serde`, `serde_json` | spec, bundle | JSON |\n## Next\n| no | no | no |\n";
        let rows = dependencies(markdown).unwrap();
        let names: Vec<_> = rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["serde", "serde_json"]);
        assert_eq!(rows[1].users, ["spec", "bundle"]);
        assert_eq!(rows[1].line, 8);
        dependencies("## Dependencies\nnothing\n").unwrap_err();
    }
}
