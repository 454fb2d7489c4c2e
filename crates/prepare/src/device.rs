//! Device nodes of the host.

use crate::{Caller, EngineError, RequestError};
use rustix::fs::{FileType, Stat, major, minor};
use std::path::Path;
use tote_bundle::{HostDevice, RunOptions};
use tote_spec::{DeviceType, Spec};
use tote_sys::visible;

/// The nodes that the options mean: each `--device`, all below one that is a directory, or every one of the host's.
pub fn devices(options: &RunOptions) -> Result<Vec<HostDevice>, EngineError> {
    let mut nodes = Vec::new();
    if options.privileged {
        below(Path::new("/dev"), &mut nodes, 0).map_err(EngineError::file("list", "/dev"))?;
    }
    for request in &options.devices {
        let path = Path::new(&request.source);
        let stat = stat("device", path)?;
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            below(path, &mut nodes, 0).map_err(EngineError::file("list", path))?;
        } else {
            nodes.push(
                node(path, &stat)
                    .ok_or_else(|| EngineError::Request(RequestError::Device(request.source.clone())))?,
            );
        }
    }
    Ok(nodes)
}

/// The nodes of the devices that a limit is for.
pub fn limited(options: &RunOptions) -> Result<Vec<HostDevice>, EngineError> {
    let limited = options.block.devices().map(|(option, path)| {
        let found = node(Path::new(path), &stat(option, Path::new(path))?);
        let found = found.filter(|node| node.kind == DeviceType::Block);
        found.ok_or_else(|| {
            EngineError::Request(RequestError::BlockDevice {
                option,
                path: path.to_owned(),
            })
        })
    });
    limited.collect()
}

/// Lets a bind mount be opened if it is a device node, or the host's whole `/dev`: every other bind mount is
/// `nodev`. The node is the host's, so it is bound read-only: through such a mount a device is written to all the same, and
/// its mode and owner stay as they are.
pub fn open_bound(spec: &mut Spec) {
    let is_node = |source: &str| {
        let kind = rustix::fs::stat(source).map(|stat| FileType::from_raw_mode(stat.st_mode));
        matches!(kind, Ok(FileType::BlockDevice | FileType::CharacterDevice))
    };
    for mount in spec
        .mounts
        .iter_mut()
        .filter(|mount| mount.kind.as_deref() == Some("bind"))
    {
        let words: &[&str] = match &mount.source {
            _ if mount.destination == "/dev" => &[OPEN],
            Some(source) if is_node(source) => &[OPEN, "ro", "nosuid", "noexec"],
            _ => continue,
        };
        mount.options.extend(words.iter().map(|word| (*word).to_owned()));
    }
}

/// Lets each user of a container open a node that is the container's own, whatever the mode of the host's is.
pub fn open_to_all(spec: &mut Spec, path: &str) {
    let linux = spec.linux.iter_mut();
    let devices = linux.flat_map(|linux| &mut linux.devices);
    for device in devices.filter(|device| device.path == path) {
        device.file_mode = Some(0o666);
    }
}

/// Whether [`open_bound`] has found something.
pub fn opens_bound(spec: &Spec) -> bool {
    let mut binds = spec
        .mounts
        .iter()
        .filter(|mount| mount.kind.as_deref() == Some("bind"));
    binds.any(|mount| mount.options.iter().any(|option| option == OPEN))
}

/// The option of a mount whose device nodes can be opened. The command line does not take that word for a bind mount.
const OPEN: &str = "dev";

/// For each device that may not be used in every way, a line that says so if the container cannot be held to it.
pub fn without_rules(caller: Caller, options: &RunOptions) -> impl Iterator<Item = String> {
    let partial = options.devices.iter().filter(|device| !device.has_every_access());
    let partial = partial.filter(move |_| caller != Caller::Root);
    partial.map(|device| {
        format!(
            "--device {}:{} does not keep to {:?}: only root can set the device rules of a cgroup, so the permissions of \
             the node on the host decide",
            device.source, device.access, device.access
        )
    })
}

fn stat(option: &'static str, path: &Path) -> Result<Stat, EngineError> {
    rustix::fs::stat(path).map_err(|errno| {
        EngineError::Request(RequestError::File {
            option,
            attempt: "look at",
            path: path.to_owned(),
            source: errno.into(),
        })
    })
}

fn node(path: &Path, stat: &Stat) -> Option<HostDevice> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => DeviceType::Block,
        FileType::CharacterDevice => DeviceType::Char,
        _ => return None,
    };
    Some(HostDevice {
        path: path.to_str()?.to_owned(),
        kind,
        major: major(stat.st_rdev).into(),
        minor: minor(stat.st_rdev).into(),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
    })
}

/// Nodes below a directory, without those that a container has of its own.
fn below(dir: &Path, nodes: &mut Vec<HostDevice>, depth: u32) -> std::io::Result<()> {
    let Some(entries) = visible(std::fs::read_dir(dir))? else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let Some(stat) = visible(rustix::fs::lstat(&path))? else {
            continue;
        };
        let own = dir == Path::new("/dev") && OWN.iter().any(|name| entry.file_name() == *name);
        if own {
            continue;
        }
        if FileType::from_raw_mode(stat.st_mode).is_dir() && depth < 8 {
            below(&path, nodes, depth + 1)?;
        } else {
            nodes.extend(node(&path, &stat));
        }
    }
    Ok(())
}

const OWN: [&str; 12] = [
    "console", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero",
];
