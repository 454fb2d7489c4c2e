//! QMP, QEMU's machine protocol: lines of JSON, here without reading and writing them.

use crate::VmmError;
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Longest line that is kept: QEMU's own are shorter.
const LINE: usize = 64 << 10;

/// Name under which QEMU is given the file of a machine's state.
const STATE: &str = "state";

/// Attempts, in the words of an error that says one failed.
const HELLO: &str = "begin a conversation";
const RUN: &str = "let the machine run";
const RESUME: &str = "resume the machine";
const SAVE: &str = "save the machine";
const EXCHANGE: &str = "change the content of a disk";

/// Command that waits for the answers to those before it.
#[derive(Debug)]
struct Asked {
    command: Value,
    attempt: &'static str,
    /// Descriptor that goes along.
    file: Option<OwnedFd>,
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

/// A line for QEMU, and the descriptor that comes with it.
type Line = (Vec<u8>, Option<OwnedFd>);

/// The client's side of a conversation that lets a machine run which was started with `-S`: one command at a time.
#[derive(Debug)]
pub(crate) struct Qmp {
    greeted: bool,
    answered: bool,
    /// Attempt of the command whose answer has not come.
    asked: Option<&'static str>,
    waiting: VecDeque<Asked>,
    migration: Migration,
    line: Vec<u8>,
    /// The next line for QEMU.
    out: Option<Line>,
    /// Number of files that were put in the place of others.
    files: u32,
    /// End of the last such exchange.
    replaced: Option<Result<(), VmmError>>,
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
            files: 0,
            replaced: None,
        };
        qmp.ask(HELLO, json!({ "execute": "qmp_capabilities" }));
        if let Some(state) = state {
            qmp.share_memory();
            let uri = format!("fd:{state}");
            qmp.ask(RESUME, command("migrate-incoming", json!({ "uri": uri })));
        }
        qmp.ask(RUN, json!({ "execute": "cont" }));
        qmp
    }

    /// Has the machine saved, with its state in the file.
    pub(crate) fn save(&mut self, state: OwnedFd) {
        self.ask(SAVE, json!({ "execute": "stop" }));
        self.share_memory();
        self.waiting.push_back(Asked {
            command: command("getfd", json!({ "fdname": STATE })),
            attempt: SAVE,
            file: Some(state),
        });
        let uri = format!("fd:{STATE}");
        self.ask(SAVE, command("migrate", json!({ "uri": uri })));
        self.migration = Migration::Saves;
        self.go_on();
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
            (command("getfd", json!({ "fdname": node(new) })), open, None)
        } else {
            let open = json!({
                "driver": "file",
                "node-name": node(new),
                "read-only": true,
                "filename": format!("/dev/fdset/{new}"),
            });
            // QEMU has a copy of its own then.
            let forget = command("remove-fd", json!({ "fdset-id": new }));
            (command("add-fd", json!({ "fdset-id": new })), open, Some(forget))
        };
        let turn = json!({
            "options": [{ "driver": "raw", "node-name": serial, "read-only": true, "file": node(new) }],
        });
        self.replaced = None;
        self.waiting.push_back(Asked {
            command: add,
            attempt: EXCHANGE,
            file: Some(file),
        });
        let steps = [
            Some(command("blockdev-add", open)),
            Some(command("blockdev-reopen", turn)),
            forget,
            (old > 0).then(|| command("blockdev-del", json!({ "node-name": node(old) }))),
        ];
        for step in steps.into_iter().flatten() {
            self.ask(EXCHANGE, step);
        }
        self.go_on();
    }

    /// Returns how [`Qmp::replace`] has ended, once.
    pub(crate) fn replaced(&mut self) -> Option<Result<(), VmmError>> {
        self.replaced.take()
    }

    /// True once the machine is saved.
    pub(crate) fn is_saved(&self) -> bool {
        self.migration == Migration::Saved
    }

    /// True once QEMU has begun to answer: it has opened its files then.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Returns the line that has to be sent, and forgets it.
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
            return self.refused(text(error.get("desc")));
        }
        if message.get("QMP").is_some() && !self.greeted {
            self.greeted = true;
            self.go_on();
        } else if message.get("return").is_some() {
            let done = self.asked.take();
            self.answered = true;
            if done == Some(EXCHANGE) && !self.exchanges() {
                self.replaced = Some(Ok(()));
            }
            self.go_on();
        } else if message.get("event").and_then(Value::as_str) == Some("MIGRATION") {
            self.hear_migration(&text(message.pointer("/data/status")))?;
        }
        // Other events tell nothing that the end of the process does not.
        Ok(())
    }

    /// True if the next command is a step of an exchange.
    fn exchanges(&self) -> bool {
        self.waiting.front().is_some_and(|next| next.attempt == EXCHANGE)
    }

    /// Takes that QEMU refuses a command. After a refused exchange the machine goes on with what it has.
    fn refused(&mut self, reason: String) -> Result<(), VmmError> {
        let attempt = self.asked.take().unwrap_or(HELLO);
        let refused = VmmError::Refused { attempt, reason };
        if attempt != EXCHANGE {
            return Err(refused);
        }
        while self.exchanges() {
            self.waiting.pop_front();
        }
        self.replaced = Some(Err(refused));
        self.go_on();
        Ok(())
    }

    /// Takes how far a migration has come.
    fn hear_migration(&mut self, status: &str) -> Result<(), VmmError> {
        let attempt = match self.migration {
            Migration::Loads => RESUME,
            Migration::Saves => SAVE,
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
        let capabilities = json!({ "capabilities": [on("x-ignore-shared"), on("events")] });
        self.ask(
            "leave the memory out",
            command("migrate-set-capabilities", capabilities),
        );
    }

    fn ask(&mut self, attempt: &'static str, command: Value) {
        self.waiting.push_back(Asked {
            command,
            attempt,
            file: None,
        });
    }

    /// Sends the next command, if no other one waits for its answer.
    fn go_on(&mut self) {
        if !self.greeted || self.asked.is_some() {
            return;
        }
        // A machine that takes its state stands still after that, as it did when it was saved; `cont` is for then.
        let loads = self.migration == Migration::Loads;
        if let Some(next) = self.waiting.pop_front_if(|next| !loads || next.attempt != RUN) {
            self.asked = Some(next.attempt);
            let mut bytes = next.command.to_string().into_bytes();
            bytes.push(b'\n');
            self.out = Some((bytes, next.file));
        }
    }
}

