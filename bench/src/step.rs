//! A step of a candidate, and the words of its command line, in which places are filled in.

use anyhow::{Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A step: a command, a repeated command, a command whose output later steps need, or a wait.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub(crate) enum Step {
    Run(Vec<String>),
    Wait(Wait),
    Note(Note),
    Repeat(Repeat),
}

/// The condition of a wait.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wait {
    /// The end of all processes that were left to this one, such as a container's.
    Reap,
}

/// A command whose stdout, trimmed, becomes the place `{noted:NAME}` of the steps after it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Note {
    #[serde(rename = "note")]
    pub(crate) name: String,
    #[serde(rename = "of")]
    pub(crate) argv: Vec<String>,
}

/// A command that is run several times, one after another; `{n}` counts from 0.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repeat {
    pub(crate) times: usize,
    #[serde(rename = "run")]
    pub(crate) argv: Vec<String>,
}

impl Note {
    /// Returns the name of the place.
    pub(crate) fn place(&self) -> String {
        format!("noted:{}", self.name)
    }
}

impl Step {
    pub(crate) fn argv(&self) -> Option<&[String]> {
        match self {
            Step::Run(argv) | Step::Note(Note { argv, .. }) | Step::Repeat(Repeat { argv, .. }) => Some(argv),
            Step::Wait(Wait::Reap) => None,
        }
    }

    /// Returns the step with another argv.
    pub(crate) fn with(&self, argv: Vec<String>) -> Self {
        match self {
            Step::Note(note) => Step::Note(Note {
                name: note.name.clone(),
                argv,
            }),
            _ => Step::Run(argv),
        }
    }

    /// Returns the number of runs.
    pub(crate) fn times(&self) -> usize {
        match self {
            Step::Repeat(repeat) => repeat.times,
            _ => 1,
        }
    }

    /// True if the step runs at all.
    pub(crate) fn runs(&self) -> bool {
        self.times() > 0
    }

    pub(crate) fn told(&self) -> String {
        let command = self
            .argv()
            .map_or_else(|| "reap".to_owned(), |argv| argv.join(" "));
        match self.times() {
            1 => command,
            times => format!("{times} times: {command}"),
        }
    }
}

/// Replaces every `{NAME}` in `template` by its value. Braces cannot be escaped.
pub(crate) fn expand(template: &str, places: &BTreeMap<String, String>) -> Result<String> {
    let mut expanded = String::new();
    let mut rest = template;
    while let Some((before, from_name)) = rest.split_once('{') {
        let Some((name, after)) = from_name.split_once('}') else {
            bail!("{template:?} has a brace that is not closed");
        };
        let Some(value) = places.get(name) else {
            bail!("{template:?} has the unknown place {{{name}}}");
        };
        expanded.push_str(before);
        expanded.push_str(value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Fills the places into the words of an argv. A word with `{A..B}` becomes a word for each number from A to B.
pub(crate) fn words(argv: &[String], places: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let mut words = Vec::with_capacity(argv.len());
    for word in argv {
        match range(word) {
            Some((before, numbers, after)) => {
                for number in numbers {
                    words.push(expand(&format!("{before}{number}{after}"), places)?);
                }
            }
            None => words.push(expand(word, places)?),
        }
    }
    Ok(words)
}

/// Splits a word at the first `{A..B}`: the text before, the numbers, and the text after.
fn range(word: &str) -> Option<(&str, std::ops::RangeInclusive<usize>, &str)> {
    let places = word.match_indices('{').filter_map(|(open, _)| {
        let (place, after) = word.get(open + 1..)?.split_once('}')?;
        let (first, last) = place.split_once("..")?;
        Some((word.get(..open)?, first.parse().ok()?..=last.parse().ok()?, after))
    });
    { places }.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_replaced_and_unknown_ones_refused() {
        let places = BTreeMap::from([
            ("id".to_owned(), "x1".to_owned()),
            ("state:crun".to_owned(), "/s".to_owned()),
        ]);
        let cases = [
            ("plain", Some("plain")),
            ("{id}", Some("x1")),
            ("a{id}b{state:crun}c", Some("ax1b/sc")),
            ("}", Some("}")),
            ("{", None),
            ("{id", None),
            ("{nobody}", None),
            ("", Some("")),
        ];
        for (template, expected) in cases {
            assert_eq!(
                expand(template, &places).ok().as_deref(),
                expected,
                "{template:?}"
            );
        }
    }

    #[test]
    fn ranges_are_many_words() {
        let places = BTreeMap::from([("id".to_owned(), "x".to_owned())]);
        let spread = |argv: &[&str]| {
            let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
            words(&argv, &places).map(|words| words.join(" ")).ok()
        };
        let cases = [
            (&["rm", "{id}-{0..2}"][..], Some("rm x-0 x-1 x-2")),
            (&["{3..3}"], Some("3")),
            (&["a{2..1}", "b"], Some("b")),
            (&["{id}"], Some("x")),
            (&["{a..b}"], None),
            (&["{1..}"], None),
        ];
        for (argv, expected) in cases {
            assert_eq!(spread(argv).as_deref(), expected, "{argv:?}");
        }
    }
}
