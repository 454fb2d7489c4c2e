//! A list of tests that some runtime passes, and the comparison of a run with it.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// Names of tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Passable(BTreeSet<String>);

/// Result of a comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Tests on the list that did not pass.
    pub(super) lost: Vec<String>,
    /// Tests that passed but are not on the list.
    pub(super) won: Vec<String>,
}

impl Passable {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Ok(Self::parse(&text))
    }

    /// Parses a list of one name per line; empty lines and those that begin with `#` are ignored.
    fn parse(text: &str) -> Self {
        let names = text.lines().map(str::trim);
        let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
        Self(names.map(str::to_owned).collect())
    }

    /// Compares the passed tests with the list, among the tests chosen by `wanted`. A test that the suite no longer
    /// has counts as lost.
    pub(super) fn compare(&self, passed: &BTreeSet<String>, wanted: impl Fn(&str) -> bool) -> Difference {
        let lost = self.0.difference(passed).filter(|name| wanted(name));
        Difference {
            lost: lost.cloned().collect(),
            won: passed.difference(&self.0).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_won() {
        let passable = Passable::parse("# all\n\nkill: a\nkill: b\nrun: a\n");
        let passed = BTreeSet::from(["kill: a".to_owned(), "kill: c".to_owned()]);
        let difference = passable.compare(&passed, |name| name.starts_with("kill"));
        assert_eq!(difference.lost, ["kill: b"]);
        assert_eq!(difference.won, ["kill: c"]);
    }
}
