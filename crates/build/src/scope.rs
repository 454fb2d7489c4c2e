//! Variables that an instruction sees.

use crate::Fault;
use std::collections::{BTreeMap, BTreeSet};
use tote_dockerfile::{Arg, Dockerfile, expand, expand_words};
use tote_image::Platform;

/// Arguments that commands see without an `ARG`, and that do not affect any key.
const PROXIES: [&str; 5] = ["HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"];

/// Prefix of the names of arguments that are for the builder itself.
const OF_THE_BUILDER: &str = "BUILDKIT_";

/// Argument, and variable of the caller, with the seconds since 1970 at which the result is to be made.
pub const EPOCH: &str = "SOURCE_DATE_EPOCH";

fn is_proxy(name: &str) -> bool {
    PROXIES.iter().any(|proxy| proxy.eq_ignore_ascii_case(name))
}

/// Variables of all stages: `--build-arg`, and `ARG` before the first `FROM`.
#[derive(Debug)]
pub(crate) struct Globals {
    escape: char,
    given: BTreeMap<String, String>,
    values: BTreeMap<String, String>,
    asked: BTreeSet<String>,
}

impl Globals {
    pub(crate) fn new(
        file: &Dockerfile,
        given: &BTreeMap<String, String>,
        wanted: &Wanted<'_>,
    ) -> Result<Self, Fault> {
        let mut values = wanted.args();
        for (name, value) in &mut values {
            if let Some(given) = given.get(name) {
                value.clone_from(given);
            }
        }
        let mut globals = Self {
            escape: file.directives.escape,
            given: given.clone(),
            values,
            asked: BTreeSet::new(),
        };
        for arg in &file.args {
            globals.asked.insert(arg.name.clone());
            let value = match given.get(&arg.name) {
                Some(given) => Some(given.clone()),
                None => arg
                    .default
                    .as_deref()
                    .map(|text| globals.expand(text))
                    .transpose()?,
            };
            globals
                .values
                .extend(value.map(|value| (arg.name.clone(), value)));
        }
        Ok(globals)
    }

    /// Replaces variables in `FROM`.
    pub(crate) fn expand(&self, text: &str) -> Result<String, Fault> {
        Ok(expand(text, self.escape, &|name| self.values.get(name).cloned())?)
    }

    /// Lists the arguments that instructions have declared so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.iter().cloned().collect()
    }

    /// Adds arguments that instructions have declared elsewhere.
    pub(crate) fn ask(&mut self, names: Vec<String>) {
        self.asked.extend(names);
    }

    /// Lists the arguments that the user gave and the file never declared.
    pub(crate) fn unused(&self) -> Vec<String> {
        let unused = |name: &&String| {
            !self.asked.contains(*name)
                && !is_proxy(name)
                && !name.starts_with(OF_THE_BUILDER)
                && *name != EPOCH
        };
        self.given.keys().filter(unused).cloned().collect()
    }
}

/// Settings of a build that affect its variables.
pub(crate) struct Wanted<'a> {
    /// `--platform`, or that of this machine.
    pub(crate) platform: &'a Platform,
    /// Platform of this machine, whose programs a `RUN` can execute.
    pub(crate) machine: &'a Platform,
    /// `--target`, else the name of the last stage.
    pub(crate) stage: Option<&'a str>,
}

impl Wanted<'_> {
    /// Returns the arguments that every build has.
    fn args(&self) -> BTreeMap<String, String> {
        let mut args = BTreeMap::new();
        for (which, platform) in [("TARGET", self.platform), ("BUILD", self.machine)] {
            let words = platform.to_string();
            let mut parts = words.split('/');
            for part in ["OS", "ARCH", "VARIANT"] {
                let value = parts.next().unwrap_or_default();
                args.insert(format!("{which}{part}"), value.to_owned());
            }
            args.insert(format!("{which}PLATFORM"), words);
        }
        let stage = self.stage.unwrap_or("default");
        args.insert("TARGETSTAGE".to_owned(), stage.to_owned());
        args
    }
}

