//! Exchange of the file of a disk: QEMU's commands for it, one after another.

use crate::VmmError;
use crate::plug::MOST;
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// A command, and the descriptor that goes with it.
type Step = (Value, Option<OwnedFd>);

/// The exchange of a machine: there is one at a time.
#[derive(Debug, Default)]
pub(crate) struct Swap {
    /// Commands that have not been given.
    steps: VecDeque<Step>,
    /// Number of files that were put in the place of others.
    files: u32,
    /// End of the last exchange.
    replaced: Option<Result<(), VmmError>>,
}

impl Swap {
    /// Puts a file in the place of what a disk has: only its bytes change, so the guest's device stays. The file of the exchange before is
    /// closed then. A socket leads to a server that speaks NBD.
    pub(crate) fn replace(&mut self, serial: &str, file: OwnedFd) {
        let (old, new) = (self.files, self.files + 1);
        self.files = new;
        let node = |number| format!("{serial}{number}");
        // The numbers before are those of disks that come and go.
        let set = MOST + new;
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
                "filename": format!("/dev/fdset/{set}"),
            });
            // QEMU has a copy of its own then.
            let forget = command("remove-fd", json!({ "fdset-id": set }));
            (command("add-fd", json!({ "fdset-id": set })), open, Some(forget))
        };
        let turn = json!({
            "options": [{ "driver": "raw", "node-name": serial, "read-only": true, "file": node(new) }],
        });
        let steps = [
            Some((add, Some(file))),
            Some((command("blockdev-add", open), None)),
            Some((command("blockdev-reopen", turn), None)),
            forget.map(|command| (command, None)),
            (old > 0).then(|| (command("blockdev-del", json!({ "node-name": node(old) })), None)),
        ];
        self.steps = steps.into_iter().flatten().collect();
        self.replaced = None;
    }

    /// Returns how [`Swap::replace`] has ended, once.
    pub(crate) fn replaced(&mut self) -> Option<Result<(), VmmError>> {
        self.replaced.take()
    }

    /// Returns the next command, with a descriptor that goes with it.
    pub(crate) fn ask(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Takes the answer to the last command; an error comes with its reason, and the machine goes on with what it has.
    pub(crate) fn answered(&mut self, answer: Result<(), String>) {
        match answer {
            Ok(()) if !self.steps.is_empty() => {}
            Ok(()) => self.replaced = Some(Ok(())),
            Err(reason) => {
                self.steps.clear();
                let attempt = "change the content of a disk";
                self.replaced = Some(Err(VmmError::Refused { attempt, reason }));
            }
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
