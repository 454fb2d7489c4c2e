//! Which stages a build needs.

use tote_dockerfile::{Command, Dockerfile, Instruction};

/// The stage of that name, or that number where numbers are names, among the first `before`.
pub(crate) fn find(file: &Dockerfile, name: &str, numbers: bool, before: usize) -> Option<usize> {
    let lower = name.to_ascii_lowercase();
    let named = file.stages[..before]
        .iter()
        .rposition(|stage| stage.name.as_deref() == Some(&lower));
    let number = || name.parse().ok().filter(|number| numbers && *number < before);
    named.or_else(number)
}

/// The stages that `last` needs, in order, itself included. `bases` are the stages' bases with variables replaced.
pub(crate) fn needed(file: &Dockerfile, bases: &[String], last: usize) -> Vec<usize> {
    let mut wanted = vec![false; last + 1];
    wanted[last] = true;
    // A stage needs only earlier ones.
    for at in (0..=last).rev() {
        if !wanted[at] {
            continue;
        }
        let froms = file.stages[at].instructions.iter().flat_map(froms);
        let found = froms.filter_map(|from| find(file, from, true, at));
        let base = find(file, &bases[at], false, at);
        for needed in found.chain(base).collect::<Vec<_>>() {
            wanted[needed] = true;
        }
    }
    (0..=last).filter(|at| wanted[*at]).collect()
}

fn froms(instruction: &Instruction) -> Vec<&str> {
    from_of(&instruction.command)
}

fn from_of(command: &Command) -> Vec<&str> {
    match command {
        Command::Copy(copy) => copy.from.as_deref().into_iter().collect(),
        Command::Run(run) => run
            .mounts
            .iter()
            .filter_map(|mount| mount.from.as_deref())
            .collect(),
        Command::Onbuild(_, command) => from_of(command),
        _ => Vec::new(),
    }
}