/// The arguments of a stage; a stage that is based on it begins with a copy of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    args: Vec<(String, Option<String>)>,
}

impl Scope {
    /// Makes the scope of these arguments.
    pub(crate) fn of(args: Vec<(String, Option<String>)>) -> Self {
        Self { args }
    }

    /// Returns the arguments with their values.
    pub(crate) fn args(&self) -> &[(String, Option<String>)] {
        &self.args
    }

    /// Declares an `ARG`: its value is the command line's, else the default, else that from before the first
    /// `FROM`, else the one that an earlier `ARG` gave it, in this stage or in the one below it.
    pub(crate) fn declare(&mut self, globals: &mut Globals, arg: &Arg, env: &[String]) -> Result<(), Fault> {
        globals.asked.insert(arg.name.clone());
        let value = match (globals.given.get(&arg.name), &arg.default) {
            (Some(given), _) => Some(given.clone()),
            (None, Some(default)) => Some(self.expand(globals, default, env)?),
            (None, None) => globals
                .values
                .get(&arg.name)
                .cloned()
                .or_else(|| self.argument(&arg.name)),
        };
        self.args.retain(|(name, _)| *name != arg.name);
        self.args.push((arg.name.clone(), value));
        Ok(())
    }

    /// Replaces variables in a word; the image's environment wins over arguments.
    pub(crate) fn expand(&self, globals: &Globals, text: &str, env: &[String]) -> Result<String, Fault> {
        Ok(expand(text, globals.escape, &|name| self.value(name, env))?)
    }

    /// Replaces variables in a text, and splits it at blanks.
    pub(crate) fn words(&self, globals: &Globals, text: &str, env: &[String]) -> Result<Vec<String>, Fault> {
        Ok(expand_words(text, globals.escape, &|name| self.value(name, env))?)
    }

    /// Replaces variables in a here-document, where quotes are literal and only a backslash escapes.
    pub(crate) fn heredoc(&self, content: &str, env: &[String]) -> Result<String, Fault> {
        let mut escaped = String::with_capacity(content.len());
        for letter in content.chars() {
            if matches!(letter, '\'' | '"') {
                escaped.push('\\');
            }
            escaped.push(letter);
        }
        Ok(expand(&escaped, '\\', &|name| self.value(name, env))?)
    }

    fn value(&self, name: &str, env: &[String]) -> Option<String> {
        if let Some(value) = value_of(env, name) {
            return Some(value.to_owned());
        }
        self.argument(name)
    }

    fn argument(&self, name: &str) -> Option<String> {
        let found = self.args.iter().find(|(arg, _)| arg == name);
        found.and_then(|(_, value)| value.clone())
    }

    /// Lists the arguments that a command sees as variables, sorted.
    pub(crate) fn visible(&self, env: &[String]) -> Vec<String> {
        let visible = self.args.iter().filter(|(name, _)| value_of(env, name).is_none());
        let mut words: Vec<_> = visible
            .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={value}")))
            .collect();
        words.sort();
        words
    }

    /// Lists proxies that the user gave without an `ARG` in the file, each by its name in capitals and in small
    /// letters: programs look for one of the two.
    pub(crate) fn proxies(&self, globals: &Globals) -> Vec<String> {
        let mut words = Vec::new();
        for capitals in PROXIES {
            let mut given = globals.given.iter();
            let any = given.find(|(name, _)| name.eq_ignore_ascii_case(capitals));
            for name in [capitals.to_owned(), capitals.to_ascii_lowercase()] {
                let value = globals.given.get(&name).or(any.map(|(_, value)| value));
                let is_asked = self.args.iter().any(|(arg, _)| *arg == name);
                words.extend(value.filter(|_| !is_asked).map(|value| format!("{name}={value}")));
            }
        }
        words
    }
}

fn value_of<'a>(env: &'a [String], name: &str) -> Option<&'a str> {
    env.iter()
        .filter_map(|word| word.split_once('='))
        .find_map(|(known, value)| (known == name).then_some(value))
}
