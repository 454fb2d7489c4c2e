//! The command line of a run.

use super::suite::Suite;
use crate::enclosure::{Shown, absolute};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Duration;

/// Default time limit of a test: the slowest one of both suites takes a third of it on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);

/// The suite, the runtime, and the list to compare with. Paths are absolute.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) suite: Suite,
    pub(super) checkout: PathBuf,
    /// Runtime under test; `None` for the engine itself.
    pub(super) runtime: Option<PathBuf>,
    pub(super) passable: Option<PathBuf>,
    /// Word that the names of tests must contain.
    pub(super) filter: Option<String>,
    /// Time limit of a test.
    pub(super) limit: Duration,
    /// Hierarchies that engines and runtimes see; some refuse to run with a v2 hierarchy beside those of v1.
    pub(super) shown: Shown,
    /// Directory for the output of each test.
    pub(super) logs: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let Some((suite, rest)) = words.split_first() else {
            bail!("conformance: which suite? {}", Suite::NAMES);
        };
        let mut options = Self {
            shown: Shown::All,
            suite: Suite::parse(suite)?,
            checkout: PathBuf::new(),
            runtime: None,
            passable: None,
            filter: None,
            limit: LIMIT,
            logs: None,
        };
        let mut rest = rest.iter();
        while let Some(&word) = rest.next() {
            let mut value = || {
                let value = rest.next();
                value.with_context(|| format!("conformance: {word} needs a value"))
            };
            match word {
                "--checkout" => options.checkout = absolute(value()?)?,
                "--runtime" => options.runtime = Some(absolute(value()?)?),
                "--passable" => options.passable = Some(absolute(value()?)?),
                "--logs" => options.logs = Some(absolute(value()?)?),
                "--limit" => options.limit = seconds(value()?)?,
                option if option.starts_with('-') => {
                    options.shown =
                        Shown::named(option).with_context(|| format!("conformance: no option {option}"))?;
                }
                filter if options.filter.is_none() => options.filter = Some(filter.to_owned()),
                second => bail!("conformance: one filter, not also {second:?}"),
            }
        }
        if options.checkout.as_os_str().is_empty() {
            bail!("conformance: where is the suite? --checkout DIR");
        }
        Ok(options)
    }

    /// Returns the words that [`Self::parse`] turns into these options.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = vec![self.suite.name().to_owned()];
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        option("--checkout", self.checkout.display().to_string());
        let paths = [
            ("--runtime", &self.runtime),
            ("--passable", &self.passable),
            ("--logs", &self.logs),
        ];
        for (name, path) in paths {
            if let Some(path) = path {
                option(name, path.display().to_string());
            }
        }
        option("--limit", self.limit.as_secs().to_string());
        words.extend(self.shown.word().map(str::to_owned));
        words.extend(self.filter.clone());
        words
    }
}

fn seconds(text: &str) -> Result<Duration> {
    let seconds = text.parse().with_context(|| format!("--limit {text}: seconds"))?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_there_and_back() {
        for words in [
            &["runtime-tools", "--checkout", "/s"][..],
            &[
                "runc-bats",
                "--checkout",
                "/s",
                "--no-unified",
                "--limit",
                "5",
                "kill",
            ],
            &[
                "runc-bats",
                "--checkout",
                "/s",
                "--runtime",
                "/r",
                "--passable",
                "/p",
                "--logs",
                "/l",
            ],
        ] {
            let options = Options::parse(words).unwrap();
            let back = options.words();
            let back: Vec<&str> = back.iter().map(String::as_str).collect();
            assert_eq!(Options::parse(&back).unwrap(), options, "{words:?}");
        }
    }

    #[test]
    fn refusals() {
        for words in [
            &[][..],
            &["bats", "--checkout", "/s"],
            &["runc-bats"],
            &["runc-bats", "--checkout"],
            &["runc-bats", "--checkout", "/s", "--what"],
            &["runc-bats", "--checkout", "/s", "--limit", "soon"],
            &["runc-bats", "--checkout", "/s", "a", "b"],
        ] {
            Options::parse(words).unwrap_err();
        }
    }
}
