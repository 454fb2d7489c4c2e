//! `NetworkSettings`: the container's ends in its networks, and its ports.

use serde_json::{Map, Value, json};
use tote_bundle::{DEFAULT_NETWORK, NetworkAttachment};
use tote_engine::container::Entry;
use tote_engine::{ContainerDetails, NetworkEndpoint, networks_of, published};

pub(super) fn network_settings(of: &ContainerDetails) -> Value {
    let entry = &of.entry;
    let pid = entry.state.pid();
    let sandbox = if pid == 0 {
        String::new()
    } else {
        format!("/proc/{pid}/ns/net")
    };
    let mut networks = Map::new();
    for name in networks_of(&entry.container) {
        // docker's: in another's network it has none of its own.
        if !name.starts_with("container:") {
            let own = &entry.state.networks;
            let found = own
                .iter()
                .find(|one| one.network == name || one.network_id.starts_with(&name));
            let key = found.map_or_else(|| name.clone(), |found| found.network.clone());
            let asked = asked_for(of, &name);
            networks.insert(key, endpoint(of, found, &asked));
        }
    }
    // docker's: of the default network alone.
    let default = entry
        .state
        .networks
        .iter()
        .find(|one| one.network == DEFAULT_NETWORK);
    let default = endpoint(of, default, &NetworkAttachment::default());
    json!({
        "Bridge": "",
        "HairpinMode": false,
        "LinkLocalIPv6Address": "",
        "LinkLocalIPv6PrefixLen": 0,
        "SecondaryIPAddresses": null,
        "SecondaryIPv6Addresses": null,
        "SandboxID": "",
        "SandboxKey": sandbox,
        "Ports": ports(entry),
        "EndpointID": default["EndpointID"],
        "Gateway": default["Gateway"],
        "IPAddress": default["IPAddress"],
        "IPPrefixLen": default["IPPrefixLen"],
        "IPv6Gateway": default["IPv6Gateway"],
        "GlobalIPv6Address": default["GlobalIPv6Address"],
        "GlobalIPv6PrefixLen": default["GlobalIPv6PrefixLen"],
        "MacAddress": default["MacAddress"],
        "Networks": networks,
    })
}

/// Exposed ports of a container that runs in a network, each with the host's that lead there.
fn ports(entry: &Entry) -> Map<String, Value> {
    let mut ports = Map::new();
    if entry.state.networks.is_empty() {
        return ports;
    }
    let exposed = entry.container.exposed.iter();
    ports.extend(exposed.map(|port| (port.clone(), Value::Null)));
    for port in published(entry) {
        let one = json!({ "HostIp": port.host.ip().to_string(), "HostPort": port.host.port().to_string() });
        let all = ports.entry(port.private()).or_insert(Value::Null);
        match all {
            Value::Array(all) => all.push(one),
            none => *none = json!([one]),
        }
    }
    ports
}

/// Returns what the options ask for in a network.
fn asked_for(of: &ContainerDetails, network: &str) -> NetworkAttachment {
    let options = &of.options;
    let attachments = options.first_addresses.within(options.network.attachments());
    let mut attachments = attachments.unwrap_or_default();
    if let Some(first) = attachments.first_mut() {
        first.aliases.extend(options.network_aliases.iter().cloned());
    }
    let mut attachments = attachments.into_iter();
    attachments.find(|one| one.network == network).unwrap_or_default()
}

/// docker's: the addresses that were asked for; null where the network chooses.
fn ipam(asked: &NetworkAttachment) -> Value {
    let mut config = Map::new();
    if let Some(address) = asked.ip {
        config.insert("IPv4Address".to_owned(), address.to_string().into());
    }
    if let Some(address) = asked.ip6 {
        config.insert("IPv6Address".to_owned(), address.to_string().into());
    }
    if config.is_empty() {
        Value::Null
    } else {
        config.into()
    }
}

/// docker's description of a container's end in a network; of one that does not run, what was asked for.
fn endpoint(of: &ContainerDetails, found: Option<&NetworkEndpoint>, asked: &NetworkAttachment) -> Value {
    let text = |of: fn(&NetworkEndpoint) -> String| found.map(of).unwrap_or_default();
    let gateway = |one: &NetworkEndpoint| one.gateway.map(|address| address.to_string()).unwrap_or_default();
    let ipv6 = found.and_then(|one| one.ipv6);
    let gateway6 = ipv6
        .and_then(|ipv6| ipv6.gateway)
        .map(|address| address.to_string());
    let address6 = ipv6.map(|ipv6| ipv6.address.to_string());
    let aliases = found.map_or(&asked.aliases, |one| &one.aliases);
    let mac = asked
        .mac
        .map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":"));
    json!({
        "IPAMConfig": ipam(asked),
        "Links": found.filter(|one| !one.links.is_empty()).map(|one| &one.links),
        "Aliases": (!aliases.is_empty()).then_some(aliases),
        "DriverOpts": found.filter(|one| !one.driver_opts.is_empty()).map(|one| &one.driver_opts),
        "GwPriority": found.map_or(asked.gw_priority, |one| one.gw_priority),
        "DNSNames": found.filter(|one| one.network != DEFAULT_NETWORK).map(|one| of.names_in(one)),
        "NetworkID": text(|one| one.network_id.clone()),
        "EndpointID": found.map_or("", |_| of.entry.container.id.as_str()),
        "Gateway": text(gateway),
        "IPAddress": text(|one| one.address.to_string()),
        "IPPrefixLen": found.map_or(0, |one| one.prefix),
        "IPv6Gateway": gateway6.unwrap_or_default(),
        "GlobalIPv6Address": address6.unwrap_or_default(),
        "GlobalIPv6PrefixLen": ipv6.map_or(0, |ipv6| ipv6.prefix),
        "MacAddress": found.map_or_else(|| mac.unwrap_or_default(), |one| one.mac.clone()),
    })
}
