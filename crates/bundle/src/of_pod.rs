//! Options that a pod has in place of each of its members, because they belong to the network that the members share.

use crate::host::HostOptions;
use crate::options::RunOptions;

/// The long names of these options.
pub const OF_POD: [&str; 15] = [
    "network",
    "network-alias",
    "ip",
    "ip6",
    "mac-address",
    "net-rate",
    "net-burst",
    "publish",
    "add-host",
    "no-hosts",
    "dns",
    "dns-search",
    "dns-option",
    "egress",
    "egress-keep",
];

impl RunOptions {
    /// Takes the options of [`OF_POD`] away.
    pub fn leave_to_pod(&mut self) {
        let host = std::mem::take(&mut self.host);
        self.host = HostOptions {
            hostname: host.hostname,
            domainname: host.domainname,
            ..HostOptions::default()
        };
        self.network = Default::default();
        self.first_addresses = Default::default();
        self.net_limit = Default::default();
        (self.egress, self.egress_keep) = (None, None);
        self.network_aliases.clear();
        self.published.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_network_is_left() {
        let mut own = RunOptions::default();
        own.set("hostname", "box").unwrap();
        own.set("expose", "80").unwrap();
        for name in OF_POD {
            let mut options = own.clone();
            let value = match name {
                "network" | "network-alias" => "lab",
                "ip" | "dns" => "10.1.2.3",
                "ip6" => "fd00::2",
                "mac-address" => "02:42:0a:01:02:03",
                "net-rate" => "1m",
                "net-burst" => "64k",
                "publish" => "8080:80",
                "add-host" => "a:10.1.2.3",
                "no-hosts" => "true",
                "dns-search" => "example.org",
                "dns-option" => "ndots:2",
                "egress-keep" => "1h",
                _ => "none",
            };
            options.set(name, value).unwrap();
            assert_ne!(options, own, "{name}");
            options.leave_to_pod();
            assert_eq!(options, own, "{name}");
        }
    }
}
