//! The state of a machine from or to a file: QEMU's commands for it, one after another.

use crate::VmmError;
use rustix::fd::OwnedFd;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Name under which QEMU is given the file of a machine's state.
const STATE: &str = "state";

/// A command, and the descriptor that goes with it.
type Step = (Value, Option<OwnedFd>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    None,
    /// A machine takes its state.
    Loads,
    /// A machine gives its state.
    Saves,
    /// A machine has given its state.
    Saved,
}

/// Migration, of which QEMU's events tell how far it is.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    /// Commands that have not been given.
    steps: VecDeque<Step>,
    phase: Phase,
}

impl Migration {
    /// The migration of a machine that takes its state from this descriptor.
    pub(crate) fn load(state: i32) -> Self {
        let uri = json!({ "uri": format!("fd:{state}") });
        Self {
            steps: [without_memory(), (command("migrate-incoming", uri), None)].into(),
            phase: Phase::Loads,
        }
    }

    /// Has the machine give its state to the file.
    pub(crate) fn save(&mut self, state: OwnedFd) {
        let name = json!({ "fdname": STATE });
        let uri = json!({ "uri": format!("fd:{STATE}") });
        self.steps = [
            (json!({ "execute": "stop" }), None),
            without_memory(),
            (command("getfd", name), Some(state)),
            (command("migrate", uri), None),
        ]
        .into();
        self.phase = Phase::Saves;
    }

    /// True as long as the machine has not all of its state.
    pub(crate) fn loads(&self) -> bool {
        self.phase == Phase::Loads
    }

    /// True once the machine is saved.
    pub(crate) fn is_saved(&self) -> bool {
        self.phase == Phase::Saved
    }

    /// Returns the next command, with a descriptor that goes with it.
    pub(crate) fn ask(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Returns the error of a command that QEMU refuses.
    pub(crate) fn refused(&self, reason: String) -> VmmError {
        let attempt = match self.phase {
            Phase::Loads => "resume the machine",
            Phase::None | Phase::Saves | Phase::Saved => "save the machine",
        };
        VmmError::Refused { attempt, reason }
    }

    /// Takes how far it is.
    pub(crate) fn hear(&mut self, status: &str) -> Result<(), VmmError> {
        match (status, self.phase) {
            ("completed", Phase::Loads) => self.phase = Phase::None,
            ("completed", Phase::Saves) => self.phase = Phase::Saved,
            ("failed" | "cancelled", Phase::Loads | Phase::Saves) => {
                return Err(self.refused("it has not said why".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Has the memory left out of what is saved, which is a file itself, and progress told.
fn without_memory() -> Step {
    let on = |name: &str| json!({ "capability": name, "state": true });
    let capabilities = json!({ "capabilities": [on("x-ignore-shared"), on("events")] });
    (command("migrate-set-capabilities", capabilities), None)
}

fn command(name: &str, arguments: Value) -> Value {
    json!({ "execute": name, "arguments": arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_comes_from_the_descriptor_that_qemu_has() {
        let mut migration = Migration::load(7);
        let (last, _) = std::iter::from_fn(|| migration.ask()).last().unwrap();
        assert_eq!(last["arguments"]["uri"], "fd:7");
        assert!(migration.loads());
    }
}
