//! The stages that a build needs, and the named contexts that the user gave.

use crate::Fault;
use crate::walk::Named;
use std::collections::BTreeMap;
use tote_dockerfile::{Command, Dockerfile, Instruction, MountFlag};
use tote_image::Reference;

/// Finds a stage among the first `before` ones by its name, or by its number if `numbers` is true.
pub(crate) fn find(file: &Dockerfile, name: &str, numbers: bool, before: usize) -> Option<usize> {
    let lower = name.to_ascii_lowercase();
    let named = file.stages[..before]
        .iter()
        .rposition(|stage| stage.name.as_deref() == Some(&lower));
    let number = || name.parse().ok().filter(|number| numbers && *number < before);
    named.or_else(number)
}

/// Finds a stage among the first `before` ones whose name differs from `name` in one place. Of one and two letters every
/// name would be similar to every other.
pub(crate) fn similar<'a>(file: &'a Dockerfile, name: &str, before: usize) -> Option<&'a str> {
    let names: Vec<&str> = file.stages[..before]
        .iter()
        .filter_map(|stage| stage.name.as_deref())
        .filter(|stage| stage.len().min(name.len()) > 2)
        .collect();
    tote_dockerfile::similar(&name.to_ascii_lowercase(), &names)
}

/// Returns the error for a name that is only that of the stage `at` or of a later one, from which nothing can be
/// copied.
pub(crate) fn later(file: &Dockerfile, name: &str, at: usize) -> Option<Fault> {
    if find(file, name, true, at).is_some() {
        return None;
    }
    let found = find(file, name, true, file.stages.len())?;
    Some(Fault::Later {
        name: name.to_owned(),
        line: file.stages[found].lines.first,
    })
}

/// Finds the context that the user gave under that name. Short and full names of an image are equal.
pub(crate) fn given<'a>(contexts: &'a BTreeMap<String, Named>, name: &str) -> Option<(&'a str, &'a Named)> {
    if contexts.is_empty() {
        return None;
    }
    let whole = |text: &str| Reference::parse(text).map(|name| name.to_string()).ok();
    let wanted = whole(name);
    let fits = |known: &str| known.eq_ignore_ascii_case(name) || wanted.is_some() && whole(known) == wanted;
    let found = contexts.iter().find(|(known, _)| fits(known));
    found.map(|(known, what)| (known.as_str(), what))
}

/// Lists the stages that `last` needs, in order, itself included. `bases` holds the stages' bases with variables
/// replaced; a context that the user gave replaces a stage of its name.
pub(crate) fn needed(
    file: &Dockerfile,
    bases: &[String],
    last: usize,
    contexts: &BTreeMap<String, Named>,
) -> Vec<usize> {
    let mut wanted = vec![false; last + 1];
    wanted[last] = true;
    // A stage needs only earlier ones.
    for at in (0..=last).rev() {
        if wanted[at] {
            for needed in needs(file, bases, at, contexts) {
                wanted[needed] = true;
            }
        }
    }
    (0..=last).filter(|at| wanted[*at]).collect()
}

/// Lists the stages that the stage `at` names: its base, and those that it takes files from.
pub(crate) fn needs(
    file: &Dockerfile,
    bases: &[String],
    at: usize,
    contexts: &BTreeMap<String, Named>,
) -> Vec<usize> {
    let is_stage = |name: &&str| given(contexts, name).is_none();
    let froms = file.stages[at].instructions.iter().flat_map(froms);
    let found = froms
        .filter(is_stage)
        .filter_map(|from| find(file, from, true, at));
    let base = Some(&*bases[at]).filter(is_stage);
    let base = base.and_then(|base| find(file, base, false, at));
    found.chain(base).collect()
}

/// Lists the stages that are bases of `last`, directly or indirectly, itself included.
pub(crate) fn part_of_result(
    file: &Dockerfile,
    bases: &[String],
    last: usize,
    contexts: &BTreeMap<String, Named>,
) -> Vec<usize> {
    let below = |at: &usize| {
        let base = &*bases[*at];
        let is_stage = given(contexts, base).is_none();
        find(file, base, false, *at).filter(|_| is_stage)
    };
    std::iter::successors(Some(last), below).collect()
}

fn froms(instruction: &Instruction) -> Vec<&str> {
    froms_of(&instruction.command)
}

/// Lists the names from which a command takes files.
pub(crate) fn froms_of(command: &Command) -> Vec<&str> {
    match command {
        Command::Copy(copy) => copy.from.as_deref().into_iter().collect(),
        Command::Run(run) => run.mounts.iter().filter_map(MountFlag::from).collect(),
        _ => Vec::new(),
    }
}
