//! Facts about this host and this process that a plan needs.

use tote_sandbox::{CgroupView, DeviceNodes, Facts, SecurityModule};

/// Returns the facts that hold for every plan on this host and in this process; the others have defaults, which the
/// caller replaces.
///
/// The oom score is read only if the plan needs it.
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
        becomes_root: false,
        security_module: SecurityModule::None,
    }
}

/// Returns the security module that labels processes on this host.
#[must_use]
pub fn security_module() -> SecurityModule {
    // absence: asked at each start, and the kernel decides what is allowed
    let enabled = |path| std::fs::read_to_string(path).is_ok_and(|text| text.starts_with('Y'));
    // A module that cannot be seen sets no labels, and a spec that asks for them is refused.
    // absence: asked at each start, and the kernel decides what is allowed
    let enforces = |path| std::fs::metadata(path).is_ok();
    if enabled("/sys/module/apparmor/parameters/enabled") {
        SecurityModule::AppArmor
    } else if enforces("/sys/fs/selinux/enforce") {
        SecurityModule::SeLinux
    } else {
        SecurityModule::None
    }
}

/// True if setgroups(2) is allowed in the user namespace of a process, given by its directory in /proc.
#[must_use]
pub fn groups_allowed(process: &str) -> bool {
    let text = tote_sys::read_proc_text(format!("{process}/setgroups")).unwrap_or_default();
    text.trim() != "deny"
}

/// Reads the value of this process.
fn oom_score_adj() -> i32 {
    tote_sys::read_proc_text("/proc/self/oom_score_adj")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Returns device and inode of this executable.
fn own_executable() -> Option<(u64, u64)> {
    // absence: a program that cannot be compared is not the engine itself
    rustix::fs::stat("/proc/self/exe")
        .ok()
        .map(|stat| (stat.st_dev, stat.st_ino))
}
