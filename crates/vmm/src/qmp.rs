//! QMP, QEMU's machine protocol: lines of JSON, here without reading and writing them.

use crate::VmmError;
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use serde_json::{Value, json};
use std::collections::VecDeque;

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
    /// The machine runs, and the file of a disk is exchanged.
    Exchanges,
}

/// A line for QEMU, and the descriptor that comes with it.
type Line = (Vec<u8>, Option<OwnedFd>);

/// The client's side of a conversation that lets a machine run which was started with `-S`.
#[derive(Debug)]
pub(crate) struct Qmp {
    state: State,
    line: Vec<u8>,
    /// The next line for QEMU.
    out: Option<Line>,
    /// Lines after it, each of which waits for the answer to the one before.
    steps: VecDeque<Line>,
    /// Number of files that were put in the place of others.
    files: u32,
    /// End of the last such exchange.
    replaced: Option<Result<(), VmmError>>,
}

impl Qmp {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Silent,
            line: Vec::new(),
            out: None,
            steps: VecDeque::new(),
            files: 0,
            replaced: None,
        }
    }

    /// Returns the line that has to be sent, and forgets it.
    pub(crate) fn take_outgoing(&mut self) -> Option<Line> {
        self.out.take()
    }

    /// Puts a file in the place of what a disk has: only its bytes change, so the guest's device stays. The file of the exchange before is
    /// closed then. A socket leads to a server that speaks NBD.
    pub(crate) fn replace(&mut self, serial: &str, file: OwnedFd) {
        let (old, new) = (self.files, self.files + 1);
        self.files = new;
        let node = |number| format!("{serial}{number}");
        let (add, open, forget) = if is_socket(&file) {
            let server = json!({ "type": "fd", "str": node(new) });
            let open =
                json!({ "driver": "nbd", "node-name": node(new), "read-only": true, "server": server });
            (line("getfd", json!({ "fdname": node(new) })), open, None)
        } else {
            let open = json!({
                "driver": "file",
                "node-name": node(new),
                "read-only": true,
                "filename": format!("/dev/fdset/{new}"),
            });
            // QEMU has a copy of its own then.
            let forget = line("remove-fd", json!({ "fdset-id": new }));
            (line("add-fd", json!({ "fdset-id": new })), open, Some(forget))
        };
        let turn = json!({
            "options": [{ "driver": "raw", "node-name": serial, "read-only": true, "file": node(new) }],
        });
        let steps = [
            Some((add, Some(file))),
            Some((line("blockdev-add", open), None)),
            Some((line("blockdev-reopen", turn), None)),
            forget.map(|line| (line, None)),
            (old > 0).then(|| (line("blockdev-del", json!({ "node-name": node(old) })), None)),
        ];
        self.steps = steps.into_iter().flatten().collect();
        self.replaced = None;
        self.out = self.steps.pop_front();
        self.state = State::Exchanges;
    }

    /// Returns how [`Qmp::replace`] has ended, once.
    pub(crate) fn replaced(&mut self) -> Option<Result<(), VmmError>> {
        self.replaced.take()
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
        if let Some(error) = message.get("error") {
            return self.refused(error);
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
            (State::Exchanges, _, true) => {
                self.out = self.steps.pop_front();
                match self.out {
                    Some(_) => State::Exchanges,
                    None => {
                        self.replaced = Some(Ok(()));
                        State::Runs
                    }
                }
            }
            // Events, which tell nothing that the end of the process does not.
            (state, ..) => state,
        };
        Ok(())
    }

    fn refused(&mut self, error: &Value) -> Result<(), VmmError> {
        let reason = error.get("desc").and_then(Value::as_str).unwrap_or_default();
        let refused = |attempt| VmmError::Refused {
            attempt,
            reason: reason.to_owned(),
        };
        match self.state {
            State::Asked => Err(refused("let the machine run")),
            // The machine goes on with what it has.
            State::Exchanges => {
                self.replaced = Some(Err(refused("change the content of a disk")));
                self.steps.clear();
                self.state = State::Runs;
                Ok(())
            }
            _ => Err(refused("begin a conversation")),
        }
    }

    fn ask(&mut self, command: &str) {
        self.out = Some((ended(json!({ "execute": command })), None));
    }
}

