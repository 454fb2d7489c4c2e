//! Errors of closures.

use crate::contained::Failure;
use std::path::PathBuf;
use tote_graph::{GraphError, ProfileError, TotefileError};

/// Why something cannot be done with nodes and closures.
#[derive(Debug, thiserror::Error)]
pub enum GraphFault {
    /// A question without an answer.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Neither a node nor a program of the host.
    #[error("no node and no program of this machine is named {0}")]
    Nothing(String),
    /// A program that is nowhere in a closure.
    #[error("the closure of {node} has no program {program}")]
    NoProgram {
        /// The node.
        node: String,
        /// Name of the program.
        program: String,
    },
    /// A program of the host that is not below /usr, or that not everyone may read.
    #[error(
        "cannot make a closure of {0}: only programs below /usr that every user may read are shared with containers"
    )]
    NotShared(String),
    /// Nothing that was imported has this name.
    #[error("nothing imported is named {0}")]
    NoRoot(String),
    /// A package that is not installed.
    #[error("package {0} is not installed on this machine")]
    NoPackage(String),
    /// Names of several kinds in one command.
    #[error("{0:?} is no package: give only deb:PACKAGE or only deb:PATH where there are several")]
    Mixed(String),
    /// A directory without packages.
    #[error("cannot find packages in {0}: it has no file *.deb")]
    NoDebs(PathBuf),
    /// A file that is not a package.
    #[error("cannot import {path}")]
    Deb {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: tote_archive::PackageError,
    },
    /// The files of a package.
    #[error("cannot unpack {path}")]
    Unpack {
        /// The package.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Box<tote_archive::TransferError>,
    },
    /// Two files of one package.
    #[error("cannot import package {package} twice: {} and {}", .files[0].display(), .files[1].display())]
    Twice {
        /// The package.
        package: String,
        /// The files.
        files: [PathBuf; 2],
    },
    /// A directory that cannot be imported.
    #[error("cannot open {path}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file of a root.
    #[error("cannot read {path} of {root}")]
    File {
        /// The root.
        root: String,
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The names of a package manager.
    #[error("cannot read the packages of {root}")]
    Packages {
        /// The root.
        root: String,
        /// Why not.
        #[source]
        source: tote_rootfs::ReadError,
    },
    /// No profile has this name.
    #[error("no profile {0}")]
    NoProfile(String),
    /// A name that cannot be a profile's.
    #[error("{0:?} cannot be the name of a profile: only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")]
    ProfileName(String),
    /// A profile that does not change.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A Totefile with a mistake.
    #[error("{path}: {source}", path = .path.display())]
    Totefile {
        /// The file.
        path: PathBuf,
        /// The mistake.
        source: TotefileError,
    },
}

impl GraphFault {
    /// Names the root of a file that could not be read.
    pub(crate) fn of(root: &str, failure: Failure) -> Self {
        Self::File {
            root: root.to_owned(),
            path: failure.path,
            source: failure.source,
        }
    }
}

tote_records::part!(GraphFault);
impl tote_records::PartError for GraphFault {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Nothing(_) | Self::Graph(GraphError::NoNode(_)) => {
                "'tote graph ls' lists nodes; 'tote graph import' makes them of an image, of packages or of a directory"
            }
            Self::Graph(GraphError::Ambiguous { .. }) => "give NAME=VERSION, or the beginning of the id",
            Self::Graph(GraphError::Missing { .. }) => "import its image or package once more",
            Self::NoProgram { .. } => "programs are executable files in directories named bin and sbin",
            Self::NoRoot(_) => "'tote graph ls --roots' lists what was imported",
            Self::Twice { .. } => "give one version of each package",
            Self::NoPackage(_) => {
                "install it, import an image that has it, or its file: 'apt-get download PACKAGE; tote graph import deb:./'"
            }
            Self::NoProfile(_) => {
                "'tote graph profile ls' lists profiles; 'tote graph profile set' makes one"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}
