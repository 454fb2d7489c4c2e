//! What a plan must know of this host and this process.

use tote_sandbox::{CgroupView, DeviceNodes, Facts, SecurityModule};

/// What is true of this host and this process, whatever becomes a process; the rest is as little as can be.
///
/// The oom score is looked up only where it matters.
#[must_use]
pub fn host_facts(with_oom_score: bool) -> Facts<'static> {
    Facts {
        bounding: tote_sys::bounding_capabilities(),
        hard_limit: &|resource| tote_sys::hard_limit(resource).ok().map(|limit| limit.hard),
        oom_score_adj: if with_oom_score { oom_score_adj() } else { 0 },
        cgroup_view: CgroupView::None,
        waits_for_cgroup: true,
        network_comes: false,
        setgroups: true,
        device_nodes: DeviceNodes::Mounted,
        own_executable: own_executable(),
        privileged: rustix::process::geteuid().is_root(),
        security_module: SecurityModule::None,
    }
}

/// Whether setgroups(2) is allowed in the user namespace of a process, by its directory in /proc.
#[must_use]
pub fn groups_allowed(process: &str) -> bool {
    let text = std::fs::read_to_string(format!("{process}/setgroups")).unwrap_or_default();
    text.trim() != "deny"
}

/// This process's own.
fn oom_score_adj() -> i32 {
    std::fs::read_to_string("/proc/self/oom_score_adj")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Device and inode of this very executable.
fn own_executable() -> Option<(u64, u64)> {
    rustix::fs::stat("/proc/self/exe")
        .ok()
        .map(|stat| (stat.st_dev, stat.st_ino))
}
