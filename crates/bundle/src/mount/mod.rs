//! `--volume`, `--mount` and `--tmpfs`: the mounts that the user asks for.

pub(crate) mod csv;
mod devpts;
mod inherit;
mod option;
mod tmpfs;
mod volume;

pub use csv::CsvError;
pub(crate) use devpts::is_usual_devpts;
pub use inherit::{VolumesFrom, VolumesFromError, parse_inherited};
pub use option::{MountOptionError, parse_mount};
pub use tmpfs::{TmpfsError, parse_tmpfs};
pub use volume::{VolumeError, parse_volume};

/// A mount that the user or the image asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRequest {
    /// Path in the container: absolute and clean, never `/`.
    pub destination: String,
    /// The source of the mount.
    pub source: MountSource,
    /// True if the mount is read-only.
    pub readonly: bool,
    /// Restrictions of the programs in it.
    pub restrictions: Restrictions,
    /// Treatment of the source's files.
    pub treatment: Treatment,
}

impl MountRequest {
    /// Writes the mount of an image as the value of `--mount`, with the image's id in place of its name.
    #[must_use]
    pub fn of_image(&self, id: &str) -> String {
        let quoted = format!("target={}", self.destination).replace('"', "\"\"");
        format!("type=image,source={id},\"{quoted}\",rw={}", !self.readonly)
    }
}

impl Treatment {
    /// Returns the option of `--volume`.
    #[must_use]
    pub const fn option(self) -> Option<&'static str> {
        match self {
            Self::Shared => None,
            Self::Chowned => Some("U"),
            Self::Overlaid => Some("O"),
        }
    }
}

/// Treatment of the files of a directory that is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Treatment {
    /// The container has the files as they are.
    #[default]
    Shared,
    /// podman's `U`: the files become the container's user's before each start.
    Chowned,
    /// podman's `O`: the container's writes go into a layer of its own, which is empty at each start.
    Overlaid,
}

/// Restrictions of a mount, which podman's `--volume` has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restrictions {
    /// True if its programs cannot be executed.
    pub noexec: bool,
    /// True if set-user-ID bits and capabilities of its files have no effect.
    pub nosuid: bool,
}

impl Restrictions {
    /// Lists the options of the mount.
    pub fn options(self) -> impl Iterator<Item = &'static str> {
        let all = [("noexec", self.noexec), ("nosuid", self.nosuid)];
        all.into_iter().filter(|(_, has)| *has).map(|(option, _)| option)
    }
}

/// The source of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// A path of the host.
    Bind(Bind),
    /// A volume, whose directory the engine finds or makes.
    Volume(Volume),
    /// An empty file system in memory; the mount's options, the defaults included.
    Tmpfs(Vec<String>),
    /// The files of an image, by its name or id.
    Image(String),
}

/// A path of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Absolute and clean.
    pub path: String,
    /// How mounts spread between the host and the container.
    pub propagation: Propagation,
    /// How the mounts below the source are treated.
    pub recursion: Recursion,
    /// True if a missing path is created as a directory, as `--volume` does.
    pub create: bool,
    /// SELinux label of the files; `None` leaves it unchanged.
    pub relabel: Option<Relabel>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Name of the volume; `None` for an anonymous one, which lives as long as the container.
    pub name: Option<String>,
    /// True if a new volume starts with the files that the image has there.
    pub copy: bool,
    /// SELinux label of the files; `None` leaves it unchanged.
    pub relabel: Option<Relabel>,
    /// `volume-opt`, as `KEY=VALUE`: options for a volume that is created with the container.
    pub options: Vec<String>,
    /// `volume-subpath`: directory or file inside the volume that is mounted in its place, clean and relative.
    pub subpath: Option<String>,
    /// `volume-label`, as `KEY=VALUE`: labels of a volume that is created with the container.
    pub labels: Vec<String>,
}

/// Propagation as in mount_namespaces(7); variants that begin with `R` apply to the whole tree of mounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Mounts do not spread.
    Private,
    /// Mounts do not spread, those below included; docker's default.
    #[default]
    Rprivate,
    /// Mounts spread both ways.
    Shared,
    /// Mounts spread both ways, in the whole tree.
    Rshared,
    /// Mounts spread from the host to the container.
    Slave,
    /// Mounts spread from the host to the container, in the whole tree.
    Rslave,
}

impl Propagation {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "private" => Self::Private,
            "rprivate" => Self::Rprivate,
            "shared" => Self::Shared,
            "rshared" => Self::Rshared,
            "slave" => Self::Slave,
            "rslave" => Self::Rslave,
            _ => return None,
        })
    }

    /// Returns the option's word in mount(8).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Rprivate => "rprivate",
            Self::Shared => "shared",
            Self::Rshared => "rshared",
            Self::Slave => "slave",
            Self::Rslave => "rslave",
        }
    }
}

/// Treatment of the mounts below the source of a bind mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recursion {
    /// Mounts below are included, and are read-only if the bind mount is.
    #[default]
    Enabled,
    /// Mounts below are left out.
    Disabled,
    /// Mounts below are included, and stay writable in a read-only bind mount.
    Writable,
}

/// SELinux relabelling: which containers may use the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relabel {
    /// `z`: all containers.
    Shared,
    /// `Z`: this container only.
    Private,
}
