use crate::options::RunOptions;
use crate::path::glob;

/// moby's list, with the paths that its advisories GHSA-6fw5-f8r9-fgfm and GHSA-jq35-85cj-fj4p added.
const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

const READONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Computes the masked and the read-only paths; `more` are masked as well.
#[must_use]
pub fn system_paths(options: &RunOptions, more: &[String]) -> (Vec<String>, Vec<String>) {
    let security = &options.security;
    if options.privileged {
        return (Vec::new(), Vec::new());
    }
    let kept = |path: &&str| {
        !security.system_paths_unconfined && !security.unmask.iter().any(|pattern| glob(pattern, path))
    };
    let extra = more.iter().map(String::as_str);
    let mut masked: Vec<String> = MASKED
        .into_iter()
        .chain(extra)
        .filter(kept)
        .map(str::to_owned)
        .collect();
    for path in &security.mask {
        if !masked.contains(path) {
            masked.push(path.clone());
        }
    }
    (
        masked,
        READONLY
            .into_iter()
            .filter(|path| kept(path))
            .map(str::to_owned)
            .collect(),
    )
}
