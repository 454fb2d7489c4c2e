//! Facts about the machine itself.

use crate::Home;
use std::path::PathBuf;

/// Names, processors and memory of this machine.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    /// Name of the host.
    pub hostname: String,
    /// The operating system as /etc/os-release calls it.
    pub operating_system: String,
    /// Number of processors that are online.
    pub processors: u64,
    /// Memory.
    pub memory: MachineMemory,
    /// Directory of the volumes.
    pub volumes: PathBuf,
}

/// Memory of a machine, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct MachineMemory {
    /// All of it.
    pub total: u64,
    /// Memory that nothing uses.
    pub free: u64,
    /// All of the swap space.
    pub swap: u64,
    /// Free swap space.
    pub free_swap: u64,
}

impl MachineFacts {
    /// Looks at the machine.
    #[must_use]
    pub fn look(home: &Home) -> Self {
        Self {
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            operating_system: operating_system(),
            processors: crate::processors::processors(),
            memory: MachineMemory::look(),
            volumes: home.volumes(),
        }
    }
}

impl MachineMemory {
    fn look() -> Self {
        let seen = rustix::system::sysinfo();
        let bytes = |count: u64| count.saturating_mul(u64::from(seen.mem_unit));
        Self {
            total: bytes(seen.totalram),
            free: bytes(seen.freeram),
            swap: bytes(seen.totalswap),
            free_swap: bytes(seen.freeswap),
        }
    }
}

/// Release of the kernel, as in `uname -r`.
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn operating_system() -> String {
    // absence: a text for people
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("Linux").trim_matches('"').to_owned()
}