fn is_socket(file: &OwnedFd) -> bool {
    let found = rustix::fs::fstat(file);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}

fn command(name: &str, arguments: Value) -> Value {
    json!({ "execute": name, "arguments": arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "{\"return\": {}}";
    const EVENT: &str = "{\"event\": \"RTC_CHANGE\"}";
    const REFUSED: &[u8] = b"{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}\n";

    /// Answers each command with `{}`; returns the commands, with whether a descriptor came along.
    fn conversation(qmp: &mut Qmp) -> Vec<Value> {
        let mut said = Vec::new();
        while let Some((line, file)) = qmp.take_outgoing() {
            let mut command: Value = serde_json::from_slice(&line).unwrap();
            command["file"] = file.is_some().into();
            said.push(command);
            qmp.received(format!("{EVENT}\r\n{OK}\r\n").as_bytes()).unwrap();
        }
        said
    }

    fn names(said: &[Value]) -> Vec<&str> {
        said.iter()
            .filter_map(|command| command["execute"].as_str())
            .collect()
    }

    fn files(said: &[Value]) -> Vec<bool> {
        said.iter().map(|command| command["file"] == true).collect()
    }

    fn status(status: &str) -> Vec<u8> {
        format!("{{\"event\": \"MIGRATION\", \"data\": {{\"status\": \"{status}\"}}}}\n").into_bytes()
    }

    fn file() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    /// A machine that has booted.
    fn running() -> Qmp {
        let mut qmp = Qmp::new(None);
        qmp.received(b"{\"QMP\": {}}\n").unwrap();
        conversation(&mut qmp);
        assert!(qmp.runs());
        qmp
    }

    #[test]
    fn it_lets_the_machine_run() {
        let mut qmp = Qmp::new(None);
        assert!(qmp.take_outgoing().is_none(), "QEMU speaks first");
        qmp.received(b"{\"QMP\": {\"version\": {}}}\r\n").unwrap();
        let said = |qmp: &mut Qmp| String::from_utf8(qmp.take_outgoing().unwrap().0).unwrap();
        assert_eq!(said(&mut qmp), "{\"execute\":\"qmp_capabilities\"}\n");
        qmp.received(b"{\"return\": {}}\r\n{\"event\": \"RESUME\"}")
            .unwrap();
        assert_eq!(said(&mut qmp), "{\"execute\":\"cont\"}\n");
        assert!(!qmp.runs());
        qmp.received(b"\n{\"return\": {}}\n").unwrap();
        assert!(qmp.runs());
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
    fn a_machine_is_saved() {
        let mut qmp = running();
        qmp.save(file());
        let said = conversation(&mut qmp);
        assert_eq!(
            names(&said),
            ["stop", "migrate-set-capabilities", "getfd", "migrate"]
        );
        assert_eq!(files(&said), [false, false, true, false]);
        assert!(!qmp.is_saved());
        qmp.received(&status("active")).unwrap();
        assert!(!qmp.is_saved());
        qmp.received(&status("completed")).unwrap();
        assert!(qmp.is_saved());
        let mut failing = Qmp::new(None);
        failing.save(file());
        assert!(matches!(
            failing.received(&status("failed")),
            Err(VmmError::Refused { .. })
        ));
    }

    #[test]
    fn a_machine_goes_on_and_has_its_disk_exchanged() {
        let mut qmp = Qmp::new(Some(7));
        qmp.received(b"{\"QMP\": {}}\n").unwrap();
        let said = conversation(&mut qmp);
        let expected = ["qmp_capabilities", "migrate-set-capabilities", "migrate-incoming"];
        assert_eq!(names(&said), expected);
        assert_eq!(said[2]["arguments"]["uri"], "fd:7");
        assert!(!qmp.runs(), "it does not run before its state is there");
        qmp.received(&status("completed")).unwrap();
        assert_eq!(names(&conversation(&mut qmp)), ["cont"]);
        assert!(qmp.runs() && qmp.replaced().is_none());
        // What it tells of its own migration is not that it was saved.
        qmp.received(&status("completed")).unwrap();
        assert!(!qmp.is_saved());
        qmp.replace("tools", file());
        let said = conversation(&mut qmp);
        let expected = ["add-fd", "blockdev-add", "blockdev-reopen", "remove-fd"];
        assert_eq!(names(&said), expected);
        assert!(matches!(qmp.replaced(), Some(Ok(()))));
    }

    #[test]
    fn an_error_says_what_was_attempted() {
        let begun = Qmp::new(None).received(REFUSED).unwrap_err().to_string();
        assert_eq!(
            begun,
            "the virtual machine monitor cannot begin a conversation: no"
        );
        let mut qmp = Qmp::new(Some(7));
        qmp.received(b"{\"QMP\": {}}\n{\"return\": {}}\n{\"return\": {}}\n")
            .unwrap();
        let text = qmp.received(REFUSED).unwrap_err().to_string();
        assert_eq!(text, "the virtual machine monitor cannot resume the machine: no");
    }

    #[test]
    fn the_file_of_a_disk_is_exchanged() {
        let mut qmp = running();
        for (round, last) in [(1, "remove-fd"), (2, "blockdev-del")] {
            qmp.replace("tools", file());
            assert!(qmp.replaced().is_none());
            let said = conversation(&mut qmp);
            let names = names(&said);
            assert_eq!(
                names[..3],
                ["add-fd", "blockdev-add", "blockdev-reopen"],
                "{round}"
            );
            assert_eq!(names.last(), Some(&last));
            assert_eq!(files(&said).iter().filter(|file| **file).count(), 1);
            assert!(files(&said)[0]);
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
        let said = conversation(&mut qmp);
        assert_eq!(names(&said), ["getfd", "blockdev-add", "blockdev-reopen"]);
        assert!(files(&said)[0] && matches!(qmp.replaced(), Some(Ok(()))));
    }

    #[test]
    fn a_refused_exchange_leaves_the_machine_running() {
        let mut qmp = running();
        qmp.replace("tools", file());
        assert!(qmp.take_outgoing().is_some());
        qmp.received(format!("{OK}\n").as_bytes()).unwrap();
        assert!(qmp.take_outgoing().is_some() && !qmp.runs());
        qmp.received(REFUSED).unwrap();
        let Some(Err(error)) = qmp.replaced() else {
            panic!("it is refused");
        };
        assert_eq!(
            error.to_string(),
            "the virtual machine monitor cannot change the content of a disk: no"
        );
        assert!(qmp.runs() && qmp.take_outgoing().is_none());
    }
}
