//! QMP, QEMU's machine protocol: lines of JSON, here without reading and writing them.

use crate::VmmError;
use crate::migration::Migration;
use crate::plug::Plugs;
use crate::swap::Swap;
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
    /// The machine takes its state, which another one has saved.
    Loads,
    /// The machine is asked to run.
    Asked,
    /// The machine runs.
    Runs,
}

/// Work whose command QEMU has got, and that waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Migration,
    Plugs,
    Swap,
}

/// A line for QEMU, and the descriptor that comes with it.
type Line = (Vec<u8>, Option<OwnedFd>);

/// The client's side of a conversation that lets a machine run which was started with `-S`, and changes its disks then. Each command waits
/// for the answer to the one before, also to that of another [`Owner`].
#[derive(Debug)]
pub(crate) struct Qmp {
    state: State,
    line: Vec<u8>,
    /// The next line before the machine runs.
    out: Option<Line>,
    /// Owner of the command that has no answer yet, once the machine runs or takes its state.
    asked: Option<Owner>,
    /// State that is taken or saved.
    migration: Migration,
    /// Disks that come and go.
    pub(crate) plugs: Plugs,
    /// Exchange of what a disk has.
    pub(crate) swap: Swap,
}

impl Qmp {
    /// Begins a conversation; a machine that goes on from a template has the descriptor with its state.
    pub(crate) fn new(state: Option<i32>) -> Self {
        Self {
            state: State::Silent,
            line: Vec::new(),
            out: None,
            asked: None,
            migration: state.map(Migration::load).unwrap_or_default(),
            plugs: Plugs::default(),
            swap: Swap::default(),
        }
    }

    /// Returns the line that has to be sent now, and forgets it.
    pub(crate) fn take_outgoing(&mut self) -> Option<Line> {
        if self.state != State::Runs || self.asked.is_some() {
            return self.out.take();
        }
        // A person waits for an exchange, which has a few commands; those of other disks wait meanwhile.
        let save = self.migration.ask().map(|step| (Owner::Migration, step));
        let swap = || self.swap.ask().map(|step| (Owner::Swap, step));
        let plugs = || self.plugs.ask().map(|step| (Owner::Plugs, step));
        let (owner, (command, fd)) = save.or_else(swap).or_else(plugs)?;
        self.asked = Some(owner);
        Some((ended(&command), fd))
    }

    /// Has the machine saved, with its state in the file.
    pub(crate) fn save(&mut self, state: OwnedFd) {
        self.migration.save(state);
    }

    /// True once the machine is saved.
    pub(crate) fn is_saved(&self) -> bool {
        self.migration.is_saved()
    }

    /// True once QEMU has begun to answer: it has opened its files then.
    pub(crate) fn is_answered(&self) -> bool {
        !matches!(self.state, State::Silent | State::Greeted)
    }

    /// True once the machine runs.
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
        if message.get("event").and_then(Value::as_str) == Some("MIGRATION") {
            let status = message.pointer("/data/status").and_then(Value::as_str);
            self.migration.hear(status.unwrap_or_default())?;
            self.load();
            return Ok(());
        }
        if self.state == State::Runs {
            return self.follow(message);
        }
        if let Some(error) = message.get("error") {
            let attempt = match self.state {
                State::Loads => return Err(self.migration.refused(reason(error))),
                State::Asked => "let the machine run",
                _ => "begin a conversation",
            };
            let reason = reason(error);
            return Err(VmmError::Refused { attempt, reason });
        }
        let is_greeting = message.get("QMP").is_some();
        let is_return = message.get("return").is_some();
        self.state = match (self.state, is_greeting, is_return) {
            (State::Silent, true, _) => {
                self.ask("qmp_capabilities");
                State::Greeted
            }
            (State::Greeted, _, true) if self.migration.loads() => State::Loads,
            (State::Greeted, _, true) => {
                self.ask("cont");
                State::Asked
            }
            (State::Loads, _, true) => {
                self.asked = None;
                State::Loads
            }
            (State::Asked, _, true) => State::Runs,
            // Events, which tell nothing that the end of the process does not.
            (state, ..) => state,
        };
        self.load();
        Ok(())
    }

    /// Asks for the next step of a machine that takes its state, and at last for the machine to run: it stands still after that, as it did when
    /// it was saved.
    fn load(&mut self) {
        if self.state != State::Loads || self.asked.is_some() {
            return;
        }
        if let Some((command, fd)) = self.migration.ask() {
            self.asked = Some(Owner::Migration);
            self.out = Some((ended(&command), fd));
        } else if !self.migration.loads() {
            self.ask("cont");
            self.state = State::Asked;
        }
    }

    /// Takes what QEMU says of the disks of a machine that runs. Other events tell nothing that the end of the process does not.
    fn follow(&mut self, message: &Value) -> Result<(), VmmError> {
        let answer = match (message.get("error"), message.get("return")) {
            (Some(error), _) => Err(reason(error)),
            (None, Some(_)) => Ok(()),
            (None, None) => {
                if message.get("event").and_then(Value::as_str) == Some("DEVICE_DELETED") {
                    let device = message.pointer("/data/device").and_then(Value::as_str);
                    self.plugs.let_go(device.unwrap_or_default());
                }
                return Ok(());
            }
        };
        match self.asked.take() {
            Some(Owner::Migration) => answer.map_err(|reason| self.migration.refused(reason))?,
            Some(Owner::Plugs) => self.plugs.answered(answer),
            Some(Owner::Swap) => self.swap.answered(answer),
            None => {}
        }
        Ok(())
    }

    fn ask(&mut self, command: &str) {
        self.out = Some((ended(&json!({ "execute": command })), None));
    }
}

