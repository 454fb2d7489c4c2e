//! Candidates, experiments, images and constraints: TOML files, those of the program and those of a directory of the
//! user's. A file of the user's replaces one of the same name.

mod experiment;

pub(crate) use self::experiment::Experiment;

use crate::tables::shipped;
use anyhow::{Context, Result, bail, ensure};
use bench::apparatus::Plan;
use bench::scenario::{AsUser, Tree};
use bench::step::Step;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use toml::{Table, Value};

/// Everything that can be measured.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) experiments: Vec<Experiment>,
    pub(crate) images: BTreeMap<String, Tree>,
    rules: Vec<Rule>,
}

/// An engine with its settings. The format: `docs/bench.md`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Candidate {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) manager: String,
    pub(crate) runtime: String,
    pub(crate) driver: String,
    pub(crate) isolation: String,
    /// Group of candidates that are measured only if they are named: `ablation`.
    #[serde(default)]
    pub(crate) group: String,
    /// True if a quick measurement has it without its name.
    #[serde(default = "yes")]
    pub(crate) quick: bool,
    #[serde(default, rename = "as")]
    pub(crate) as_user: AsUser,
    /// Version of control groups that the candidate must have: `v1`, `v2` or `hybrid`; empty for any.
    #[serde(default)]
    pub(crate) cgroups: String,
    /// Number of containers that the candidate is asked for at once at most.
    pub(crate) most: Option<f64>,
    /// Programs that must be there.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// Name of an image for the engine; `{image}` is the name of the experiment's.
    pub(crate) image: String,
    /// Names of the images that the candidate can have; empty for all.
    #[serde(default)]
    pub(crate) images: Vec<String>,
    /// Command that brings an image into the engine's store.
    #[serde(default)]
    pub(crate) loads: Vec<String>,
    #[serde(default)]
    pub(crate) version: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Directories that the engine must leave empty.
    #[serde(default)]
    pub(crate) states: Vec<String>,
    #[serde(default)]
    pub(crate) apparatus: Plan,
    /// Specification of a bundle for each image.
    pub(crate) bundle: Option<BundleOf>,
    /// Lists of words: `"{NAME}"` in a command becomes the words of the list.
    #[serde(default)]
    pub(crate) words: BTreeMap<String, Vec<String>>,
    pub(crate) verbs: BTreeMap<String, Vec<Step>>,
}

fn yes() -> bool {
    true
}

impl Candidate {
    /// Lists the steps of a verb; none if the candidate does not know it.
    pub(crate) fn verb(&self, name: &str) -> &[Step] {
        self.verbs.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Bundle of a candidate, without its root.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BundleOf {
    pub(crate) spec: Vec<String>,
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) patch: serde_json::Value,
}

/// Combinations that cannot work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    #[serde(default)]
    rule: Vec<Rule>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    when: Table,
    refused: String,
}

impl Catalogue {
    /// Reads what is shipped, and what is in the folders `candidates`, `experiments` and `images` of `own`.
    pub(crate) fn read(own: Option<&Path>) -> Result<Self> {
        let candidates = tables(shipped::CANDIDATES, own, "candidates")?;
        let mut read = Vec::new();
        for (name, _) in &candidates {
            let whole = extended(name, &candidates, &mut BTreeSet::new())?;
            let mut candidate: Candidate = understood("candidate", name, whole)?;
            candidate.name.clone_from(name);
            read.push(candidate);
        }
        let mut experiments = Vec::new();
        for (name, table) in tables(shipped::EXPERIMENTS, own, "experiments")? {
            let mut experiment: Experiment = understood("experiment", &name, table)?;
            experiment.name = name;
            experiment.check()?;
            experiments.push(experiment);
        }
        experiments.sort_by_key(|experiment| experiment.order);
        let mut images = BTreeMap::new();
        for (name, table) in tables(shipped::IMAGES, own, "images")? {
            images.insert(name.clone(), understood("image", &name, table)?);
        }
        for experiment in &experiments {
            let Experiment { name, of, .. } = experiment;
            if let Some(image) = experiment.images().find(|image| !images.contains_key(*image)) {
                bail!("the experiment {name} has the unknown image {image:?}");
            }
            let is_there = |other: &String| {
                experiments
                    .iter()
                    .any(|one| one.name == *other && one.of.is_none())
            };
            ensure!(
                of.as_ref().is_none_or(is_there),
                "the experiment {name} is one of {of:?}, which has no runs"
            );
        }
        let rules: Rules = toml::from_str(shipped::CONSTRAINTS).context("read the constraints")?;
        Ok(Catalogue {
            candidates: read,
            experiments,
            images,
            rules: rules.rule,
        })
    }

