//! A network as `docker network inspect` shows it.

use serde_json::{Map, Value, json};
use tote_engine::{NetworkDetails, NetworkMember, NetworkRange, moment};

/// Describes a network with docker's fields.
#[must_use]
pub fn network_details(of: &NetworkDetails) -> Value {
    let row = &of.row;
    let mut options = of.options.clone();
    if let Some(bridge) = &of.default_bridge {
        // docker shows what holds for its default network, and programs find the bridge by it.
        for (key, value) in [
            ("bridge.default_bridge", "true"),
            ("bridge.enable_icc", "true"),
            ("bridge.enable_ip_masquerade", "true"),
            ("bridge.host_binding_ipv4", "0.0.0.0"),
            ("bridge.name", bridge),
            ("driver.mtu", "1500"),
        ] {
            let key = format!("com.docker.network.{key}");
            options.entry(key).or_insert_with(|| value.to_owned());
        }
    }
    let members: Map<String, Value> = of.members.iter().map(member).collect();
    json!({
        "Name": row.name,
        "Id": row.id,
        "Created": moment(row.created),
        "Scope": "local",
        "Driver": row.driver,
        "EnableIPv4": true,
        "EnableIPv6": row.ipv6,
        "IPAM": {
            "Driver": "default",
            "Options": {},
            "Config": of.ranges.iter().map(range).collect::<Vec<_>>(),
        },
        "Internal": row.internal,
        "Attachable": false,
        "Ingress": false,
        "ConfigFrom": { "Network": "" },
        "ConfigOnly": false,
        "Containers": members,
        "Options": options,
        "Labels": row.labels,
    })
}

fn range(of: &NetworkRange) -> Value {
    let mut range = json!({ "Subnet": of.subnet, "Gateway": of.gateway });
    if let Some(part) = &of.part {
        range["IPRange"] = part.as_str().into();
    }
    range
}

fn member(of: &NetworkMember) -> (String, Value) {
    let described = json!({
        "Name": of.name,
        "EndpointID": of.id.as_str(),
        "MacAddress": of.mac,
        "IPv4Address": of.ipv4,
        "IPv6Address": of.ipv6.as_deref().unwrap_or_default(),
    });
    (of.id.to_string(), described)
}
