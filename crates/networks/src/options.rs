//! Options of drivers: `network create --opt KEY=VALUE`, in docker's words.

use super::record::Network;
use super::{DriverFault, NetworkDriver};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use tote_network::{IpvlanMode, MacvlanMode, Sublink};

const MTU: &str = "com.docker.network.driver.mtu";
const NAME: &str = "com.docker.network.bridge.name";
const ICC: &str = "com.docker.network.bridge.enable_icc";
const MASQUERADE: &str = "com.docker.network.bridge.enable_ip_masquerade";
const HOST_BINDING: &str = "com.docker.network.bridge.host_binding_ipv4";
const LINK_PREFIX: &str = "com.docker.network.container_iface_prefix";
const PARENT: &str = "parent";
const MACVLAN_MODE: &str = "macvlan_mode";
const IPVLAN_MODE: &str = "ipvlan_mode";

/// The longest name of a link, in bytes.
const LONGEST_LINK: usize = 15;

/// The longest prefix, which a number of two digits follows.
const LONGEST_PREFIX: usize = LONGEST_LINK - 2;

/// Refuses options that the driver does not have, and values that they cannot have.
pub(crate) fn check(driver: NetworkDriver, options: &BTreeMap<String, String>) -> Result<(), DriverFault> {
    for (key, value) in options {
        let is_right = match (driver, key.as_str()) {
            (_, MTU) => value.parse::<u32>().is_ok_and(|mtu| (68..=65535).contains(&mtu)),
            (_, LINK_PREFIX) => is_link(value, LONGEST_PREFIX) && value != "lo",
            (NetworkDriver::Bridge, NAME) => is_link(value, LONGEST_LINK) && !is_reserved(value),
            (NetworkDriver::Bridge, ICC | MASQUERADE) => boolean(value).is_some(),
            (NetworkDriver::Bridge, HOST_BINDING) => value.parse::<Ipv4Addr>().is_ok(),
            (NetworkDriver::Macvlan | NetworkDriver::Ipvlan, PARENT) => {
                is_link(value, LONGEST_LINK) && !is_reserved(value)
            }
            (NetworkDriver::Macvlan, MACVLAN_MODE) => macvlan_mode(value).is_some(),
            (NetworkDriver::Ipvlan, IPVLAN_MODE) => ipvlan_mode(value).is_some(),
            _ => {
                return Err(DriverFault::Option(key.clone(), driver.as_str(), further(driver)));
            }
        };
        if !is_right {
            return Err(DriverFault::OptionValue {
                key: key.clone(),
                value: value.clone(),
            });
        }
    }
    Ok(())
}

/// The options that only this driver has, in words.
fn further(driver: NetworkDriver) -> &'static str {
    match driver {
        NetworkDriver::Bridge => {
            ", and of com.docker.network.bridge. name, enable_icc, enable_ip_masquerade and host_binding_ipv4"
        }
        NetworkDriver::Macvlan => ", parent and macvlan_mode",
        NetworkDriver::Ipvlan => ", parent and ipvlan_mode",
    }
}

fn macvlan_mode(text: &str) -> Option<MacvlanMode> {
    Some(match text {
        "bridge" => MacvlanMode::Bridge,
        "private" => MacvlanMode::Private,
        "vepa" => MacvlanMode::Vepa,
        "passthru" => MacvlanMode::Passthru,
        _ => return None,
    })
}

fn ipvlan_mode(text: &str) -> Option<IpvlanMode> {
    Some(match text {
        "l2" => IpvlanMode::L2,
        "l3" => IpvlanMode::L3,
        "l3s" => IpvlanMode::L3s,
        _ => return None,
    })
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

/// The link of the machine's that options of a network name.
pub(crate) fn parent(options: &BTreeMap<String, String>) -> Option<&str> {
    options.get(PARENT).map(String::as_str)
}

/// How containers share that link, by checked options; `None` of the driver bridge.
pub(crate) fn sublink(driver: NetworkDriver, options: &BTreeMap<String, String>) -> Option<Sublink> {
    let mode = |key| options.get(key).map(String::as_str);
    match driver {
        NetworkDriver::Bridge => None,
        NetworkDriver::Macvlan => {
            let mode = mode(MACVLAN_MODE).and_then(macvlan_mode);
            Some(Sublink::Macvlan(mode.unwrap_or(MacvlanMode::Bridge)))
        }
        NetworkDriver::Ipvlan => {
            let mode = mode(IPVLAN_MODE).and_then(ipvlan_mode);
            Some(Sublink::Ipvlan(mode.unwrap_or(IpvlanMode::L2)))
        }
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
    pub(crate) fn bridge_name(&self) -> Option<&str> {
        self.options.get(NAME).map(String::as_str)
    }

    /// The name of the link of the machine's that containers share.
    pub(crate) fn parent(&self) -> Option<&str> {
        parent(&self.options)
    }

    /// How containers share that link; `None` of a network with a bridge.
    pub(crate) fn sublink(&self) -> Option<Sublink> {
        sublink(self.driver, &self.options)
    }

    /// The longest packet that the network was made with, in bytes.
    pub(crate) fn mtu(&self) -> Option<u32> {
        self.options.get(MTU)?.parse().ok()
    }

    /// Whether members reach each other.
    pub(crate) fn has_communication(&self) -> bool {
        self.flag(ICC)
    }

    /// Whether what leaves the machine gets the machine's own address.
    pub(crate) fn masquerades(&self) -> bool {
        self.flag(MASQUERADE)
    }

    /// The address at which ports are published that name none.
    pub(crate) fn host_binding(&self) -> Option<Ipv4Addr> {
        let address: Ipv4Addr = self.options.get(HOST_BINDING)?.parse().ok()?;
        (!address.is_unspecified()).then_some(address)
    }

    /// The beginning of the name of the container's link, before its number.
    pub(crate) fn link_prefix(&self) -> &str {
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
            let checked = check(NetworkDriver::Bridge, &options);
            assert_eq!(checked.is_ok(), is_right, "{key}={value}");
        }
    }

    #[test]
    fn each_driver_has_its_options() {
        for (driver, key, value, is_right) in [
            ("macvlan", PARENT, "eth0.50", true),
            ("macvlan", PARENT, "", false),
            ("macvlan", MACVLAN_MODE, "passthru", true),
            ("macvlan", MACVLAN_MODE, "l2", false),
            ("macvlan", IPVLAN_MODE, "l2", false),
            ("macvlan", ICC, "false", false),
            ("macvlan", MTU, "1400", true),
            ("ipvlan", IPVLAN_MODE, "l3s", true),
            ("ipvlan", MACVLAN_MODE, "bridge", false),
            ("bridge", PARENT, "eth0", false),
        ] {
            let options = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            let checked = check(NetworkDriver::named(driver).unwrap(), &options);
            assert_eq!(checked.is_ok(), is_right, "{driver} {key}={value}");
        }
    }
}
