//! What is tried: a command, what is there before it, and what must hold after it.

/// A command that prepares or ends a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Words of tote.
    Tote(&'static [&'static str]),
    /// The monitor of the container of this name is killed, and its container with it, as when the machine is started
    /// again: nobody watches it, and its claim is free.
    KillMonitor(&'static str),
    /// Nothing at this path of the scratch directory.
    Remove(&'static str),
}

/// Something that is true once the command has done its work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact {
    /// There is a container of this name, in this state.
    Container(&'static str, &'static str),
    NoContainer(&'static str),
    Volume(&'static str),
    NoVolume(&'static str),
    Image(&'static str),
    NoImage(&'static str),
    Pod(&'static str),
    NoPod(&'static str),
    Pool(&'static str),
    NoPool(&'static str),
    /// A file of the scratch directory is there and not empty.
    File(&'static str),
    /// Standard output has this in it.
    Says(&'static str),
}

/// The files at the command's standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// Nothing to read, and a file for each of the two to write.
    Files,
    /// A terminal for all three.
    Terminal,
    /// A terminal, and somebody types these keys once the container has said something.
    Leaves(&'static str),
    /// A terminal that is closed once the container has said something.
    HangsUp,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Whether the container that has ended, and what else nobody uses, is left out of the state root.
    pub(crate) bare: bool,
    pub(crate) before: &'static [Act],
    /// The words of tote whose calls are counted.
    pub(crate) command: &'static [&'static str],
    pub(crate) front: Front,
    /// Whether processes of it go on when it has ended.
    pub(crate) lingers: bool,
    /// Whether it fails also when nothing is done to it.
    pub(crate) refused: bool,
    pub(crate) done: &'static [Fact],
    /// Containers that are there afterwards with their file `/mark`, whatever happens to the command.
    pub(crate) keeps: &'static [&'static str],
    /// The one command of each kind that clears what a killed one leaves.
    pub(crate) sweep: &'static [Act],
    /// What takes away all that the command makes when it succeeds.
    pub(crate) undo: &'static [Act],
}

/// What most scenarios are like.
pub(crate) const PLAIN: Scenario = Scenario {
    name: "",
    bare: false,
    before: &[],
    command: &[],
    front: Front::Files,
    lingers: false,
    refused: false,
    done: &[],
    keeps: &[],
    sweep: &[Act::Tote(&["rm", "-i", "nosuch"])],
    undo: &[Act::Tote(&["rm", "-f", "-v", "-i", "x"])],
};

#[cfg(test)]
mod tests {
    use crate::tables::scenarios::SCENARIOS;

    #[test]
    fn names_are_different_and_fit_into_a_command_line() {
        for (at, scenario) in SCENARIOS.iter().enumerate() {
            let name = scenario.name;
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{name}"
            );
            assert!(SCENARIOS[..at].iter().all(|other| other.name != name), "{name}");
            assert!(!["cuts", "stress"].contains(&name), "the word of another machine");
        }
    }
}
