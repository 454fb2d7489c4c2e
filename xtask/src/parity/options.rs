//! The command line.

use crate::enclosure::{Shown, absolute};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// The programs to compare, and the groups of lines. Paths are absolute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The engine under test; `None` for one that is built.
    pub(super) tote: Option<PathBuf>,
    /// docker's client; `None` for the first one in PATH.
    pub(super) docker: Option<PathBuf>,
    /// Words that the title of a group must contain.
    pub(super) filter: Option<String>,
    pub(super) shown: Shown,
    /// Directory for the list of differences.
    pub(super) logs: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(&word) = rest.next() {
            let mut path = || {
                let value = rest.next();
                absolute(value.with_context(|| format!("parity: {word} needs a value"))?)
            };
            match word {
                "--tote" => options.tote = Some(path()?),
                "--docker" => options.docker = Some(path()?),
                "--logs" => options.logs = Some(path()?),
                option if option.starts_with('-') => {
                    options.shown =
                        Shown::named(option).with_context(|| format!("parity: no option {option}"))?;
                }
                filter if options.filter.is_none() => options.filter = Some(filter.to_owned()),
                second => bail!("parity: one filter, not also {second:?}"),
            }
        }
        Ok(options)
    }

    /// Returns the words that [`Self::parse`] turns into these options.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let paths = [
            ("--tote", &self.tote),
            ("--docker", &self.docker),
            ("--logs", &self.logs),
        ];
        for (name, path) in paths {
            if let Some(path) = path {
                words.extend([name.to_owned(), path.display().to_string()]);
            }
        }
        words.extend(self.shown.word().map(str::to_owned));
        words.extend(self.filter.clone());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_there_and_back() {
        for words in [
            &[][..],
            &["--tote", "/t", "--docker", "/d", "images"],
            &["--logs", "/l", "--no-unified"],
            &["--only-unified", "events"],
        ] {
            let options = Options::parse(words).unwrap();
            let back = options.words();
            let back: Vec<&str> = back.iter().map(String::as_str).collect();
            assert_eq!(Options::parse(&back).unwrap(), options, "{words:?}");
        }
    }

    #[test]
    fn refusals() {
        for words in [&["--tote"][..], &["--what"], &["a", "b"]] {
            Options::parse(words).unwrap_err();
        }
    }
}
