//! Disks that come and go while a machine runs: QEMU's commands for them, one after another.
//!
//! A disk is a number of SCSI behind one controller, which needs no slot and no help of the guest. QEMU is in a sandbox
//! without the file, so it gets a descriptor.

use rustix::fd::OwnedFd;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Name of the controller.
const CONTROLLER: &str = "plug";

/// The most disks that a machine has got in this way at a time: numbers of SCSI's targets.
pub(crate) const MOST: u32 = 255;

/// Returns the words for the controller of such disks.
pub(crate) fn controller(bus: &str) -> (&'static str, String) {
    ("-device", format!("virtio-scsi-{bus},id={CONTROLLER}"))
}

/// Disk for a machine that runs.
#[derive(Debug)]
pub struct Plug {
    /// Serial number: 36 characters at most.
    pub serial: String,
    /// The file.
    pub file: OwnedFd,
    /// True if the guest cannot write to it.
    pub readonly: bool,
}

/// Something that has become of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The machine has the disk of this serial number.
    Attached(String),
    /// The machine cannot have it, for this reason.
    Refused(String, String),
    /// The machine has it no more.
    Detached(String),
}

/// Step of a job, each of which is a command; all but `Gone`, which is a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Pass,
    Open,
    Plug,
    Unplug,
    Gone,
    Close,
    Forget,
}

/// Disk that comes or goes.
#[derive(Debug)]
struct Job {
    number: u32,
    serial: String,
    readonly: bool,
    file: Option<OwnedFd>,
    step: Step,
    /// Why it cannot come.
    refused: Option<String>,
    /// True once the guest has let go of it.
    gone: bool,
    comes: bool,
}

/// All jobs of a machine.
#[derive(Debug, Default)]
pub(crate) struct Plugs {
    jobs: VecDeque<Job>,
    /// True while the first job waits for an answer.
    asked: bool,
    /// Numbers of the disks that the machine has or gets, by their serial numbers.
    numbers: BTreeMap<String, u32>,
    changes: Vec<Change>,
}

impl Plugs {
    /// Notes that the machine is to get a disk.
    pub(crate) fn attach(&mut self, plug: Plug) {
        let unused = (1..=MOST).find(|number| !self.numbers.values().any(|taken| taken == number));
        let Some(number) = unused.filter(|_| !self.numbers.contains_key(&plug.serial)) else {
            let reason = "it has too many disks".to_owned();
            return self.changes.push(Change::Refused(plug.serial, reason));
        };
        self.numbers.insert(plug.serial.clone(), number);
        self.jobs.push_back(Job {
            number,
            serial: plug.serial,
            readonly: plug.readonly,
            file: Some(plug.file),
            step: Step::Pass,
            refused: None,
            gone: false,
            comes: true,
        });
    }

    /// Notes that the machine is to lose a disk.
    pub(crate) fn detach(&mut self, serial: &str) {
        let Some(number) = self.numbers.get(serial) else {
            return self.changes.push(Change::Detached(serial.to_owned()));
        };
        self.jobs.push_back(Job {
            number: *number,
            serial: serial.to_owned(),
            readonly: false,
            file: None,
            step: Step::Unplug,
            refused: None,
            gone: false,
            comes: false,
        });
    }

    /// Returns what has become of disks, and forgets it.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the next command, with a descriptor that goes with it; `None` while one has no answer.
    pub(crate) fn ask(&mut self) -> Option<(Value, Option<OwnedFd>)> {
        if self.asked {
            return None;
        }
        let job = self.jobs.front_mut()?;
        let command = job.command()?;
        self.asked = true;
        Some((command, job.file.take()))
    }

    /// Takes the answer to the last command; an error comes with its reason.
    pub(crate) fn answered(&mut self, answer: Result<(), String>) {
        if !std::mem::take(&mut self.asked) {
            return;
        }
        if let Some(job) = self.jobs.front_mut()
            && job.follow(answer)
        {
            self.finish();
        }
    }

    /// Takes the news that the guest has let go of a device.
    pub(crate) fn let_go(&mut self, device: &str) {
        let Some(job) = self.jobs.front_mut() else { return };
        if device == job.device() {
            job.gone = true;
            if job.step == Step::Gone {
                job.step = Step::Close;
            }
        }
    }

    fn finish(&mut self) {
        let Some(job) = self.jobs.pop_front() else { return };
        self.changes.push(match job.refused {
            None if job.comes => return self.changes.push(Change::Attached(job.serial)),
            Some(reason) => {
                self.numbers.remove(&job.serial);
                Change::Refused(job.serial, reason)
            }
            None => {
                self.numbers.remove(&job.serial);
                Change::Detached(job.serial)
            }
        });
    }
}

impl Job {
    fn device(&self) -> String {
        format!("disk{}", self.number)
    }

    fn node(&self) -> String {
        format!("file{}", self.number)
    }

