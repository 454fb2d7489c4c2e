//! The processes of a container that is in a virtual machine, as the guest lists them.

use super::VmFault;
use super::enter::{look_up, sandboxed};
use crate::container::Entry;
use crate::exec::{Target, capture_planned};
use crate::{EngineError, Home};
use std::collections::BTreeMap;
use std::time::Duration;
use tote_bundle::ExecOptions;

/// Longest time that the guest may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most bytes of a listing that are read.
const LONGEST: usize = 8 << 20;

/// Files of `/proc` in a guest, and the names of its container's users.
#[derive(Debug)]
pub struct GuestProcesses {
    files: BTreeMap<String, String>,
    /// passwd(5) and group(5) of the image.
    pub names: (String, String),
}

impl GuestProcesses {
    /// Returns the numbers of the processes, as the guest's kernel counts.
    pub fn pids(&self) -> Vec<u32> {
        let names = self.files.keys();
        let mut pids: Vec<u32> = names
            .filter_map(|name| name.strip_suffix("/stat")?.parse().ok())
            .collect();
        pids.sort_unstable();
        pids
    }

    /// Returns a file of a process; it is empty for a process that is not listed.
    pub fn read(&self, pid: u32, name: &str) -> String {
        self.of_machine(&format!("{pid}/{name}"))
    }

    /// Returns a file of the whole machine.
    pub fn of_machine(&self, name: &str) -> String {
        self.files.get(name).cloned().unwrap_or_default()
    }
}

/// Asks the guest for the processes of its container.
pub fn processes(home: &Home, entry: &Entry) -> Result<GuestProcesses, EngineError> {
    let names = look_up(home, entry)?;
    let target = Target::of(home, entry.clone())?;
    let plan = sandboxed(&target, tote_guest::PROCESSES, &ExecOptions::default())?;
    let captured = capture_planned(target, plan, (PATIENCE, LONGEST), None)?;
    if captured.code != Some(0) {
        return Err(VmFault::Guest(VmFault::said(&captured.output)).into());
    }
    Ok(GuestProcesses {
        files: tote_guest::parse_listing(&captured.output),
        names,
    })
}
