//! QMP, QEMU's machine protocol: lines of JSON, here without reading and writing them.

use crate::VmmError;
use crate::plug::Plugs;
use rustix::fd::OwnedFd;
use serde_json::{Value, json};

/// Longest line that is kept: QEMU's own are shorter.
const LINE: usize = 64 << 10;

/// State of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// QEMU has not said hello.
    Silent,
    /// The capabilities are asked for.
    Greeted,
    /// The machine is asked to run.
    Asked,
    /// The machine runs.
    Runs,
}

/// The client's side of a conversation that lets a machine run which was started with `-S`, and gives it disks then.
#[derive(Debug)]
pub(crate) struct Qmp {
    state: State,
    line: Vec<u8>,
    out: Vec<u8>,
    /// Disks that come and go.
    pub(crate) plugs: Plugs,
}

impl Qmp {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Silent,
            line: Vec::new(),
            out: Vec::new(),
            plugs: Plugs::default(),
        }
    }

    /// Returns the bytes that have to be sent, with a descriptor that goes with them, and forgets both.
    pub(crate) fn take_outgoing(&mut self) -> (Vec<u8>, Option<OwnedFd>) {
        let mut fd = None;
        if self.state == State::Runs
            && let Some((command, passed)) = self.plugs.ask()
        {
            self.say(&command);
            fd = passed;
        }
        (std::mem::take(&mut self.out), fd)
    }

    /// True once the machine runs.
    #[cfg(test)]
    pub(crate) fn runs(&self) -> bool {
        self.state == State::Runs
    }

    /// Takes bytes of QEMU.
    pub(crate) fn received(&mut self, bytes: &[u8]) -> Result<(), VmmError> {
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                if self.line.len() > LINE {
                    return Err(VmmError::Qmp("a line is too long".to_owned()));
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let value = serde_json::from_slice(&line);
            self.hear(&value.map_err(|error| VmmError::Qmp(error.to_string()))?)?;
        }
        Ok(())
    }

    fn hear(&mut self, message: &Value) -> Result<(), VmmError> {
        if self.state == State::Runs {
            self.follow(message);
            return Ok(());
        }
        if let Some(error) = message.get("error") {
            let attempt = match self.state {
                State::Asked => "let the machine run",
                _ => "begin a conversation",
            };
            let reason = error.get("desc").and_then(Value::as_str).unwrap_or_default();
            return Err(VmmError::Refused {
                attempt,
                reason: reason.to_owned(),
            });
        }
        let is_greeting = message.get("QMP").is_some();
        let is_return = message.get("return").is_some();
        self.state = match (self.state, is_greeting, is_return) {
            (State::Silent, true, _) => {
                self.ask("qmp_capabilities");
                State::Greeted
            }
            (State::Greeted, _, true) => {
                self.ask("cont");
                State::Asked
            }
            (State::Asked, _, true) => State::Runs,
            // Events, which tell nothing that the end of the process does not.
            (state, ..) => state,
        };
        Ok(())
    }

    /// Takes what QEMU says of the disks of a machine that runs. Other events tell nothing that the end of the process does not.
    fn follow(&mut self, message: &Value) {
        if let Some(error) = message.get("error") {
            let reason = error.get("desc").and_then(Value::as_str).unwrap_or_default();
            self.plugs.answered(Err(reason.to_owned()));
        } else if message.get("return").is_some() {
            self.plugs.answered(Ok(()));
        } else if message.get("event").and_then(Value::as_str) == Some("DEVICE_DELETED") {
            let device = message.pointer("/data/device").and_then(Value::as_str);
            self.plugs.let_go(device.unwrap_or_default());
        }
    }

    fn ask(&mut self, command: &str) {
        self.say(&json!({ "execute": command }));
    }

    fn say(&mut self, command: &Value) {
        self.out.extend_from_slice(command.to_string().as_bytes());
        self.out.push(b'\n');
    }
}
