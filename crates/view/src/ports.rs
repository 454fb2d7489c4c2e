//! Ports of containers in lists.

use std::net::{IpAddr, SocketAddr};
use tote_engine::container::Entry;
use tote_engine::{network_of, published};

/// Ports in docker's words: `53/udp, 0.0.0.0:80->80/tcp, 8000-8010/tcp, 0.0.0.0:8080->443/tcp`. A member of a pod has those of
/// its `keeper`, as podman has it; any other container in the network of another has none.
pub(crate) fn shown(entry: &Entry, keeper: Option<&Entry>) -> String {
    let container = &entry.container;
    let network = network_of(container);
    if network == "host" || (network.starts_with("container:") && keeper.is_none()) {
        return String::new();
    }
    let published: Vec<_> = published(keeper.unwrap_or(entry)).collect();
    let is_published = |number: u16, protocol: &str| {
        let mut ports = published.iter();
        ports.any(|port| port.container == number && port.protocol == protocol)
    };
    let parts = container.exposed.iter().filter_map(|port| port.split_once('/'));
    // The container's port, then the host's address and port.
    let mut ports: Vec<(u16, Option<SocketAddr>, &str)> = parts
        .filter_map(|(number, protocol)| Some((number.parse().ok()?, None, protocol)))
        .filter(|(number, _, protocol)| !is_published(*number, protocol))
        .collect();
    ports.extend(
        published
            .iter()
            .map(|port| (port.container, Some(port.host), port.protocol.as_str())),
    );
    ports.sort_unstable();
    // Of each protocol and address the range that may still grow, in the order of their first ports.
    let (mut shown, mut others) = (Vec::new(), Vec::new());
    let mut open: Vec<(String, &str, (u16, u16))> = Vec::new();
    for (port, host, protocol) in ports {
        let address = match host {
            None => String::new(),
            Some(host) if host.port() == port => match host.ip() {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            },
            Some(host) => {
                others.push(format!("{host}->{port}/{protocol}"));
                continue;
            }
        };
        let is_own = |(of, by, _): &&mut (String, &str, (u16, u16))| *of == address && *by == protocol;
        match open.iter_mut().find(is_own) {
            None => open.push((address, protocol, (port, port))),
            Some((_, _, (_, last))) if last.checked_add(1) == Some(port) => *last = port,
            Some((_, _, range)) => {
                let ended = std::mem::replace(range, (port, port));
                shown.push(range_of_ports(&address, protocol, ended));
            }
        }
    }
    let open = open.iter();
    shown.extend(open.map(|(address, protocol, range)| range_of_ports(address, protocol, *range)));
    shown.extend(others);
    shown.join(", ")
}

fn range_of_ports(address: &str, protocol: &str, (first, last): (u16, u16)) -> String {
    let range = match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    match address {
        "" => format!("{range}/{protocol}"),
        _ => format!("{address}:{range}->{range}/{protocol}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(options: &str, published: &str) -> Entry {
        let id = "5".repeat(64);
        let container = format!(
            r#"{{"id":"{id}","image":"host","options":{options},"exposed":["10/udp","443/tcp","80/tcp","81/tcp","82/tcp","9/udp","9/tcp"]}}"#
        );
        let endpoint = format!(
            r#"{{"network":"bridge","network_id":"{id}","link":"tv0","address":"10.210.0.2","prefix":16,"mac":"","ports":[{published}]}}"#
        );
        Entry {
            container: serde_json::from_str(&container).unwrap(),
            state: serde_json::from_str(&format!(r#"{{"networks":[{endpoint}]}}"#)).unwrap(),
            kept: true,
            lost: None,
        }
    }

    #[test]
    fn exposed_ports() {
        assert_eq!(
            shown(&entry("[]", ""), None),
            "9/tcp, 80-82/tcp, 443/tcp, 9-10/udp"
        );
        assert_eq!(shown(&entry(r#"[["network","host"]]"#, ""), None), "");
    }

    /// An image can name one port in two ways.
    #[test]
    fn the_last_port_twice() {
        let mut entry = entry("[]", "");
        entry.container.exposed = ["65535/tcp", "065535/tcp"].map(str::to_owned).into();
        assert_eq!(shown(&entry, None), "65535/tcp, 65535/tcp");
    }

    #[test]
    fn published_ports() {
        let port = |host: &str, container: u16, protocol: &str| {
            format!(r#"{{"protocol":"{protocol}","host":"{host}","container":{container}}}"#)
        };
        let ports = [
            port("0.0.0.0:80", 80, "tcp"),
            port("0.0.0.0:81", 81, "tcp"),
            port("127.0.0.1:9000", 82, "tcp"),
            port("0.0.0.0:9", 9, "udp"),
            port("[::]:9", 9, "udp"),
            port("[::]:8080", 80, "tcp"),
        ];
        let words = "9/tcp, 0.0.0.0:9->9/udp, [::]:9->9/udp, 0.0.0.0:80-81->80-81/tcp, 443/tcp, 10/udp, [::]:8080->80/tcp, 127.0.0.1:9000->82/tcp";
        let shown: Vec<String> = shown(&entry("[]", &ports.join(",")), None)
            .split(", ")
            .map(str::to_owned)
            .collect();
        let mut expected: Vec<&str> = words.split(", ").collect();
        let mut sorted = shown.clone();
        expected.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        assert_eq!(shown.last().map(String::as_str), Some("127.0.0.1:9000->82/tcp"));
    }
}
