//! `volume create --opt type= --opt device= --opt o=`: mounts in place of a volume's own directory.

use super::VolumeFault;
use super::record::VolumeRecord;
use crate::EngineError;
use std::collections::BTreeMap;
use std::path::Path;
use tote_bundle::{MountSource, parse_tmpfs};
use tote_spec::{Mount, Spec};

/// File system or directory of the host in place of a volume's own directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// File system in memory with these options, a separate one for each container: no process exists that could keep
    /// one mounted between containers.
    Memory(Vec<String>),
    /// Directory of the host.
    Directory {
        /// Absolute path of the directory.
        path: String,
        /// True for `o=bind,ro`.
        readonly: bool,
    },
    /// File with a file system of its own, a disk of the virtual machines that have the volume. Size in bytes; `None` for the
    /// usual one.
    Disk(Option<u64>),
    /// File system of a disk or of the network, which each container mounts for itself. Root alone can.
    Other {
        /// Type as in mount(8).
        kind: String,
        /// Node of the disk, or `HOST:PATH` and the like.
        source: String,
        /// Options, those of the file system included.
        options: Vec<String>,
    },
}

/// Type of volumes that are disks of virtual machines.
const DISK: &str = "disk";

/// File systems that show the kernel's own objects or other directories, of which a container gets none through a
/// volume.
const NOT_OF_DISKS: [&str; 13] = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devpts",
    "devtmpfs",
    "mqueue",
    "overlay",
    "bpf",
    "debugfs",
    "tracefs",
    "securityfs",
    "fuse",
];

