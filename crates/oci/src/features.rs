//! The command `features`: capabilities that a caller can count on.

use serde_json::{Value, json};

/// All mount options, sorted.
const MOUNT_OPTIONS: &[&str] = &[
    "async",
    "atime",
    "bind",
    "defaults",
    "dev",
    "diratime",
    "dirsync",
    "exec",
    "idmap",
    "iversion",
    "lazytime",
    "loud",
    "mand",
    "noatime",
    "nodev",
    "nodiratime",
    "noexec",
    "noiversion",
    "nolazytime",
    "nomand",
    "norelatime",
    "nostrictatime",
    "nosuid",
    "nosymfollow",
    "private",
    "ratime",
    "rbind",
    "rdev",
    "rdiratime",
    "relatime",
    "remount",
    "rexec",
    "ridmap",
    "rnoatime",
    "rnodev",
    "rnodiratime",
    "rnoexec",
    "rnorelatime",
    "rnostrictatime",
    "rnosuid",
    "rnosymfollow",
    "ro",
    "rprivate",
    "rrelatime",
    "rro",
    "rrw",
    "rshared",
    "rslave",
    "rstrictatime",
    "rsuid",
    "rsymfollow",
    "runbindable",
    "rw",
    "shared",
    "silent",
    "slave",
    "strictatime",
    "suid",
    "symfollow",
    "sync",
    "tmpcopyup",
    "unbindable",
];

/// Returns the document described in the specification's features.md.
#[must_use]
pub fn features(version: &str) -> Value {
    let mut capabilities: Vec<String> = tote_sandbox::ALL_CAPABILITIES
        .iter()
        .map(|name| format!("CAP_{name}"))
        .collect();
    capabilities.sort();
    json!({
        "ociVersionMin": "1.0.0",
        "ociVersionMax": tote_spec::VERSION,
        "hooks": ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"],
        "mountOptions": MOUNT_OPTIONS,
        "linux": {
            "namespaces": ["cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts"],
            "capabilities": capabilities,
            "cgroup": { "v1": true, "v2": true, "systemd": false, "systemdUser": false, "rdma": true },
            "seccomp": {
                "enabled": true,
                "actions": [
                    "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS",
                    "SCMP_ACT_KILL_THREAD", "SCMP_ACT_LOG", "SCMP_ACT_NOTIFY", "SCMP_ACT_TRACE", "SCMP_ACT_TRAP",
                ],
                "operators": [
                    "SCMP_CMP_EQ", "SCMP_CMP_GE", "SCMP_CMP_GT", "SCMP_CMP_LE", "SCMP_CMP_LT",
                    "SCMP_CMP_MASKED_EQ", "SCMP_CMP_NE",
                ],
                "archs": [
                    "SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM", "SCMP_ARCH_X32", "SCMP_ARCH_X86", "SCMP_ARCH_X86_64",
                ],
                "knownFlags": [
                    "SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW", "SECCOMP_FILTER_FLAG_TSYNC",
                    "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
                ],
                "supportedFlags": [
                    "SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW", "SECCOMP_FILTER_FLAG_TSYNC",
                    "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
                ],
            },
            "apparmor": { "enabled": true },
            "selinux": { "enabled": true },
            "intelRdt": { "enabled": false },
            "mountExtensions": { "idmap": { "enabled": true } },
            "netDevices": { "enabled": false },
        },
        "annotations": { "dev.tote.version": version },
        "potentiallyUnsafeConfigAnnotations": [],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        let features = features("1");
        let sorted = |list: &Value| {
            let words: Vec<&str> = list
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            assert!(words.is_sorted() && !words.is_empty(), "{words:?}");
        };
        sorted(&features["mountOptions"]);
        for list in ["namespaces", "capabilities"] {
            sorted(&features["linux"][list]);
        }
        assert_eq!(features["hooks"].as_array().unwrap().len(), 6);
    }
}
