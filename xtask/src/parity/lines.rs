//! The tables of command lines, and their parser.
//!
//! ```text
//! # a comment
//! ## title of a group
//! = a line that prepares: both engines must carry it out, and nothing of it is compared
//! a line for sh(1), which is compared
//! ! why the line above differs
//! ```

use anyhow::{Result, bail, ensure};

/// The tables, with their names for messages.
const TABLES: &[(&str, &str)] = &[
    ("run.txt", include_str!("tables/run.txt")),
    ("network.txt", include_str!("tables/network.txt")),
    ("containers.txt", include_str!("tables/containers.txt")),
    ("images.txt", include_str!("tables/images.txt")),
    ("system.txt", include_str!("tables/system.txt")),
];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) title: String,
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Script for sh(1), in which `docker` is the engine.
    pub(super) script: String,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Prepares,
    Compared,
    /// Compared, and known to differ for this reason.
    Differs(String),
}

/// Returns the groups whose titles contain the filter.
///
/// # Errors
/// A table has a mistake, or no title contains the filter.
pub(super) fn selected(filter: Option<&str>) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for (name, text) in TABLES {
        groups.extend(parse(name, text)?);
    }
    groups.retain(|group| filter.is_none_or(|filter| group.title.contains(filter)));
    ensure!(!groups.is_empty(), "parity: no group has such a title");
    Ok(groups)
}

fn parse(name: &str, text: &str) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{name}:{}", number + 1);
        if let Some(title) = line.strip_prefix("## ") {
            groups.push(Group {
                title: title.to_owned(),
                lines: Vec::new(),
            });
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(group) = groups.last_mut() else {
            bail!("{}: a line before the first group", place());
        };
        if let Some(reason) = line.strip_prefix("! ") {
            match group.lines.last_mut() {
                Some(last) if last.kind == Kind::Compared => last.kind = Kind::Differs(reason.to_owned()),
                _ => bail!("{}: a reason without a line that is compared", place()),
            }
            continue;
        }
        let (kind, script) = match line.strip_prefix("= ") {
            Some(script) => (Kind::Prepares, script),
            None => (Kind::Compared, line),
        };
        group.lines.push(Line {
            script: script.to_owned(),
            kind,
        });
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables() {
        let groups = selected(None).unwrap();
        let mut titles: Vec<&str> = groups.iter().map(|group| group.title.as_str()).collect();
        titles.sort_unstable();
        let all = titles.len();
        titles.dedup();
        assert_eq!(titles.len(), all);
        // Fewer lines would say less than docker's reference does.
        let lines = groups.iter().flat_map(|group| &group.lines);
        assert!(lines.filter(|line| line.kind != Kind::Prepares).count() >= 429);
        selected(Some("nosuch")).unwrap_err();
    }

    #[test]
    fn kinds() {
        let text = "# c\n## one\n= p\na\nb\n! because\n\n## two\nc\n";
        let groups = parse("t", text).unwrap();
        let line = |script: &str, kind| Line {
            script: script.to_owned(),
            kind,
        };
        let differs = Kind::Differs("because".to_owned());
        let one = [
            line("p", Kind::Prepares),
            line("a", Kind::Compared),
            line("b", differs),
        ];
        assert_eq!(groups[0].lines, one);
        assert_eq!(groups[1].title, "two");
        for (text, place) in [("a", "t:1"), ("## g\n! r", "t:2"), ("## g\n= p\n! r", "t:3")] {
            let error = parse("t", text).unwrap_err().to_string();
            assert!(error.starts_with(place), "{error}");
        }
    }
}
