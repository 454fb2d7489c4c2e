//! The command line.

use super::engine::Engine;
use crate::enclosure::{Shown, absolute};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// The runtimes to compare, the engines and the cases. Paths are absolute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Runtime under test; `None` for the engine itself.
    pub(super) runtime: Option<PathBuf>,
    /// Reference; runc if none is named, `None` if runc is missing.
    pub(super) reference: Option<PathBuf>,
    /// Engine to use; `None` for all.
    pub(super) engine: Option<Engine>,
    /// Word that the names of cases must contain.
    pub(super) filter: Option<String>,
    /// Hierarchies that engines and runtimes see; some refuse to run with a v2 hierarchy beside those of v1.
    pub(super) shown: Shown,
    /// Directory for the output of each case.
    pub(super) logs: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self { ..Self::default() };
        let mut rest = words.iter();
        while let Some(&word) = rest.next() {
            let mut value = || {
                let value = rest.next();
                value.with_context(|| format!("dropin: {word} needs a value"))
            };
            match word {
                "--runtime" => options.runtime = Some(absolute(value()?)?),
                "--against" => options.reference = Some(absolute(value()?)?),
                "--engine" => options.engine = Some(Engine::parse(value()?)?),
                "--logs" => options.logs = Some(absolute(value()?)?),
                option if option.starts_with('-') => {
                    options.shown =
                        Shown::named(option).with_context(|| format!("dropin: no option {option}"))?;
                }
                filter if options.filter.is_none() => options.filter = Some(filter.to_owned()),
                second => bail!("dropin: one filter, not also {second:?}"),
            }
        }
        Ok(options)
    }

    /// Returns the words that [`Self::parse`] turns into these options.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let paths = [
            ("--runtime", &self.runtime),
            ("--against", &self.reference),
            ("--logs", &self.logs),
        ];
        for (name, path) in paths {
            if let Some(path) = path {
                words.extend([name.to_owned(), path.display().to_string()]);
            }
        }
        if let Some(engine) = self.engine {
            words.extend(["--engine", engine.name()].map(str::to_owned));
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
            &["--runtime", "/r", "--against", "/s", "--engine", "docker", "exec"],
            &["--logs", "/l", "--no-unified"],
            &["--only-unified", "exec"],
        ] {
            let options = Options::parse(words).unwrap();
            let back = options.words();
            let back: Vec<&str> = back.iter().map(String::as_str).collect();
            assert_eq!(Options::parse(&back).unwrap(), options, "{words:?}");
        }
    }

    #[test]
    fn refusals() {
        for words in [&["--runtime"][..], &["--engine", "rkt"], &["--what"], &["a", "b"]] {
            Options::parse(words).unwrap_err();
        }
    }
}
