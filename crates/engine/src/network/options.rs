//! Options of the driver bridge: `network create --opt KEY=VALUE`, in docker's words.

use super::NetworkFault;
use super::record::Network;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const MTU: &str = "com.docker.network.driver.mtu";
const NAME: &str = "com.docker.network.bridge.name";
const ICC: &str = "com.docker.network.bridge.enable_icc";
const MASQUERADE: &str = "com.docker.network.bridge.enable_ip_masquerade";
const HOST_BINDING: &str = "com.docker.network.bridge.host_binding_ipv4";
const LINK_PREFIX: &str = "com.docker.network.container_iface_prefix";

/// The longest name of a link, in bytes.
const LONGEST_LINK: usize = 15;

/// The longest prefix, which a number of two digits follows.
const LONGEST_PREFIX: usize = LONGEST_LINK - 2;

/// Refuses options that there are not, and values that they cannot have.
pub(super) fn check(options: &BTreeMap<String, String>) -> Result<(), NetworkFault> {
    for (key, value) in options {
        let is_right = match key.as_str() {
            MTU => value.parse::<u32>().is_ok_and(|mtu| (68..=65535).contains(&mtu)),
            NAME => is_link(value, LONGEST_LINK) && !is_reserved(value),
            ICC | MASQUERADE => boolean(value).is_some(),
            HOST_BINDING => value.parse::<Ipv4Addr>().is_ok(),
            LINK_PREFIX => is_link(value, LONGEST_PREFIX) && value != "lo",
            _ => return Err(NetworkFault::Option(key.clone())),
        };
        if !is_right {
            return Err(NetworkFault::OptionValue {
                key: key.clone(),
                value: value.clone(),
            });
        }
    }
    Ok(())
}

fn is_link(text: &str, longest: usize) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_' | b'.');
    (1..=longest).contains(&text.len()) && text.bytes().all(is_letter) && !text.starts_with('.')
}

/// Names of links that other networks have, and of directories of settings that stand for several links.
fn is_reserved(name: &str) -> bool {
    name.starts_with("tote-") || matches!(name, "lo" | "all" | "default")
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

impl Network {
    fn flag(&self, key: &str) -> bool {
        self.options
            .get(key)
            .and_then(|text| boolean(text))
            .unwrap_or(true)
    }

    /// The bridge's name as it was asked for.
    pub(super) fn bridge_name(&self) -> Option<&str> {
        self.options.get(NAME).map(String::as_str)
    }

    /// The longest packet that the network was made with, in bytes.
    pub(super) fn mtu(&self) -> Option<u32> {
        self.options.get(MTU)?.parse().ok()
    }

    /// Whether members reach each other.
    pub(super) fn has_communication(&self) -> bool {
        self.flag(ICC)
    }

    /// Whether what leaves the machine gets the machine's own address.
    pub(super) fn masquerades(&self) -> bool {
        self.flag(MASQUERADE)
    }

    /// The address at which ports are published that name none.
    pub(super) fn host_binding(&self) -> Option<Ipv4Addr> {
        let address: Ipv4Addr = self.options.get(HOST_BINDING)?.parse().ok()?;
        (!address.is_unspecified()).then_some(address)
    }

    /// The beginning of the name of the container's link, before its number.
    pub(super) fn link_prefix(&self) -> &str {
        self.options.get(LINK_PREFIX).map_or("eth", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_dockers_values() {
        for (key, value, is_right) in [
            (MTU, "1400", true),
            (MTU, "1", false),
            (NAME, "br-lab", true),
            (NAME, "sixteen-letters.", false),
            (NAME, "a/b", false),
            (NAME, "", false),
            (NAME, "..", false),
            (NAME, "tote-1", false),
            (NAME, "all", false),
            (ICC, "false", true),
            (ICC, "no", false),
            (MASQUERADE, "1", true),
            (HOST_BINDING, "127.0.0.1", true),
            (HOST_BINDING, "::1", false),
            (LINK_PREFIX, "lan", true),
            (LINK_PREFIX, "fourteen-bytes", false),
            ("com.docker.network.bridge.bogus", "1", false),
        ] {
            let options = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            assert_eq!(check(&options).is_ok(), is_right, "{key}={value}");
        }
    }
}