    /// Names the candidates of a group.
    pub(crate) fn group(&self, group: &str) -> Vec<String> {
        let members = self
            .candidates
            .iter()
            .filter(|candidate| candidate.group == group);
        members.map(|candidate| candidate.name.clone()).collect()
    }

    /// Keeps the candidates and experiments with these names. If no name is given, it keeps all experiments, and all
    /// candidates that are in no group, `quick` without those that are variants of others.
    pub(crate) fn choose(
        &mut self,
        candidates: &[String],
        experiments: &[String],
        quick: bool,
    ) -> Result<()> {
        if candidates.is_empty() {
            self.candidates
                .retain(|candidate| candidate.group.is_empty() && (candidate.quick || !quick));
        }
        choose("candidate", &mut self.candidates, candidates, |candidate| {
            &candidate.name
        })?;
        // An experiment that shows runs of another one needs that one.
        let needs = |name: &String| self.experiments.iter().find(|one| one.name == *name)?.of.clone();
        let needed: Vec<String> = experiments.iter().filter_map(needs).collect();
        choose(
            "experiment",
            &mut self.experiments,
            &[experiments, &needed].concat(),
            |experiment| &experiment.name,
        )
    }

    /// Lists the texts before the numbers that other experiments show of the runs of this one.
    pub(crate) fn labels(&self, experiment: &str) -> Vec<String> {
        let others = self
            .experiments
            .iter()
            .filter(|one| one.of.as_deref() == Some(experiment));
        others.filter_map(|one| one.figure.clone()).collect()
    }

    /// Lists the experiments that are part of a quick set, or of the whole one.
    pub(crate) fn wanted(&self, quick: bool) -> Vec<&Experiment> {
        let named = |name: &String| self.experiments.iter().find(|one| one.name == *name);
        let runs = |one: &Experiment| !quick || one.quick > 0;
        let wanted = |one: &&Experiment| {
            one.of
                .as_ref()
                .map_or(runs(one), |of| named(of).is_some_and(runs))
        };
        self.experiments.iter().filter(wanted).collect()
    }

    /// Returns the reason why a candidate is an impossible combination.
    pub(crate) fn refused(&self, candidate: &Candidate) -> Option<&str> {
        let broken = |rule: &&Rule| {
            rule.when.iter().all(|(key, wanted)| match key.as_str() {
                "manager" => wanted.as_str() == Some(&candidate.manager),
                "runtime" => wanted.as_str() == Some(&candidate.runtime),
                "driver" => wanted.as_str() == Some(&candidate.driver),
                "isolation" => wanted.as_str() == Some(&candidate.isolation),
                "cgroups" => wanted.as_str() == Some(&candidate.cgroups),
                "rootless" => wanted.as_bool() == Some(candidate.as_user == AsUser::User),
                _ => false,
            })
        };
        self.rules.iter().find(broken).map(|rule| rule.refused.as_str())
    }
}

fn choose<T>(kind: &str, all: &mut Vec<T>, wanted: &[String], name: impl Fn(&T) -> &str) -> Result<()> {
    for word in wanted {
        ensure!(
            all.iter().any(|one| name(one) == word),
            "no {kind} is named {word:?}; there are: {}",
            all.iter().map(&name).collect::<Vec<_>>().join(", ")
        );
    }
    if !wanted.is_empty() {
        all.retain(|one| wanted.iter().any(|word| word == name(one)));
    }
    Ok(())
}

/// Reads the tables of a folder: the shipped ones, then the user's.
fn tables(shipped: &[(&str, &str)], own: Option<&Path>, folder: &str) -> Result<Vec<(String, Table)>> {
    let mut found: Vec<(String, Table)> = Vec::new();
    for (name, text) in shipped {
        found.push(((*name).to_owned(), parse(name, text)?));
    }
    let Some(place) = own.map(|own| own.join(folder)) else {
        return Ok(found);
    };
    let entries = match fs::read_dir(&place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        entries => entries.with_context(|| format!("read {}", place.display()))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("read {}", place.display()))?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let sound = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        ensure!(
            sound,
            "{}: a name is made of letters, digits and dashes",
            path.display()
        );
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let table = parse(&path.display().to_string(), &text)?;
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = table,
            None => found.push((name, table)),
        }
    }
    Ok(found)
}

