//! QMP, QEMU's machine protocol: lines of JSON, here without reading and writing them.

use crate::VmmError;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Longest line that is kept: QEMU's own are shorter.
const LINE: usize = 64 << 10;

/// Name under which QEMU is given the file of a machine's state.
const STATE: &str = "state";

/// Command, with the words of an error that says it failed.
#[derive(Debug)]
struct Asked {
    command: Value,
    attempt: &'static str,
    /// True if the descriptor of the file with the state goes along.
    with_file: bool,
}

/// Migration, which QEMU's events tell of: that of a machine's state from or to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Migration {
    None,
    /// A machine takes its state.
    Loads,
    /// A machine gives its state.
    Saves,
    /// A machine has given its state.
    Saved,
}

/// Piece of the conversation that has to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// True if the descriptor of the file with the state goes along.
    pub(crate) with_file: bool,
}

/// The client's side of a conversation that lets a machine run which was started with `-S`: one command at a time.
#[derive(Debug)]
pub(crate) struct Qmp {
    greeted: bool,
    answered: bool,
    /// Command whose answer has not come.
    asked: Option<&'static str>,
    waiting: VecDeque<Asked>,
    migration: Migration,
    line: Vec<u8>,
    out: Option<Line>,
}

impl Qmp {
    /// Begins a conversation; a machine that goes on from a template has the descriptor with its state.
    pub(crate) fn new(state: Option<i32>) -> Self {
        let mut qmp = Self {
            greeted: false,
            answered: false,
            asked: None,
            waiting: VecDeque::new(),
            migration: state.map_or(Migration::None, |_| Migration::Loads),
            line: Vec::new(),
            out: None,
        };
        qmp.ask("begin a conversation", json!({ "execute": "qmp_capabilities" }));
        if let Some(state) = state {
            qmp.share_memory();
            qmp.ask(
                "resume the machine",
                json!({ "execute": "migrate-incoming", "arguments": { "uri": format!("fd:{state}") } }),
            );
        }
        qmp.ask("let the machine run", json!({ "execute": "cont" }));
        qmp
    }

    /// Has the machine saved, with the descriptor of a file for its state.
    pub(crate) fn save(&mut self) {
        const ATTEMPT: &str = "save the machine";
        self.ask(ATTEMPT, json!({ "execute": "stop" }));
        self.share_memory();
        self.waiting.push_back(Asked {
            command: json!({ "execute": "getfd", "arguments": { "fdname": STATE } }),
            attempt: ATTEMPT,
            with_file: true,
        });
        let uri = format!("fd:{STATE}");
        self.ask(
            ATTEMPT,
            json!({ "execute": "migrate", "arguments": { "uri": uri } }),
        );
        self.migration = Migration::Saves;
        self.go_on();
    }

    /// True once the machine is saved.
    pub(crate) fn is_saved(&self) -> bool {
        self.migration == Migration::Saved
    }

    /// True once QEMU has begun to answer: it has opened its files then.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Returns a line that has to be sent, and forgets it.
    pub(crate) fn take_outgoing(&mut self) -> Option<Line> {
        self.out.take()
    }

    /// True once the machine runs, and nothing else is asked of QEMU.
    pub(crate) fn runs(&self) -> bool {
        self.greeted && self.asked.is_none() && self.waiting.is_empty()
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
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(error) = message.get("error") {
            return Err(VmmError::Refused {
                attempt: self.asked.unwrap_or("begin a conversation"),
                reason: text(error.get("desc")),
            });
        }
        if message.get("QMP").is_some() && !self.greeted {
            self.greeted = true;
            self.go_on();
        } else if message.get("return").is_some() {
            self.asked = None;
            self.answered = true;
            self.go_on();
        } else if message.get("event").and_then(Value::as_str) == Some("MIGRATION") {
            self.hear_migration(&text(message.pointer("/data/status")))?;
        }
        // Other events tell nothing that the end of the process does not.
        Ok(())
    }

