//! `--label-file`.

use crate::error::OptionError;
use crate::options::RunOptions;
use crate::value::{PairError, parse_label};
use std::collections::BTreeMap;

impl RunOptions {
    /// Takes the texts of the files given with `--label-file`, in order. Each line holds a label; blank lines and
    /// those that begin with `#` are skipped. A later file wins over an earlier one, and `--label` over all files.
    ///
    /// # Errors
    /// [`OptionError::LabelFile`] holds the reason and the line.
    pub fn add_label_files(&mut self, texts: &[String]) -> Result<(), OptionError> {
        let mut labels = BTreeMap::new();
        for text in texts {
            labels.extend(parse_label_file(text).map_err(OptionError::LabelFile)?);
        }
        labels.extend(std::mem::take(&mut self.labels));
        self.labels = labels;
        Ok(())
    }
}

fn parse_label_file(text: &str) -> Result<Vec<(String, String)>, PairError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parse_label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_files() {
        let mut options = RunOptions::default();
        options.set("label", "a=said").unwrap();
        let texts = ["a=1\r\n# b=2\n\n  c=x y \nd\n".to_owned(), "c=later\n".to_owned()];
        options.add_label_files(&texts).unwrap();
        let labels: Vec<_> = options
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(labels, ["a=said", "c=later", "d="]);
        for text in ["=1", "a b=1"] {
            assert!(options.add_label_files(&[text.to_owned()]).is_err(), "{text}");
        }
    }
}
