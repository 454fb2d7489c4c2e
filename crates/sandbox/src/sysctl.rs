//! Kernel parameters: which ones a container may set, and their paths.

use crate::error::PlanError;
use tote_spec::{NamespaceType, Spec};

/// Parameters of the IPC namespace, beside `fs.mqueue.`.
const IPC: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];

/// Checks that a parameter belongs to a namespace that the container has to itself; all others are the machine's.
pub(crate) fn check(spec: &Spec, key: &str) -> Result<(), PlanError> {
    let has = |kind| spec.namespace(kind).is_some();
    let refused = |text: String| Err(PlanError::Invalid(text));
    if path(key).split('/').any(|part| matches!(part, "" | "." | "..")) {
        return refused(format!("sysctl {key:?} is not a name"));
    }
    let name = dotted(key);
    if IPC.contains(&name.as_str()) || name.starts_with("fs.mqueue.") {
        if has(NamespaceType::Ipc) {
            return Ok(());
        }
        return refused(format!(
            "sysctl {name:?} is not allowed in the hosts ipc namespace"
        ));
    }
    if name.starts_with("net.") {
        if has(NamespaceType::Network) {
            return Ok(());
        }
        return refused(format!("sysctl {name:?} not allowed in host network namespace"));
    }
    if name.starts_with("user.") {
        if has(NamespaceType::User) {
            return Ok(());
        }
        return refused(format!(
            "setting ucounts without a user namespace not allowed: {name}"
        ));
    }
    match name.as_str() {
        "kernel.domainname" if differs(spec, key) => refused(format!(
            "sysctl {name:?} is not allowed as it conflicts with the OCI \"domainname\" field"
        )),
        "kernel.domainname" if has(NamespaceType::Uts) => Ok(()),
        "kernel.hostname" if has(NamespaceType::Uts) => refused(format!(
            "sysctl {name:?} is not allowed as it conflicts with the OCI \"hostname\" field"
        )),
        _ => refused(format!("sysctl {name:?} is not in a separate kernel namespace")),
    }
}

/// True if the domain's name is given twice with different values.
fn differs(spec: &Spec, key: &str) -> bool {
    let sysctl = spec.linux.as_ref().and_then(|linux| linux.sysctl.get(key));
    spec.domainname
        .as_ref()
        .is_some_and(|name| !name.is_empty() && sysctl != Some(name))
}

/// Returns a key with dots between its parts; if a slash comes first, dots are part of a name (sysctl(8)).
fn dotted(key: &str) -> String {
    let slash_first = key.find(['.', '/']).is_some_and(|at| key.as_bytes()[at] == b'/');
    if slash_first { swapped(key) } else { key.to_owned() }
}

fn swapped(key: &str) -> String {
    key.chars()
        .map(|letter| match letter {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect()
}

/// Returns a key as a path below `/proc`.
pub(crate) fn path(key: &str) -> String {
    format!("sys/{}", swapped(&dotted(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (key, expected) in [
            ("net.ipv4.ip_forward", "sys/net/ipv4/ip_forward"),
            (
                "net/ipv4/conf/eth0.1/forwarding",
                "sys/net/ipv4/conf/eth0.1/forwarding",
            ),
            (
                "net.ipv4.conf.eth0/1.forwarding",
                "sys/net/ipv4/conf/eth0.1/forwarding",
            ),
            ("kernel.shmmax", "sys/kernel/shmmax"),
        ] {
            assert_eq!(path(key), expected);
        }
    }

    #[test]
    fn only_what_a_namespace_has() {
        let spec = |kinds: &str| {
            let list: Vec<_> = kinds
                .split_whitespace()
                .map(|kind| format!(r#"{{"type":"{kind}"}}"#))
                .collect();
            Spec::parse(&format!(
                r#"{{"ociVersion":"1.0.0","linux":{{"namespaces":[{}]}}}}"#,
                list.join(",")
            ))
            .unwrap()
        };
        let all = spec("ipc network uts user");
        let none = spec("mount");
        for (key, with, without) in [
            (
                "kernel.shmmax",
                "",
                "sysctl \"kernel.shmmax\" is not allowed in the hosts ipc namespace",
            ),
            (
                "fs.mqueue.msg_max",
                "",
                "sysctl \"fs.mqueue.msg_max\" is not allowed in the hosts ipc namespace",
            ),
            (
                "net/core/somaxconn",
                "",
                "sysctl \"net.core.somaxconn\" not allowed in host network namespace",
            ),
            (
                "kernel.domainname",
                "",
                "sysctl \"kernel.domainname\" is not in a separate kernel namespace",
            ),
            (
                "user.max_user_namespaces",
                "",
                "setting ucounts without a user namespace not allowed: user.max_user_namespaces",
            ),
        ] {
            let text = |spec| check(spec, key).map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!((text(&all).as_str(), text(&none).as_str()), (with, without));
        }
        for key in [
            "kernel.hostname",
            "vm.swappiness",
            "net.ipv4../../kernel/x",
            "net..x",
            "",
        ] {
            assert!(check(&all, key).is_err(), "{key}");
        }
    }
}