/// Parses the options of `--opt`; a later one of the same name replaces the earlier one.
pub(crate) fn options_of(given: &[String]) -> BTreeMap<String, String> {
    let pairs = given
        .iter()
        .map(|option| option.split_once('=').unwrap_or((option, "")));
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

impl Device {
    /// Parses the device that these options describe; `None` without options, since such a volume has its own
    /// directory.
    ///
    /// # Errors
    /// [`VolumeFault::Option`].
    pub(crate) fn parse(name: &str, options: &BTreeMap<String, String>) -> Result<Option<Self>, VolumeFault> {
        let fault = |key: &str, why: &'static str| VolumeFault::Option {
            name: name.to_owned(),
            option: match options.get(key) {
                Some(value) => format!("{key}={value}"),
                None => key.to_owned(),
            },
            why,
        };
        if let Some(key) = options
            .keys()
            .find(|key| !matches!(key.as_str(), "type" | "device" | "o"))
        {
            return Err(fault(key, "the driver local takes type, device and o"));
        }
        if options.is_empty() {
            return Ok(None);
        }
        let text = |key: &str| options.get(key).map(String::as_str).unwrap_or_default();
        if text("type") == DISK {
            return Self::disk(options).map_err(|(key, why)| fault(key, why));
        }
        if text("device").is_empty() {
            return Err(fault(
                "device",
                "it is required: tmpfs, or the path of a directory",
            ));
        }
        match text("type") {
            "tmpfs" => {
                // mount(8) leaves programs executable by default.
                let parsed = parse_tmpfs(&format!("/volume:exec,{}", text("o")));
                match parsed.map(|request| request.source) {
                    Ok(MountSource::Tmpfs(options)) => Ok(Some(Self::Memory(options))),
                    _ => Err(fault(
                        "o",
                        "give size=, mode=, uid=, gid=, nr_inodes= or a mount flag such as noexec",
                    )),
                }
            }
            "" | "none" | "bind" => {
                Self::directory(text("o"), text("device")).map_err(|(key, why)| fault(key, why))
            }
            kind => Self::other(kind, text("device"), text("o"))
                .map_err(|(key, why)| fault(key, why))
                .map(Some),
        }
    }

    /// Parses a disk of virtual machines.
    fn disk(options: &BTreeMap<String, String>) -> Result<Option<Self>, (&'static str, &'static str)> {
        if options.contains_key("device") {
            return Err(("device", "the file of type=disk is the volume's own"));
        }
        let Some(given) = options.get("o") else {
            return Ok(Some(Self::Disk(None)));
        };
        let size = given.strip_prefix("size=").map(tote_bundle::disk_size);
        match size {
            Some(Ok(size)) => Ok(Some(Self::Disk(Some(size)))),
            _ => Err(("o", "a disk takes size=, of 1m at least")),
        }
    }

    /// Parses a file system of a disk or of the network.
    fn other(kind: &str, source: &str, given: &str) -> Result<Self, (&'static str, &'static str)> {
        let is_type = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if !kind.bytes().all(is_type) || NOT_OF_DISKS.contains(&kind) {
            return Err((
                "type",
                "give tmpfs, none with o=bind, or a file system of a disk or of the network",
            ));
        }
        let mut options: Vec<String> = given
            .split(',')
            .filter(|option| !option.is_empty())
            .map(ToOwned::to_owned)
            .collect();
        let address = options.iter().find_map(|option| option.strip_prefix("addr="));
        // The kernel looks no names up, and what a name means may change between two starts.
        if kind.starts_with("nfs")
            && address.is_some_and(|address| address.parse::<std::net::IpAddr>().is_err())
        {
            return Err(("o", "addr= takes an address, such as addr=192.168.1.1"));
        }
        // As with every volume, devices are opened through none.
        if !options.iter().any(|option| option == "dev") {
            options.push("nodev".to_owned());
        }
        Ok(Self::Other {
            kind: kind.to_owned(),
            source: source.to_owned(),
            options,
        })
    }

    /// Refuses the device to a user who cannot mount it.
    ///
    /// # Errors
    /// [`VolumeFault::Unprivileged`].
    pub(crate) fn allowed(&self, name: &str, is_root: bool) -> Result<(), VolumeFault> {
        match self {
            Self::Other { kind, .. } if !is_root => Err(VolumeFault::Unprivileged {
                name: name.to_owned(),
                kind: kind.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn directory(given: &str, path: &str) -> Result<Option<Self>, (&'static str, &'static str)> {
        let flags: Vec<&str> = given.split(',').filter(|flag| !flag.is_empty()).collect();
        if !flags.iter().any(|flag| matches!(*flag, "bind" | "rbind")) {
            return Err(("o", "a directory of the host needs o=bind"));
        }
        if flags
            .iter()
            .any(|flag| !matches!(*flag, "bind" | "rbind" | "ro" | "rw"))
        {
            return Err(("o", "beside bind there are ro and rw"));
        }
        if !path.starts_with('/') {
            return Err(("device", "the path must be absolute"));
        }
        Ok(Some(Self::Directory {
            path: path.to_owned(),
            readonly: flags.contains(&"ro"),
        }))
    }

    /// Returns the device in the record of a volume.
    ///
    /// # Errors
    /// [`super::VolumeFault`] for options that another version of tote accepted.
    pub(crate) fn of(name: &str, record: Option<&VolumeRecord>) -> Result<Option<Self>, EngineError> {
        match record {
            Some(record) => Ok(Self::parse(name, &record.options)?),
            None => Ok(None),
        }
    }

    /// Returns the directory in which a `volume-subpath` is found.
    ///
    /// # Errors
    /// [`VolumeFault::SubpathOfMemory`].
    pub(crate) fn directory_for(&self, volume: &str, subpath: &str) -> Result<&Path, VolumeFault> {
        match self {
            Self::Directory { path, .. } => Ok(Path::new(path)),
            Self::Memory(_) | Self::Other { .. } | Self::Disk(_) => Err(VolumeFault::SubpathOfMemory {
                volume: volume.to_owned(),
                subpath: subpath.to_owned(),
            }),
        }
    }

    /// Changes the mount of a volume to one of this device; until then the mount's source is the volume's directory.
    pub(crate) fn mount(&self, mount: &mut Mount) {
        let is_readonly = mount
            .options
            .iter()
            .any(|option| matches!(option.as_str(), "ro" | "rro"));
        match self {
            Self::Memory(options) => {
                mount.kind = Some("tmpfs".to_owned());
                mount.source = Some("tmpfs".to_owned());
                mount.options.clone_from(options);
                if is_readonly {
                    mount.options.push("ro".to_owned());
                }
            }
            // Only virtual machines have it, by the number of the disk.
            Self::Disk(_) => {}
            Self::Other {
                kind,
                source,
                options,
            } => {
                mount.kind = Some(kind.clone());
                mount.source = Some(source.clone());
                mount.options.clone_from(options);
                if is_readonly {
                    mount.options.push("ro".to_owned());
                }
            }
            Self::Directory { path, readonly } => {
                mount.source = Some(path.clone());
                if *readonly && !is_readonly {
                    mount.options.push("ro".to_owned());
                }
            }
        }
    }
}

/// Changes the mounts of volumes with devices, by destination.
pub(crate) fn mount_all(devices: &BTreeMap<String, Device>, spec: &mut Spec) {
    for mount in &mut spec.mounts {
        if let Some(device) = devices.get(&mount.destination) {
            device.mount(mount);
        }
    }
}

/// Checks that a container can mount the device, and that the directory of one exists.
///
/// # Errors
/// [`EngineError::Image`], and others if the host's directory cannot be examined; [`VolumeFault::Disk`].
pub(crate) fn look_at(name: &str, device: &Device) -> Result<(), EngineError> {
    match device {
        Device::Disk(_) => Err(VolumeFault::Disk(name.to_owned()).into()),
        Device::Directory { path, .. } => super::place::source(Path::new(path), false),
        Device::Memory(_) | Device::Other { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[&str]) -> Result<Option<Device>, String> {
        let given: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        Device::parse("v", &options_of(&given)).map_err(|fault| fault.to_string())
    }

    #[test]
    fn devices() {
        assert_eq!(parse(&[]), Ok(None));
        let Ok(Some(Device::Memory(options))) = parse(&["type=tmpfs", "device=tmpfs", "o=size=1m,uid=1000"])
        else {
            panic!("a tmpfs")
        };
        for option in ["size=1m", "uid=1000", "exec", "nosuid", "nodev"] {
            assert!(
                options.iter().any(|given| given == option),
                "{option}: {options:?}"
            );
        }
        for (flags, readonly) in [("bind", false), ("rbind,rw", false), ("ro,bind", true)] {
            let flags = format!("o={flags}");
            let path = "/srv".to_owned();
            let device = Device::Directory { path, readonly };
            assert_eq!(
                parse(&["type=none", "device=/srv", &flags]),
                Ok(Some(device.clone()))
            );
            assert_eq!(parse(&["device=/srv", &flags]), Ok(Some(device)));
        }
    }

    #[test]
    fn file_systems_of_disks() {
        let options = ["type=nfs", "device=:/path/to/dir", "o=addr=192.168.1.1,rw"];
        let Ok(Some(device)) = parse(&options) else {
            panic!("an NFS")
        };
        let (kind, source) = ("nfs".to_owned(), ":/path/to/dir".to_owned());
        let options = ["addr=192.168.1.1", "rw", "nodev"].map(str::to_owned).to_vec();
        assert_eq!(
            device,
            Device::Other {
                kind,
                source,
                options
            }
        );
        assert!(device.allowed("v", true).is_ok() && device.allowed("v", false).is_err());
    }

    #[test]
    fn disks() {
        assert_eq!(parse(&["type=disk"]), Ok(Some(Device::Disk(None))));
        let sized = parse(&["type=disk", "o=size=1m"]);
        assert_eq!(sized, Ok(Some(Device::Disk(Some(1 << 20)))));
    }

    #[test]
    fn refused() {
        for (options, part) in [
            (
                &["size=1"][..],
                "invalid option \"size=1\": the driver local takes",
            ),
            (&["type=tmpfs"], "\"device\": it is required"),
            (
                &["type=tmpfs", "device=tmpfs", "o=addr=a"],
                "\"o=addr=a\": give size=",
            ),
            (&["type=disk", "device=/x"], "is the volume's own"),
            (&["type=disk", "o=size=1"], "a disk takes size="),
            (&["type=nfs", "device=:/x", "o=addr=a"], "addr= takes an address"),
            (&["type=proc", "device=proc"], "\"type=proc\": give tmpfs"),
            (
                &["type=ext4 x", "device=/dev/sda1"],
                "\"type=ext4 x\": give tmpfs",
            ),
            (&["type=none", "device=/srv"], "needs o=bind"),
            (&["device=srv", "o=bind"], "must be absolute"),
            (&["device=/srv", "o=bind,suid"], "beside bind there are ro and rw"),
        ] {
            let error = parse(options).unwrap_err();
            assert!(error.contains(part), "{options:?}: {error}");
        }
    }
}