    /// Takes how far a migration has come.
    fn hear_migration(&mut self, status: &str) -> Result<(), VmmError> {
        let attempt = match self.migration {
            Migration::Loads => "resume the machine",
            Migration::Saves => "save the machine",
            Migration::None | Migration::Saved => return Ok(()),
        };
        match (status, self.migration) {
            ("completed", Migration::Loads) => {
                self.migration = Migration::None;
                self.go_on();
            }
            ("completed", _) => self.migration = Migration::Saved,
            ("failed" | "cancelled", _) => {
                return Err(VmmError::Refused {
                    attempt,
                    reason: "it has not said why".to_owned(),
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Has the memory left out of what is saved, which is a file itself, and progress told.
    fn share_memory(&mut self) {
        let on = |name: &str| json!({ "capability": name, "state": true });
        let capabilities = json!([on("x-ignore-shared"), on("events")]);
        self.ask(
            "leave the memory out",
            json!({ "execute": "migrate-set-capabilities", "arguments": { "capabilities": capabilities } }),
        );
    }

    fn ask(&mut self, attempt: &'static str, command: Value) {
        self.waiting.push_back(Asked {
            command,
            attempt,
            with_file: false,
        });
    }

    /// Sends the next command, if no other one waits for its answer.
    fn go_on(&mut self) {
        // A machine that takes its state stands still after that, as it did when it was saved; `cont` is for then.
        let waits = self.waiting.len() == 1 && self.migration == Migration::Loads;
        if !self.greeted || self.asked.is_some() || waits {
            return;
        }
        if let Some(next) = self.waiting.pop_front() {
            self.asked = Some(next.attempt);
            let mut bytes = next.command.to_string().into_bytes();
            bytes.push(b'\n');
            self.out = Some(Line {
                bytes,
                with_file: next.with_file,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each command with `{}`; returns the commands.
    fn conversation(qmp: &mut Qmp) -> Vec<Value> {
        let mut said = Vec::new();
        while let Some(line) = qmp.take_outgoing() {
            let mut command: Value = serde_json::from_slice(&line.bytes).unwrap();
            if line.with_file {
                command["file"] = true.into();
            }
            said.push(command);
            qmp.received(b"{\"event\": \"RESUME\"}\r\n{\"return\": {}}\r\n")
                .unwrap();
        }
        said
    }

    fn names(said: &[Value]) -> Vec<&str> {
        said.iter()
            .filter_map(|command| command["execute"].as_str())
            .collect()
    }

    #[test]
    fn a_machine_runs_is_saved_and_goes_on() {
        let mut qmp = Qmp::new(None);
        assert_eq!(qmp.take_outgoing(), None, "QEMU speaks first");
        qmp.received(b"{\"QMP\": {\"version\": {}}}\r\n").unwrap();
        assert!(!qmp.runs());
        assert_eq!(names(&conversation(&mut qmp)), ["qmp_capabilities", "cont"]);
        assert!(qmp.runs());
        qmp.save();
        let said = conversation(&mut qmp);
        assert_eq!(
            names(&said),
            ["stop", "migrate-set-capabilities", "getfd", "migrate"]
        );
        let files: Vec<bool> = said.iter().map(|command| command["file"] == true).collect();
        assert_eq!(files, [false, false, true, false]);
        assert!(!qmp.is_saved());
        let status =
            |status| format!("{{\"event\": \"MIGRATION\", \"data\": {{\"status\": \"{status}\"}}}}\n");
        qmp.received(status("active").as_bytes()).unwrap();
        assert!(!qmp.is_saved());
        qmp.received(status("completed").as_bytes()).unwrap();
        assert!(qmp.is_saved());

        let mut qmp = Qmp::new(Some(7));
        qmp.received(b"{\"QMP\": {}}\n").unwrap();
        let said = conversation(&mut qmp);
        let expected = ["qmp_capabilities", "migrate-set-capabilities", "migrate-incoming"];
        assert_eq!(names(&said), expected);
        assert_eq!(said[2]["arguments"]["uri"], "fd:7");
        assert!(!qmp.runs(), "it does not run before its state is there");
        qmp.received(status("completed").as_bytes()).unwrap();
        assert_eq!(names(&conversation(&mut qmp)), ["cont"]);
        assert!(qmp.runs());
        // What it tells of its own migration is not that it was saved.
        qmp.received(status("completed").as_bytes()).unwrap();
        assert!(!qmp.is_saved());
        let mut failing = Qmp::new(None);
        failing.save();
        assert!(matches!(
            failing.received(status("failed").as_bytes()),
            Err(VmmError::Refused { .. })
        ));
    }

    #[test]
    fn an_error_says_what_was_attempted() {
        let mut qmp = Qmp::new(Some(7));
        qmp.received(b"{\"QMP\": {}}\n{\"return\": {}}\n{\"return\": {}}\n")
            .unwrap();
        let refused = qmp.received(b"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}\n");
        let text = refused.unwrap_err().to_string();
        assert_eq!(text, "the virtual machine monitor cannot resume the machine: no");
        assert!(matches!(
            Qmp::new(None).received(b"hello\n"),
            Err(VmmError::Qmp(_))
        ));
        assert!(matches!(
            Qmp::new(None).received(&[b'x'; 70_000]),
            Err(VmmError::Qmp(_))
        ));
    }
}
