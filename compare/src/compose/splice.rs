//! Words of command lines: names in braces become what they stand for.

use super::PORT;
use crate::catalogue::{Candidate, Experiment};
use bench::step::{Note, Repeat, Step, Together};
use std::collections::BTreeMap;

/// Port in a container that is published, where the experiment names no other.
const LISTENS: u16 = 80;

/// Lists of words that take the place of one word.
#[derive(Clone, Debug)]
pub(super) struct Splice {
    pub(super) lists: BTreeMap<String, Vec<String>>,
    /// Texts that are replaced in every word: the name in braces, and what it stands for.
    texts: Vec<(&'static str, String)>,
}

impl Splice {
    /// Returns one of a candidate's own lists alone.
    pub(super) fn of(candidate: &Candidate) -> Self {
        Splice {
            lists: candidate.words.clone(),
            texts: Vec::new(),
        }
    }

    pub(super) fn new(candidate: &Candidate, experiment: &Experiment, image: &str, size: &str) -> Self {
        let mut lists = candidate.words.clone();
        let network = lists.get(&experiment.network).cloned().unwrap_or_default();
        lists.insert("network".to_owned(), network);
        if !experiment.publish {
            lists.insert("publish".to_owned(), Vec::new());
        }
        lists.insert("command".to_owned(), experiment.command.clone());
        lists.insert("image".to_owned(), vec![image.to_owned()]);
        let listens = experiment.listens.unwrap_or(LISTENS);
        let texts = vec![
            ("{size}", size.to_owned()),
            ("{port}", PORT.to_owned()),
            ("{listens}", listens.to_string()),
            ("{image}", image.to_owned()),
        ];
        Splice { lists, texts }
    }

    /// Returns the same for another command in another container, whose name ends with a word instead of a number.
    pub(super) fn beside(&self, command: &[String], word: &'static str) -> Self {
        let mut other = self.clone();
        other.lists.insert("command".to_owned(), command.to_vec());
        other.lists.insert("publish".to_owned(), Vec::new());
        other.texts.push(("{n}", word.to_owned()));
        other
    }

    pub(super) fn words(&self, argv: &[String]) -> Vec<String> {
        let mut words = Vec::with_capacity(argv.len());
        for word in argv {
            let name = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
            match name.and_then(|name| self.lists.get(name)) {
                Some(list) if name != Some("image") => words.extend(self.words(list)),
                Some(list) => words.extend(list.iter().cloned()),
                None => {
                    let texts = self.texts.iter();
                    words.push(texts.fold(word.clone(), |word, (name, text)| word.replace(name, text)));
                }
            }
        }
        words
    }

    pub(super) fn step(&self, step: &Step) -> Step {
        match step {
            Step::Run(argv) => Step::Run(self.words(argv)),
            Step::Note(Note { name, argv }) => Step::Note(Note {
                name: name.clone(),
                argv: self.words(argv),
            }),
            Step::Repeat(Repeat { times, argv }) => Step::Repeat(Repeat {
                times: *times,
                argv: self.words(argv),
            }),
            Step::Together(Together { together, argv }) => Step::Together(Together {
                together: *together,
                argv: self.words(argv),
            }),
            Step::Wait(_) | Step::Answer(_) | Step::Parallel(_) => step.clone(),
        }
    }
}
