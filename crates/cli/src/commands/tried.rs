//! Commands whose system calls are made to fail: each one has a scenario of the stepper (`cargo xtask faults`), or a reason.

use super::TOTE;
use std::collections::{BTreeMap, BTreeSet};
use tote_options::Command;

/// Table of the scenarios, of which the words of the commands are read.
const SCENARIOS: &str = include_str!("../../../../faults/src/tables/scenarios.rs");

/// Commands without a scenario, and why.
const UNTRIED: &str = include_str!("../../../../faults/src/tables/untried.txt");

/// Lists the words of each command that does something by itself, once for each row of the tables: `container run` is `run`.
fn leaves(command: &Command, path: &str, all: &mut BTreeMap<usize, String>) {
    for below in command.subcommands.iter().flat_map(|section| section.commands) {
        let path = format!("{path} {}", below.name);
        // What is not listed serves shells and builds, and has no state.
        if below.hidden {
            continue;
        }
        if below.subcommands.is_empty() || !below.positionals.is_empty() {
            let words = path.trim_start().to_owned();
            all.entry(std::ptr::from_ref(*below).addr()).or_insert(words);
        }
        leaves(below, &path, all);
    }
}

/// Words of the commands of the scenarios.
fn tried() -> Vec<Vec<&'static str>> {
    let commands = SCENARIOS.split("command: &[").skip(1);
    commands
        .filter_map(|rest| {
            let (words, _) = rest.split_once(']')?;
            Some(words.split('"').skip(1).step_by(2).collect())
        })
        .collect()
}

/// True if a line for these words is one for the command: for itself, or for the group that it belongs to.
fn is_below(path: &str, words: &str) -> bool {
    path.strip_prefix(words)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[test]
fn each_command_has_a_scenario_or_a_reason() {
    let mut all = BTreeMap::new();
    leaves(&TOTE, "", &mut all);
    let all: BTreeSet<String> = all.into_values().collect();
    let scenarios = tried();
    let is_tried = |path: &str| {
        let path: Vec<&str> = path.split(' ').collect();
        scenarios.iter().any(|words| words.starts_with(&path))
    };
    let reasons = UNTRIED.lines().filter_map(|line| line.split_once(": "));
    let reasons: BTreeSet<&str> = reasons.map(|(command, _)| command).collect();
    assert_eq!(
        reasons.len(),
        UNTRIED.lines().count(),
        "a line without a reason, or twice"
    );
    let missing: Vec<_> = all
        .iter()
        .filter(|path| !is_tried(path) && !reasons.iter().any(|reason| is_below(path, reason)))
        .collect();
    assert!(
        missing.is_empty(),
        "give these a scenario, or a reason in untried.txt: {missing:#?}"
    );
    let stale: Vec<_> = reasons
        .iter()
        .filter(|reason| is_tried(reason) || !all.iter().any(|path| is_below(path, reason)))
        .collect();
    assert!(
        stale.is_empty(),
        "these are not there, or have a scenario by now: {stale:#?}"
    );
}
