//! Fault points, at which tests kill or stop tote.
//!
//! Each step that leaves a trace on disk or in the kernel has a named point. In builds with debug assertions a
//! process whose `TOTE_FAULT` is that name kills itself there, as `kill -9` would, and one whose `TOTE_FAULT` is `stop:` with
//! that name stops until it gets SIGCONT; in other builds the point does nothing.

#[cfg(debug_assertions)]
use rustix::process::Signal;

/// Names of the points, in the order in which a container meets them: create, start, end, removal; then those of
/// pools: filling, the keeper, a taker of a sandbox, removal; then those of pods; then those of `cp`, of `rename`, of
/// a container in the foreground that gets a monitor, of volumes, of networks, and of `mount`.
pub const POINTS: [&str; 69] = [
    "claimed",
    "named",
    "state-new",
    "recorded",
    "created",
    "unmarked",
    "planned",
    "forked",
    "bound",
    "born",
    "unnoted",
    "noted",
    "running",
    "told",
    "ended",
    "cgroup-gone",
    "state-ended",
    "released",
    "marked",
    "force-marked",
    "killed",
    "nameless",
    "emptied",
    "restarting",
    "pool-written",
    "pool-bound",
    "pool-parked",
    "pool-taken",
    "pool-noted",
    "pool-ended",
    "pool-cleared",
    "pool-connected",
    "pool-named",
    "pool-brought",
    "pool-began",
    "pool-unwritten",
    "pool-drained",
    "pod-claimed",
    "pod-named",
    "pod-grouped",
    "pod-infra",
    "pod-recorded",
    "pod-marked",
    "pod-emptied",
    "pod-nameless",
    "pod-unrecorded",
    "cp-whole",
    "rename-taken",
    "rename-written",
    "inherited",
    "succeeded",
    "volume-made",
    "volume-hidden",
    "volumes-left",
    "connect-leased",
    "connect-held",
    "connect-linked",
    "connect-plugged",
    "connect-written",
    "disconnect-written",
    "disconnect-unlinked",
    "disconnect-released",
    "network-unwritten",
    "network-written",
    "network-unrecorded",
    "mount-marked",
    "mount-placed",
    "mount-made",
    "mount-hidden",
];

/// Kills or stops this process if the environment names this point.
#[cfg(debug_assertions)]
pub fn point(name: &str) {
    debug_assert!(POINTS.contains(&name), "{name} is not in the list");
    // The variable is read early, because a keeper of a pool has no environment later.
    static WANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let wanted = WANTED.get_or_init(|| std::env::var("TOTE_FAULT").ok());
    let Some(wanted) = wanted else { return };
    let signal = match wanted.strip_prefix("stop:") {
        Some(stops) if stops == name => Signal::STOP,
        None if wanted == name => Signal::KILL,
        _ => return,
    };
    tote_sys::best_effort(rustix::process::kill_process(rustix::process::getpid(), signal));
}

/// Does nothing: only a build with debug assertions has fault points.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn point(_: &str) {}
