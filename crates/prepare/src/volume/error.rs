//! Errors of volumes.

mod treatment;

pub use treatment::TreatmentFault;

/// Error of the work with volumes, in docker's words.
#[derive(Debug, thiserror::Error)]
pub enum VolumeFault {
    /// Request of a user for a volume that only root can mount.
    #[error(
        "cannot create the volume {name}: only root mounts {kind}: let root mount it on the host, and bind it with o=bind or -v"
    )]
    Unprivileged {
        /// Name of the volume.
        name: String,
        /// Type of the file system.
        kind: String,
    },
    /// Name of a missing volume.
    #[error("get {0}: no such volume")]
    Missing(String),
    /// Invalid name of a volume.
    // docker's words.
    #[error(
        "create {0}: {0:?} includes invalid characters for a local volume name: only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"
    )]
    Name(String),
    /// Driver other than the only one.
    // docker's words.
    #[error("create {name}: unknown volume driver {driver:?}: only local is supported")]
    Driver {
        /// Name of the volume.
        name: String,
        /// Name of the driver.
        driver: String,
    },
    /// Invalid option of the driver.
    // docker's words.
    #[error("create {name}: invalid option {option:?}: {why}")]
    Option {
        /// Name of the volume.
        name: String,
        /// Option as given.
        option: String,
        /// Reason of the refusal, and permitted values.
        why: &'static str,
    },
    /// Removal of a volume that a container uses.
    // docker's words.
    #[error("remove {name}: volume is in use - [{}]", .containers.join(", "))]
    InUse {
        /// Name of the volume.
        name: String,
        /// Ids of containers.
        containers: Vec<String>,
    },
    /// Removal of a volume that is in the making, or used by a container in the making.
    // docker's words.
    #[error("remove {0}: volume is in use - another command is making it, or a container that uses it")]
    Held(String),
    /// Removal of a volume with unknown users.
    #[error("cannot remove the volume {name}; 'tote volume rm -f {name}' removes it with all its files")]
    Lost {
        /// Name of the volume.
        name: String,
        /// Reason of the failure.
        #[source]
        source: tote_state::record::RecordError,
    },
    /// Path inside a volume, of `volume-subpath`, that cannot be opened.
    #[error("cannot mount {subpath:?} of the volume {volume}; it must be there before the container starts")]
    Subpath {
        /// Name of the volume.
        volume: String,
        /// Path inside the volume.
        subpath: String,
        /// Reason of the failure.
        source: std::io::Error,
    },
    /// Path inside a volume that is a new file system in memory for each container.
    #[error(
        "cannot mount {subpath:?} of the volume {volume}; a volume of type tmpfs is empty when a container starts: \
         mount it as a whole"
    )]
    SubpathOfMemory {
        /// Name of the volume.
        volume: String,
        /// Path inside the volume.
        subpath: String,
    },
    /// Directory of a volume's files that cannot be opened.
    #[error("cannot open {}, the files of the volume", .path.display())]
    Directory {
        /// Path of the directory.
        path: std::path::PathBuf,
        /// Reason of the failure.
        source: std::io::Error,
    },
    /// Volume whose file system only containers mount.
    #[error(
        "cannot read the volume {0} outside of a container: each container mounts it for itself: run tar in one that has it"
    )]
    OfContainers(String),
    /// Volume of a container without a virtual machine that is the disk of one.
    #[error("cannot mount the volume {0}: it is the disk of a virtual machine")]
    Disk(String),
    /// Archive of a volume that cannot be written.
    #[error("cannot write the files of the volume {name}")]
    Output {
        /// Name of the volume.
        name: String,
        /// Reason of the failure.
        source: std::io::Error,
    },
    /// Archive for a volume that cannot be read.
    #[error("cannot read the archive for the volume {name}")]
    Input {
        /// Name of the volume.
        name: String,
        /// Reason of the failure.
        source: std::io::Error,
    },
    /// Archive that cannot be extracted into a volume.
    #[error("cannot extract the archive into the volume {name}")]
    Extract {
        /// Name of the volume.
        name: String,
        /// Reason of the failure.
        source: tote_archive::ExtractError,
    },
    /// Files of a mount that cannot be treated as asked.
    #[error(transparent)]
    Treatment(#[from] TreatmentFault),
    /// Invalid filter.
    #[error(
        "invalid filter {0:?}: dangling=true|false, driver=NAME, label=KEY[=VALUE], label!=KEY[=VALUE], name=PATTERN"
    )]
    Filter(String),
}

tote_records::part!(VolumeFault);
impl tote_records::PartError for VolumeFault {
    fn exit_code(&self) -> u8 {
        // A mount is a container's to begin with.
        if matches!(self, Self::Treatment(_) | Self::Disk(_)) {
            125
        } else {
            1
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Disk(_) => "--isolation vm gives the container a virtual machine",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
