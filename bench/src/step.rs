//! A step of a candidate, and the words of its command line, in which places are filled in.

use anyhow::{Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A step: a command, a repeated command, a command whose output later steps need, or a wait.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Step {
    /// A command.
    Run(Vec<String>),
    /// A wait.
    Wait(Wait),
    /// A command whose output is kept.
    Note(Note),
    /// A repeated command.
    Repeat(Repeat),
    /// Commands at once.
    Together(Together),
    /// A wait for a web server.
    Answer(Answer),
    /// Commands that are started at once: a [`Together`] whose places are filled in.
    #[serde(skip)]
    Parallel(Vec<Vec<String>>),
}

/// The condition of a wait.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// The end of all processes that were left to this one, such as a container's.
    Reap,
}

/// A command whose stdout, trimmed, becomes the place `{noted:NAME}` of the steps after it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Name of the value.
    #[serde(rename = "note")]
    pub name: String,
    /// The command.
    #[serde(rename = "of")]
    pub argv: Vec<String>,
}

/// A command that is run several times, one after another; `{n}` counts from 0.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// Number of runs.
    pub times: usize,
    /// The command.
    #[serde(rename = "run")]
    pub argv: Vec<String>,
}

/// A command that is started several times at once; `{n}` counts from 0. The step ends with the last of them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Together {
    /// Number of commands.
    pub together: usize,
    /// The command.
    #[serde(rename = "run")]
    pub argv: Vec<String>,
}

/// A wait until a web server answers with a text.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Address and port.
    #[serde(rename = "answer")]
    pub address: SocketAddr,
    /// Part of the response's text.
    pub contains: String,
}

impl Answer {
    /// Asks until the text arrives; false if it does not in time. Between attempts it waits for a part of a millisecond, so that a
    /// machine of one processor has time for the server.
    #[must_use]
    pub fn arrives_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if self.ask().is_ok_and(|found| found) {
                return true;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        false
    }

    fn ask(&self) -> std::io::Result<bool> {
        let limit = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&self.address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(64 << 10).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).contains(&self.contains))
    }
}

impl Note {
    /// Returns the name of the place.
    pub fn place(&self) -> String {
        format!("noted:{}", self.name)
    }
}

impl Step {
    /// Returns the command of a step that has one.
    pub fn argv(&self) -> Option<&[String]> {
        match self {
            Step::Run(argv)
            | Step::Note(Note { argv, .. })
            | Step::Repeat(Repeat { argv, .. })
            | Step::Together(Together { argv, .. }) => Some(argv),
            Step::Parallel(commands) => commands.first().map(Vec::as_slice),
            Step::Wait(Wait::Reap) | Step::Answer(_) => None,
        }
    }

    /// Returns the step with another argv.
    pub fn with(&self, argv: Vec<String>) -> Self {
        match self {
            Step::Note(note) => Step::Note(Note {
                name: note.name.clone(),
                argv,
            }),
            _ => Step::Run(argv),
        }
    }

    /// Returns the number of runs.
    pub fn times(&self) -> usize {
        match self {
            Step::Repeat(repeat) => repeat.times,
            Step::Together(together) => together.together,
            _ => 1,
        }
    }

    /// True if the step runs at all.
    pub fn runs(&self) -> bool {
        self.times() > 0
    }

    /// Formats the step for people.
    pub fn told(&self) -> String {
        let command = match (self, self.argv()) {
            (_, Some(argv)) => argv.join(" "),
            (Step::Answer(answer), None) => format!("await an answer of {}", answer.address),
            (_, None) => "reap".to_owned(),
        };
        match (self, self.times()) {
            (_, 1) => command,
            (Step::Together(_), times) => format!("{times} at once: {command}"),
            (_, times) => format!("{times} times: {command}"),
        }
    }
}

/// Replaces every `{NAME}` in `template` by its value. Braces cannot be escaped.
pub fn expand(template: &str, places: &BTreeMap<String, String>) -> Result<String> {
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
pub fn words(argv: &[String], places: &BTreeMap<String, String>) -> Result<Vec<String>> {
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