/// Returns QEMU's reason for an error.
fn reason(error: &Value) -> String {
    let reason = error.get("desc").and_then(Value::as_str);
    reason.unwrap_or_default().to_owned()
}

fn ended(message: &Value) -> Vec<u8> {
    (message.to_string() + "\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Plug};

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
        let mut qmp = Qmp::new(None);
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
        let mut qmp = Qmp::new(None);
        qmp.received(b"{\"QMP\": {\"version\": {}}}\r\n").unwrap();
        let said = |qmp: &mut Qmp| String::from_utf8(qmp.take_outgoing().unwrap().0).unwrap();
        assert_eq!(said(&mut qmp), "{\"execute\":\"qmp_capabilities\"}\n");
        qmp.received(b"{\"return\": {}}\r\n{\"event\": \"RESUME\"}")
            .unwrap();
        assert_eq!(said(&mut qmp), "{\"execute\":\"cont\"}\n");
        assert!(!qmp.runs());
        qmp.received(b"\n{\"return\": {}}\n").unwrap();
        assert!(qmp.runs());
        let mut qmp = Qmp::new(None);
        let refused = qmp.received(b"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}\n");
        assert!(matches!(refused, Err(VmmError::Refused { .. })));
        assert!(matches!(
            Qmp::new(None).received(b"hello\n"),
            Err(VmmError::Qmp(_))
        ));
        assert!(matches!(
            Qmp::new(None).received(&[b'x'; 70_000]),
            Err(VmmError::Qmp(_))
        ));
    }

    #[test]
    fn the_file_of_a_disk_is_exchanged() {
        let mut qmp = running();
        for (round, last) in [(1, "remove-fd"), (2, "blockdev-del")] {
            qmp.swap.replace("tools", file());
            assert!(qmp.swap.replaced().is_none());
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
            assert!(matches!(qmp.swap.replaced(), Some(Ok(()))));
            assert!(qmp.swap.replaced().is_none(), "it is told once");
            qmp.received(format!("{EVENT}\n").as_bytes()).unwrap();
        }
    }

    #[test]
    fn a_socket_leads_to_a_server() {
        let mut qmp = running();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        qmp.swap.replace("tools", socket.into());
        let given = answered(&mut qmp, &[OK, OK, OK]);
        let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["getfd", "blockdev-add", "blockdev-reopen"]);
        assert!(given[0].1 && matches!(qmp.swap.replaced(), Some(Ok(()))));
    }

    #[test]
    fn a_refused_exchange_leaves_the_machine_running() {
        let mut qmp = running();
        qmp.swap.replace("tools", file());
        let refused = "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such node\"}}";
        assert_eq!(answered(&mut qmp, &[OK, refused]).len(), 2);
        let Some(Err(error)) = qmp.swap.replaced() else {
            panic!("it is refused");
        };
        assert!(error.to_string().contains("no such node"), "{error}");
        assert!(qmp.runs());
    }

    #[test]
    fn an_answer_goes_to_who_has_asked() {
        let mut qmp = running();
        let plug = |serial: &str| Plug {
            serial: serial.to_owned(),
            file: file(),
            readonly: true,
        };
        qmp.plugs.attach(plug("good"));
        qmp.plugs.attach(plug("bad"));
        // The first command of a disk is on its way when an exchange begins.
        let first: Value = serde_json::from_slice(&qmp.take_outgoing().unwrap().0).unwrap();
        assert_eq!(first["arguments"]["fdset-id"], 1);
        qmp.swap.replace("tools", file());
        assert!(qmp.take_outgoing().is_none(), "one command at a time");
        qmp.received(format!("{OK}\n{EVENT}\n").as_bytes()).unwrap();
        let refused = "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}";
        // Four of the exchange, two of the first disk; the second one is refused.
        let given = answered(&mut qmp, &[OK, OK, OK, OK, OK, OK, refused]);
        let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "add-fd",
                "blockdev-add",
                "blockdev-reopen",
                "remove-fd",
                "blockdev-add",
                "device_add",
                "add-fd",
                "remove-fd"
            ]
        );
        assert!(matches!(qmp.swap.replaced(), Some(Ok(()))));
        assert_eq!(qmp.plugs.take_changes(), [Change::Attached("good".to_owned())]);
        qmp.received(format!("{OK}\n").as_bytes()).unwrap();
        let changes = qmp.plugs.take_changes();
        assert_eq!(changes, [Change::Refused("bad".to_owned(), "no".to_owned())]);
    }

    #[test]
    fn descriptors_of_both_have_numbers_of_their_own() {
        let mut qmp = running();
        qmp.swap.replace("tools", file());
        let (line, _) = qmp.take_outgoing().unwrap();
        let command: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(command["arguments"]["fdset-id"], 256);
    }

    fn status(status: &str) -> Vec<u8> {
        format!("{{\"event\": \"MIGRATION\", \"data\": {{\"status\": \"{status}\"}}}}\n").into_bytes()
    }

    fn names(given: &[(String, bool)]) -> Vec<&str> {
        given.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_machine_is_saved() {
        let mut qmp = running();
        qmp.save(file());
        let given = answered(&mut qmp, &[OK, OK, OK, OK]);
        assert_eq!(
            names(&given),
            ["stop", "migrate-set-capabilities", "getfd", "migrate"]
        );
        assert_eq!(given.iter().position(|(_, file)| *file), Some(2));
        for (news, is_saved) in [("active", false), ("completed", true)] {
            assert!(!qmp.is_saved());
            qmp.received(&status(news)).unwrap();
            assert_eq!(qmp.is_saved(), is_saved);
        }
        let mut failing = running();
        failing.save(file());
        let failed = failing.received(&status("failed"));
        assert!(matches!(failed, Err(VmmError::Refused { .. })));
    }

    #[test]
    fn a_machine_goes_on_and_has_its_disk_exchanged() {
        let mut qmp = Qmp::new(Some(7));
        qmp.received(b"{\"QMP\": {}}\n").unwrap();
        // The last of them has no answer yet.
        let given = answered(&mut qmp, &[OK, OK]);
        assert_eq!(
            names(&given),
            ["qmp_capabilities", "migrate-set-capabilities", "migrate-incoming"]
        );
        assert!(qmp.is_answered());
        // It may be done before the command is answered, and does not run before both.
        qmp.received(&status("completed")).unwrap();
        assert!(qmp.take_outgoing().is_none());
        qmp.received(format!("{OK}\n").as_bytes()).unwrap();
        assert_eq!(names(&answered(&mut qmp, &[OK])), ["cont"]);
        assert!(qmp.runs() && !qmp.is_saved());
        // The news that it has its state is not the news that it was saved.
        qmp.received(&status("completed")).unwrap();
        assert!(!qmp.is_saved());
        qmp.swap.replace("tools", file());
        let given = answered(&mut qmp, &[OK, OK, OK, OK]);
        assert_eq!(
            names(&given),
            ["add-fd", "blockdev-add", "blockdev-reopen", "remove-fd"]
        );
    }

    #[test]
    fn a_state_that_is_refused_says_so() {
        let mut qmp = Qmp::new(Some(7));
        qmp.received(b"{\"QMP\": {}}\n").unwrap();
        answered(&mut qmp, &[OK, OK]);
        let refused = qmp.received(&status("failed")).unwrap_err().to_string();
        assert!(refused.contains("cannot resume the machine"), "{refused}");
    }
}
