//! The command line.

use super::engine::Engine;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// What to try under which engines, and what to compare it with. Paths are absolute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The engine itself where none is named.
    pub(super) runtime: Option<PathBuf>,
    /// runc where none is named, nothing where there is no runc.
    pub(super) reference: Option<PathBuf>,
    /// All where none is named.
    pub(super) engine: Option<Engine>,
    /// Only cases whose name contains this.
    pub(super) filter: Option<String>,
    /// Whether engines and runtimes see a v2 hierarchy beside those of v1: some refuse to run then.
    pub(super) unified: bool,
    /// Where the output of each case goes.
    pub(super) logs: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self {
            unified: true,
            ..Self::default()
        };
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
                "--no-unified" => options.unified = false,
                option if option.starts_with('-') => bail!("dropin: no option {option}"),
                filter if options.filter.is_none() => options.filter = Some(filter.to_owned()),
                second => bail!("dropin: one filter, not also {second:?}"),
            }
        }
        Ok(options)
    }

    /// The words that [`Self::parse`] makes these options of.
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
        if !self.unified {
            words.push("--no-unified".to_owned());
        }
        words.extend(self.filter.clone());
        words
    }
}

/// Engines run in directories of their own. A link stays one: a runtime may go by its name.
fn absolute(path: &str) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("path {path:?}"))
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