fn is_socket(file: &OwnedFd) -> bool {
    let found = rustix::fs::fstat(file);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}

fn line(command: &str, arguments: Value) -> Vec<u8> {
    ended(json!({ "execute": command, "arguments": arguments }))
}

fn ended(message: Value) -> Vec<u8> {
    (message.to_string() + "\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with these lines; returns the commands that were given, and whether a descriptor came along.
    fn answered(qmp: &mut Qmp, answers: &[&str]) -> Vec<(String, bool)> {
        let mut given = Vec::new();
        let mut answers = answers.iter();
        while let Some((line, file)) = qmp.take_outgoing() {
            let value: Value = serde_json::from_slice(&line).unwrap();
            given.push((value["execute"].as_str().unwrap().to_owned(), file.is_some()));
            let Some(answer) = answers.next() else { break };
            qmp.received(answer.as_bytes()).unwrap();
            qmp.received(b"\n").unwrap();
        }
        given
    }

    fn running() -> Qmp {
        let mut qmp = Qmp::new();
        qmp.received(b"{\"QMP\": {}}\n").unwrap();
        answered(&mut qmp, &[OK, OK]);
        assert!(qmp.runs());
        qmp
    }

    const OK: &str = "{\"return\": {}}";
    const EVENT: &str = "{\"event\": \"RTC_CHANGE\"}";

    fn file() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn it_lets_the_machine_run() {
        let mut qmp = Qmp::new();
        qmp.received(b"{\"QMP\": {\"version\": {}}}\r\n").unwrap();
        let said = |qmp: &mut Qmp| String::from_utf8(qmp.take_outgoing().unwrap().0).unwrap();
        assert_eq!(said(&mut qmp), "{\"execute\":\"qmp_capabilities\"}\n");
        qmp.received(b"{\"return\": {}}\r\n{\"event\": \"RESUME\"}")
            .unwrap();
        assert_eq!(said(&mut qmp), "{\"execute\":\"cont\"}\n");
        assert!(!qmp.runs());
        qmp.received(b"\n{\"return\": {}}\n").unwrap();
        assert!(qmp.runs());
        let mut qmp = Qmp::new();
        let refused = qmp.received(b"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}\n");
        assert!(matches!(refused, Err(VmmError::Refused { .. })));
        assert!(matches!(Qmp::new().received(b"hello\n"), Err(VmmError::Qmp(_))));
        assert!(matches!(
            Qmp::new().received(&[b'x'; 70_000]),
            Err(VmmError::Qmp(_))
        ));
    }

    #[test]
    fn the_file_of_a_disk_is_exchanged() {
        let mut qmp = running();
        for (round, last) in [(1, "remove-fd"), (2, "blockdev-del")] {
            qmp.replace("tools", file());
            assert!(qmp.replaced().is_none());
            let given = answered(&mut qmp, &[OK, OK, OK, OK, OK]);
            let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(
                names[..3],
                ["add-fd", "blockdev-add", "blockdev-reopen"],
                "{round}"
            );
            assert_eq!(names.last(), Some(&last));
            assert_eq!(given.iter().filter(|(_, file)| *file).count(), 1);
            assert!(given[0].1);
            assert!(matches!(qmp.replaced(), Some(Ok(()))));
            assert!(qmp.replaced().is_none(), "it is told once");
            qmp.received(format!("{EVENT}\n").as_bytes()).unwrap();
        }
    }

    #[test]
    fn a_socket_leads_to_a_server() {
        let mut qmp = running();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        qmp.replace("tools", socket.into());
        let given = answered(&mut qmp, &[OK, OK, OK]);
        let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["getfd", "blockdev-add", "blockdev-reopen"]);
        assert!(given[0].1 && matches!(qmp.replaced(), Some(Ok(()))));
    }

    #[test]
    fn a_refused_exchange_leaves_the_machine_running() {
        let mut qmp = running();
        qmp.replace("tools", file());
        let refused = "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such node\"}}";
        assert_eq!(answered(&mut qmp, &[OK, refused]).len(), 2);
        let Some(Err(error)) = qmp.replaced() else {
            panic!("it is refused");
        };
        assert!(error.to_string().contains("no such node"), "{error}");
        assert!(qmp.runs());
    }
}
