use super::context::Context;
use super::error::SpecError;
use crate::device::{DeviceRequest, HostDevice};
use crate::options::RunOptions;
use crate::path::{first_duplicate, is_within};
use tote_spec::{Device, DeviceRule, DeviceType, Mount};

/// A node of the host with its place in the container.
struct Placed<'a> {
    node: &'a HostDevice,
    destination: String,
    access: &'a str,
}

/// Lists the nodes to create. A user namespace cannot create nodes, so there the result is mounts of the host's
/// nodes.
pub(super) fn devices(
    options: &RunOptions,
    context: &Context<'_>,
) -> Result<(Vec<Device>, Vec<Mount>), SpecError> {
    let placed = placed(options, context)?;
    if let Some(path) = first_duplicate(placed.iter().map(|device| device.destination.as_str())) {
        return Err(SpecError::DuplicateMount(path.to_owned()));
    }
    Ok(if context.has_user_namespace() {
        (Vec::new(), placed.iter().map(bind).collect())
    } else {
        (placed.iter().map(node).collect(), Vec::new())
    })
}

/// Lists the rules of the device cgroup, as docker does: the nodes that every container has, then those of
/// `--device`; all devices if privileged. Empty for an unprivileged caller, which has no device controller.
pub(super) fn rules(options: &RunOptions, context: &Context<'_>) -> Result<Vec<DeviceRule>, SpecError> {
    if context.rootless {
        return Ok(Vec::new());
    }
    let everything = |allow| DeviceRule {
        allow,
        access: Some("rwm".to_owned()),
        ..DeviceRule::default()
    };
    if options.privileged {
        return Ok(vec![everything(true)]);
    }
    let allowed = |kind: &str, major, minor, access: &str| DeviceRule {
        allow: true,
        kind: Some(kind.to_owned()),
        major,
        minor,
        access: Some(access.to_owned()),
    };
    let mut rules = vec![everything(false)];
    // The container may create any node, as runc and crun allow; opening one still needs a rule of its own.
    rules.extend(["c", "b"].map(|kind| allowed(kind, None, None, "m")));
    rules.extend(DEFAULT_DEVICES.map(|(major, minor)| allowed("c", Some(major), minor, "rwm")));
    rules.extend(placed(options, context)?.iter().map(|device| {
        let kind = if device.node.kind == DeviceType::Block {
            "b"
        } else {
            "c"
        };
        allowed(
            kind,
            Some(device.node.major),
            Some(device.node.minor),
            device.access,
        )
    }));
    rules.extend(options.device_grants.iter().map(|grant| grant.rule.clone()));
    Ok(rules)
}

/// docker's list: zero, null, urandom, random, tty, console; and what runc adds: full, ptmx and the terminals of
/// devpts.
const DEFAULT_DEVICES: [(i64, Option<i64>); 9] = [
    (1, Some(5)),
    (1, Some(3)),
    (1, Some(9)),
    (1, Some(8)),
    (5, Some(0)),
    (5, Some(1)),
    (1, Some(7)),
    (5, Some(2)),
    (136, None),
];

fn placed<'a>(options: &'a RunOptions, context: &Context<'a>) -> Result<Vec<Placed<'a>>, SpecError> {
    let mut placed: Vec<Placed<'a>> = Vec::new();
    if options.privileged {
        placed.extend(context.devices.iter().map(|node| Placed {
            node,
            destination: node.path.clone(),
            access: "rwm",
        }));
    }
    for request in &options.devices {
        if options.privileged && request.source == request.destination {
            continue;
        }
        let before = placed.len();
        placed.extend(requested(request, context.devices));
        if placed.len() == before {
            return Err(SpecError::Device(request.source.clone()));
        }
    }
    Ok(placed)
}

/// Finds the node that a request names, or all nodes below the directory that it names.
fn requested<'a>(request: &'a DeviceRequest, devices: &'a [HostDevice]) -> impl Iterator<Item = Placed<'a>> {
    devices
        .iter()
        .filter(|node| is_within(&node.path, &request.source))
        .map(|node| Placed {
            node,
            destination: format!("{}{}", request.destination, &node.path[request.source.len()..]),
            access: &request.access,
        })
}

fn node(device: &Placed<'_>) -> Device {
    Device {
        kind: device.node.kind,
        path: device.destination.clone(),
        major: device.node.major,
        minor: device.node.minor,
        file_mode: Some(device.node.mode & 0o7777),
        uid: Some(device.node.uid),
        gid: Some(device.node.gid),
    }
}

/// Mounts a device node read-only, as podman does: the device stays writable, but the host's inode cannot be
/// changed.
fn bind(device: &Placed<'_>) -> Mount {
    Mount {
        destination: device.destination.clone(),
        kind: Some("bind".to_owned()),
        source: Some(device.node.path.clone()),
        options: ["bind", "dev", "ro", "nosuid", "noexec", "private"]
            .map(str::to_owned)
            .to_vec(),
        ..Mount::default()
    }
}