fn parse(name: &str, text: &str) -> Result<Table> {
    toml::from_str(text).with_context(|| format!("read {name}"))
}

fn understood<T: for<'de> Deserialize<'de>>(kind: &str, name: &str, table: Table) -> Result<T> {
    T::deserialize(Value::Table(table)).with_context(|| format!("understand the {kind} {name}"))
}

/// Returns the table of `name`, laid over the one that it extends.
fn extended(name: &str, all: &[(String, Table)], seen: &mut BTreeSet<String>) -> Result<Table> {
    ensure!(
        seen.insert(name.to_owned()),
        "the candidate {name} extends itself"
    );
    let Some((_, own)) = all.iter().find(|(known, _)| known == name) else {
        bail!("there is no candidate {name} to extend");
    };
    let mut own = own.clone();
    let Some(base) = own.remove("extends") else {
        return Ok(own);
    };
    let base = base
        .as_str()
        .with_context(|| format!("{name}: `extends` is no name"))?;
    let mut whole = extended(base, all, seen)?;
    lay(&mut whole, own);
    Ok(whole)
}

/// Lays a table over another. Tables in it are joined, services too; every other value replaces the one below.
fn lay(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(under)), Value::Table(over)) => lay(under, over),
            (Some(Value::Array(under)), Value::Array(over)) if key == "services" => under.extend(over),
            (_, value) => drop(below.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_shipped_is_understood_and_no_combination_is_impossible() {
        let all = Catalogue::read(None).unwrap();
        assert_eq!(all.candidates.len(), shipped::CANDIDATES.len());
        for candidate in &all.candidates {
            assert_eq!(all.refused(candidate), None, "{}", candidate.name);
            assert!(
                !candidate.about.is_empty() && !candidate.verbs.is_empty(),
                "{}",
                candidate.name
            );
        }
        let order: Vec<&str> = all.experiments.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(order.first(), Some(&"exit-code"));
        assert_eq!(all.images.len(), shipped::IMAGES.len());
    }

    #[test]
    fn impossible_combinations_are_refused() {
        let all = Catalogue::read(None).unwrap();
        let mut candidate = all
            .candidates
            .iter()
            .find(|one| one.name == "kata")
            .unwrap()
            .clone();
        assert_eq!(all.refused(&candidate), None);
        candidate.as_user = AsUser::User;
        assert_eq!(all.refused(&candidate), Some("Kata Containers needs root"));
    }

    #[test]
    fn a_candidate_lies_over_the_one_that_it_extends() {
        let all = vec![
            ("a".to_owned(), parse("a", "x = 1\n[t]\nk = [1]\nl = 2").unwrap()),
            (
                "b".to_owned(),
                parse("b", "extends = \"a\"\ny = 2\n[t]\nk = [3]").unwrap(),
            ),
            ("c".to_owned(), parse("c", "extends = \"c\"").unwrap()),
            ("d".to_owned(), parse("d", "extends = \"e\"").unwrap()),
        ];
        let whole = |name: &str| extended(name, &all, &mut BTreeSet::new());
        let expected = parse("", "x = 1\ny = 2\n[t]\nk = [3]\nl = 2").unwrap();
        assert_eq!(whole("b").unwrap(), expected);
        assert!(whole("c").is_err() && whole("d").is_err());
    }

    #[test]
    fn names_that_nothing_has_are_refused() {
        let mut all = Catalogue::read(None).unwrap();
        assert!(all.choose(&["pocman".to_owned()], &[], false).is_err());
        all.choose(&["podman".to_owned()], &["run".to_owned()], false)
            .unwrap();
        assert_eq!((all.candidates.len(), all.experiments.len()), (1, 1));
    }

    #[test]
    fn quick_sizes_are_fewer_and_ascend() {
        let all = Catalogue::read(None).unwrap();
        let read = all.experiments.iter().find(|one| one.name == "io-read").unwrap();
        let names = |quick| {
            read.steps(quick)
                .into_iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["10", "100", "1000", "10000", "100000"]);
        assert_eq!(names(true), ["10", "1000"]);
    }
}
