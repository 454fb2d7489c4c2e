//! Files below `/etc` that are each container's own.

use tote_bundle::{HostAddress, HostEntry, NetworkMode, RunOptions};

/// `/etc/hosts`.
pub(crate) fn hosts(hostname: Option<&str>, added: &[HostEntry]) -> String {
    let mut text = String::from(
        "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::\tip6-localnet\nff00::\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n",
    );
    if let Some(hostname) = hostname {
        text += &format!("127.0.1.1\t{hostname}\n");
    }
    for entry in added {
        match &entry.address {
            HostAddress::Ip(address) => text += &format!("{address}\t{}\n", entry.name),
            HostAddress::Gateway => text += &format!("127.0.0.1\t{}\n", entry.name),
        }
    }
    text
}

/// `/etc/resolv.conf`: what was asked for, or on the host's network the host's own.
pub(crate) fn resolv_conf(options: &RunOptions) -> Option<String> {
    if !options.dns.is_empty() {
        return Some(
            options
                .dns
                .iter()
                .map(|address| format!("nameserver {address}\n"))
                .collect(),
        );
    }
    if options.network == NetworkMode::Host {
        return std::fs::read_to_string("/etc/resolv.conf").ok();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_name_the_container() {
        let text = hosts(Some("box"), &[]);
        assert!(
            text.starts_with("127.0.0.1\tlocalhost\n") && text.ends_with("127.0.1.1\tbox\n"),
            "{text}"
        );
    }
}