    fn command(&self) -> Option<Value> {
        let (number, device, node) = (self.number, self.device(), self.node());
        Some(match self.step {
            Step::Pass => json!({"execute": "add-fd", "arguments": {"fdset-id": number}}),
            Step::Open => json!({"execute": "blockdev-add", "arguments": {
                "driver": "file",
                "node-name": node,
                "filename": format!("/dev/fdset/{number}"),
                "read-only": self.readonly,
                "discard": if self.readonly { "ignore" } else { "unmap" },
            }}),
            Step::Plug => json!({"execute": "device_add", "arguments": {
                "driver": "scsi-hd",
                "bus": format!("{CONTROLLER}.0"),
                "scsi-id": number,
                "drive": node,
                "id": device,
                "serial": self.serial,
            }}),
            Step::Unplug => json!({"execute": "device_del", "arguments": {"id": device}}),
            Step::Gone => return None,
            Step::Close => json!({"execute": "blockdev-del", "arguments": {"node-name": node}}),
            Step::Forget => json!({"execute": "remove-fd", "arguments": {"fdset-id": number}}),
        })
    }

    /// Goes on after an answer; true if that was the last one.
    fn follow(&mut self, answer: Result<(), String>) -> bool {
        let failed = answer.err();
        self.step = match (self.step, &failed) {
            (Step::Pass, None) => Step::Open,
            (Step::Open, None) => Step::Plug,
            (Step::Plug, None) | (Step::Forget, _) => return true,
            (Step::Pass, Some(_)) | (Step::Close, _) | (Step::Open, Some(_)) => Step::Forget,
            (Step::Unplug, None) if !self.gone => Step::Gone,
            (Step::Plug, Some(_)) | (Step::Unplug | Step::Gone, _) => Step::Close,
        };
        if self.comes && self.refused.is_none() {
            self.refused = failed;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plug(serial: &str, readonly: bool) -> Plug {
        Plug {
            serial: serial.to_owned(),
            file: std::fs::File::open("/dev/null").unwrap().into(),
            readonly,
        }
    }

    /// Takes the next command, which has this name and this descriptor or none.
    fn asked(plugs: &mut Plugs, name: &str, has_fd: bool) -> Value {
        let (command, fd) = plugs.ask().unwrap_or_else(|| panic!("{name}"));
        assert_eq!(command["execute"], name);
        assert_eq!(fd.is_some(), has_fd, "{name}");
        assert!(plugs.ask().is_none(), "one after another");
        command["arguments"].clone()
    }

    #[test]
    fn a_disk_comes_and_goes() {
        let mut plugs = Plugs::default();
        plugs.attach(plug("a", true));
        plugs.attach(plug("b", false));
        for (serial, number) in [("a", 1), ("b", 2)] {
            assert_eq!(asked(&mut plugs, "add-fd", true)["fdset-id"], number);
            plugs.answered(Ok(()));
            let open = asked(&mut plugs, "blockdev-add", false);
            assert_eq!(open["filename"], format!("/dev/fdset/{number}"));
            assert_eq!(open["read-only"], serial == "a");
            plugs.answered(Ok(()));
            assert_eq!(asked(&mut plugs, "device_add", false)["serial"], serial);
            assert!(plugs.take_changes().is_empty());
            plugs.answered(Ok(()));
            assert_eq!(plugs.take_changes(), [Change::Attached(serial.to_owned())]);
        }
        plugs.detach("a");
        assert_eq!(asked(&mut plugs, "device_del", false)["id"], "disk1");
        plugs.answered(Ok(()));
        assert!(plugs.ask().is_none(), "the guest holds it");
        plugs.let_go("disk2");
        assert!(plugs.ask().is_none(), "that was another one");
        plugs.let_go("disk1");
        asked(&mut plugs, "blockdev-del", false);
        plugs.answered(Ok(()));
        asked(&mut plugs, "remove-fd", false);
        plugs.answered(Ok(()));
        assert_eq!(plugs.take_changes(), [Change::Detached("a".to_owned())]);
        // Its number is free, and the news of its end may be there before the answer.
        plugs.attach(plug("c", false));
        assert_eq!(asked(&mut plugs, "add-fd", true)["fdset-id"], 1);
        for _ in 0..3 {
            plugs.answered(Ok(()));
            let _next = plugs.ask();
        }
        plugs.take_changes();
        plugs.detach("c");
        asked(&mut plugs, "device_del", false);
        plugs.let_go("disk1");
        plugs.answered(Ok(()));
        asked(&mut plugs, "blockdev-del", false);
    }

    #[test]
    fn what_is_refused_leaves_nothing() {
        let mut plugs = Plugs::default();
        plugs.attach(plug("a", false));
        plugs.ask();
        plugs.answered(Ok(()));
        plugs.ask();
        plugs.answered(Err("Failed to get \"write\" lock".to_owned()));
        asked(&mut plugs, "remove-fd", false);
        plugs.answered(Ok(()));
        let refused = Change::Refused("a".to_owned(), "Failed to get \"write\" lock".to_owned());
        assert_eq!(plugs.take_changes(), [refused]);
        plugs.detach("a");
        assert_eq!(plugs.take_changes(), [Change::Detached("a".to_owned())]);
        plugs.attach(plug("a", false));
        for _ in 0..2 {
            plugs.ask();
            plugs.answered(Ok(()));
        }
        plugs.ask();
        plugs.answered(Err("no such bus".to_owned()));
        asked(&mut plugs, "blockdev-del", false);
        plugs.answered(Ok(()));
        asked(&mut plugs, "remove-fd", false);
        plugs.answered(Ok(()));
        assert!(matches!(&plugs.take_changes()[..], [Change::Refused(..)]));
        assert!(plugs.ask().is_none());
    }
}
