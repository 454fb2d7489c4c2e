//! Features of this machine, and missing ones with the reason.

mod bundled;
mod facts;
mod streams;
mod vmms;

pub use bundled::{bundle_in_machine, process_in_machine};
pub use facts::{MachineFacts, MachineMemory, kernel_release};
pub use streams::send_output;

use crate::{Caller, Home};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tote_cgroup::{Kind, Layout};

/// Settings of tote and features of this machine.
#[derive(Debug, Serialize)]
pub struct MachineReport {
    /// The state root.
    pub root: PathBuf,
    /// Whether containers belong to an unprivileged user.
    pub rootless: bool,
    /// How many containers there are.
    pub containers: usize,
    /// Containers that run and are not paused.
    pub running: usize,
    /// Containers that are paused.
    pub paused: usize,
    /// All others.
    pub stopped: usize,
    /// How many images the store has.
    pub images: usize,
    /// Release of the kernel, as in `uname -r`.
    pub kernel: String,
    /// `v1`, `hybrid`, `v2`, or why it is unknown.
    pub cgroups: String,
    /// Each feature with `yes`, or the reason why not.
    pub features: BTreeMap<&'static str, String>,
    /// The default storage driver, or the reason why it is unknown.
    pub driver: String,
    /// Each storage driver with `yes`, and what of it there is here, or the reason why not.
    pub drivers: BTreeMap<&'static str, String>,
}

/// Looks at the machine.
#[must_use]
pub fn look(home: &Home) -> MachineReport {
    let cgroups = match Layout::read() {
        Ok(layout) => match layout.kind() {
            Kind::V1 => "v1",
            Kind::Hybrid => "hybrid",
            Kind::V2 => "v2",
        }
        .to_owned(),
        Err(error) => format!("unknown: {error}"),
    };
    let containers = crate::container::list(home).unwrap_or_default();
    let (total, runs) = (
        containers.len(),
        containers.iter().filter(|entry| entry.state.runs()),
    );
    let paused = runs.clone().filter(|entry| entry.state.paused).count();
    let running = runs.count() - paused;
    MachineReport {
        containers: total,
        running,
        paused,
        stopped: total - running - paused,
        // A store that cannot be read has none to show; other commands say why.
        images: count_images(home),
        root: home.root().to_owned(),
        rootless: home.caller == Caller::User,
        kernel: kernel_release(),
        cgroups,
        features: features(home),
        driver: match home.storage_config() {
            Ok(config) => config.driver.unwrap_or_default().name().to_owned(),
            Err(error) => format!("unknown: {error}"),
        },
        drivers: drivers(home),
    }
}

fn drivers(home: &Home) -> BTreeMap<&'static str, String> {
    let probes = tote_driver::probe(home.root(), home.caller == Caller::Root);
    let words = |probe: &tote_driver::Probe| match (&probe.usable, probe.more) {
        (Err(reason), _) => format!("no: {reason}"),
        (Ok(()), None) => "yes".to_owned(),
        (Ok(()), Some(more)) => format!("yes, {more}"),
    };
    probes.iter().map(|probe| (probe.name, words(probe))).collect()
}

fn features(home: &Home) -> BTreeMap<&'static str, String> {
    // absence: a text for people
    let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    // absence: a text for people
    let lsm = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let mut features = BTreeMap::new();
    let has_overlay = filesystems
        .lines()
        .any(|line| line.split('\t').next_back() == Some("overlay"));
    features.insert(
        "overlay",
        answer(has_overlay, "not in /proc/filesystems: load the module overlay"),
    );
    for (name, file) in [
        ("user namespaces", "/proc/self/ns/user"),
        ("cgroup namespaces", "/proc/self/ns/cgroup"),
        ("seccomp", "/proc/sys/kernel/seccomp/actions_avail"),
    ] {
        // absence: a text for people
        let present = std::path::Path::new(file).try_exists().unwrap_or(false);
        features.insert(
            name,
            if present {
                "yes".to_owned()
            } else {
                format!("no {file}")
            },
        );
    }
    let kvm = tote_sys::try_kvm().map_err(|fault| fault.to_string());
    features.insert("kvm", kvm.map_or_else(|reason| reason, |()| "yes".to_owned()));
    features.extend(vmms::look());
    let networks = crate::network::unavailable(home).map(|fault| fault.to_string());
    let reason = networks.as_deref().unwrap_or_default();
    let reason = reason.strip_prefix("cannot use a network: ").unwrap_or(reason);
    features.insert("networks", answer(networks.is_none(), reason));
    for name in ["apparmor", "selinux", "landlock", "bpf"] {
        let active = lsm.trim().split(',').any(|active| active == name);
        features.insert(name, answer(active, "not among the active security modules"));
    }
    features
}

fn answer(present: bool, reason: &str) -> String {
    if present {
        "yes".to_owned()
    } else {
        format!("no: {reason}")
    }
}

/// Number of images in the store; `None` if it is unknown.
fn count_images(home: &Home) -> usize {
    let images = tote_images::open_store(home).map(|store| store.images());
    images.map_or(0, |images| images.map_or(0, |images| images.len()))
}
