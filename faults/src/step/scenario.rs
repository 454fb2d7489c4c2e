//! Scenarios: a command, the state before it, and the facts after it.

/// Action that prepares or ends a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Run of tote with these words.
    Tote(&'static [&'static str]),
    /// Kill of the monitor of the container with this name, and of the container, as when the machine is restarted:
    /// the container is unwatched, and its claim is free.
    KillMonitor(&'static str),
    /// Removal of this path from the scratch directory.
    Remove(&'static str),
}

/// Fact that is true once the command has succeeded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact {
    /// Container of this name, in this state.
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
    Network(&'static str),
    NoNetwork(&'static str),
    /// Nonempty file of the scratch directory.
    File(&'static str),
    /// Text within standard output.
    Says(&'static str),
}

/// Files at the command's standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// Empty standard input, and one file each for standard output and standard error.
    Files,
    /// Terminal for all three.
    Terminal,
    /// Terminal into which these keys are typed once the container has printed something.
    Leaves(&'static str),
    /// Terminal that is closed once the container has printed something.
    HangsUp,
}

/// Scenario of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// True if the state root has no ended container and no other unused thing.
    pub(crate) bare: bool,
    pub(crate) before: &'static [Act],
    /// Words of tote whose calls are counted.
    pub(crate) command: &'static [&'static str],
    pub(crate) front: Front,
    /// True if processes of the command remain after its end.
    pub(crate) lingers: bool,
    /// True if the command fails even without a fault.
    pub(crate) refused: bool,
    pub(crate) done: &'static [Fact],
    /// True if a command that succeeds says the same each time, but for ids.
    pub(crate) same: bool,
    /// Words of tote that show what the command has made. They say the same each time, but for ids.
    pub(crate) shows: &'static [&'static [&'static str]],
    /// Containers that must exist afterwards with their file `/mark`, whatever happens to the command.
    pub(crate) keeps: &'static [&'static str],
    /// Commands, one of each kind, that clear the remains of a killed one.
    pub(crate) sweep: &'static [Act],
    /// Actions that remove everything that the command makes when it succeeds.
    pub(crate) undo: &'static [Act],
}

/// Defaults of most scenarios.
pub(crate) const PLAIN: Scenario = Scenario {
    name: "",
    bare: false,
    before: &[],
    command: &[],
    front: Front::Files,
    lingers: false,
    refused: false,
    done: &[],
    same: false,
    shows: &[],
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
