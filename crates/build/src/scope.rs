//! Variables: which ones an instruction sees.

use crate::Fault;
use std::collections::{BTreeMap, BTreeSet};
use tote_dockerfile::{Arg, Dockerfile, expand, expand_words};
use tote_image::Platform;

/// Arguments that commands see without an `ARG`, and that no key depends on.
const PROXIES: [&str; 5] = ["HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"];

fn is_proxy(name: &str) -> bool {
    PROXIES.iter().any(|proxy| proxy.eq_ignore_ascii_case(name)) && {
        let upper = name.bytes().all(|byte| !byte.is_ascii_lowercase());
        upper || name.bytes().all(|byte| !byte.is_ascii_uppercase())
    }
}

/// What holds for all stages: `--build-arg`, and `ARG` before the first `FROM`.
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
        platform: &Platform,
    ) -> Result<Self, Fault> {
        let mut globals = Self {
            escape: file.directives.escape,
            given: given.clone(),
            values: platform_args(platform),
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

    /// What was given and never asked for.
    pub(crate) fn unused(&self) -> Vec<String> {
        let unused = |name: &&String| !self.asked.contains(*name) && !is_proxy(name);
        self.given.keys().filter(unused).cloned().collect()
    }
}

fn platform_args(platform: &Platform) -> BTreeMap<String, String> {
    let mut args = BTreeMap::new();
    let words = platform.to_string();
    let mut parts = words.split('/');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (os, arch, variant) = (next(), next(), next());
    for which in ["TARGET", "BUILD"] {
        args.insert(format!("{which}PLATFORM"), words.clone());
        args.insert(format!("{which}OS"), os.clone());
        args.insert(format!("{which}ARCH"), arch.clone());
        args.insert(format!("{which}VARIANT"), variant.clone());
    }
    args
}

/// The arguments of one stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    args: Vec<(String, Option<String>)>,
}

impl Scope {
    /// `ARG`: the command line's value, the default, or that from before the first `FROM`.
    pub(crate) fn declare(&mut self, globals: &mut Globals, arg: &Arg, env: &[String]) -> Result<(), Fault> {
        globals.asked.insert(arg.name.clone());
        let value = match (globals.given.get(&arg.name), &arg.default) {
            (Some(given), _) => Some(given.clone()),
            (None, Some(default)) => Some(self.expand(globals, default, env)?),
            (None, None) => globals.values.get(&arg.name).cloned(),
        };
        self.args.retain(|(name, _)| *name != arg.name);
        self.args.push((arg.name.clone(), value));
        Ok(())
    }

    /// Replaces variables in a word; those of the image win over arguments.
    pub(crate) fn expand(&self, globals: &Globals, text: &str, env: &[String]) -> Result<String, Fault> {
        Ok(expand(text, globals.escape, &|name| self.value(name, env))?)
    }

    /// The same, and splits at blanks.
    pub(crate) fn words(&self, globals: &Globals, text: &str, env: &[String]) -> Result<Vec<String>, Fault> {
        Ok(expand_words(text, globals.escape, &|name| self.value(name, env))?)
    }

    /// Replaces variables in a here-document, in which quotes are quotes and only a backslash escapes.
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
        let found = self.args.iter().find(|(arg, _)| arg == name);
        found.and_then(|(_, value)| value.clone())
    }

    /// The arguments that a command sees as variables, sorted.
    pub(crate) fn visible(&self, env: &[String]) -> Vec<String> {
        let visible = self.args.iter().filter(|(name, _)| value_of(env, name).is_none());
        let mut words: Vec<_> = visible
            .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={value}")))
            .collect();
        words.sort();
        words
    }

    /// Proxies that were given without being asked for.
    pub(crate) fn proxies(&self, globals: &Globals) -> Vec<String> {
        let given = globals.given.iter().filter(|(name, _)| is_proxy(name));
        given
            .filter(|(name, _)| !self.args.iter().any(|(arg, _)| arg == *name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }
}

fn value_of<'a>(env: &'a [String], name: &str) -> Option<&'a str> {
    env.iter()
        .filter_map(|word| word.split_once('='))
        .find_map(|(known, value)| (known == name).then_some(value))
}
