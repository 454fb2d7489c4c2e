//! `--volume`, `--mount` and `--tmpfs`: what the user wants mounted.

mod csv;
mod inherit;
mod option;
mod tmpfs;
mod volume;

pub use csv::CsvError;
pub use inherit::{VolumesFrom, VolumesFromError, parse_inherited};
pub use option::{MountOptionError, parse_mount};
pub use tmpfs::{TmpfsError, parse_tmpfs};
pub use volume::{VolumeError, parse_volume};

/// Something that the user, or the image, wants mounted in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRequest {
    /// Where: absolute and clean, never `/`.
    pub destination: String,
    /// What.
    pub source: MountSource,
    /// Whether it cannot be written.
    pub readonly: bool,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// A path of the host.
    Bind(Bind),
    /// A volume, whose directory the engine finds or makes.
    Volume(Volume),
    /// An empty file system in memory, with the options of its mount, the defaults included.
    Tmpfs(Vec<String>),
}

/// A path of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Absolute and clean.
    pub path: String,
    /// How mounts spread between the host and the container.
    pub propagation: Propagation,
    /// What becomes of the mounts below.
    pub recursion: Recursion,
    /// Whether a path that does not exist is made as a directory, as `--volume` does.
    pub create: bool,
    /// SELinux.
    pub relabel: Option<Relabel>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// `None` is one that lives as long as the container.
    pub name: Option<String>,
    /// Whether a new volume starts with what the image has there.
    pub copy: bool,
    /// SELinux.
    pub relabel: Option<Relabel>,
    /// `volume-opt`, as `KEY=VALUE`: the options of a volume that is made with the container.
    pub options: Vec<String>,
    /// `volume-label`, as `KEY=VALUE`: the labels of a volume that is made with the container.
    pub labels: Vec<String>,
}

/// mount_namespaces(7), for the whole tree where it begins with `R`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// None.
    Private,
    /// None, in the mounts below neither; docker's default.
    #[default]
    Rprivate,
    /// Both ways.
    Shared,
    /// Both ways.
    Rshared,
    /// From the host.
    Slave,
    /// From the host.
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

    /// The word of mount(8).
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

/// What becomes of the mounts below the source of a bind mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recursion {
    /// They come along, and are read-only with it.
    #[default]
    Enabled,
    /// They stay behind.
    Disabled,
    /// They come along, and stay writable in a read-only mount.
    Writable,
}

/// SELinux: who may use the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relabel {
    /// `z`: every container.
    Shared,
    /// `Z`: this one only.
    Private,
}
