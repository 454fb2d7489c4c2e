//! Errors of the steps of a build.

mod cache;
mod context;
mod option;
mod repository;
mod stage;

use crate::EngineError;
pub use cache::CacheFault;
pub use context::ContextError;
pub use option::BuildOptionError;
pub use repository::{GitFailure, RepositoryFault};
pub use stage::{SecretFault, StageFault};
use std::io::Error;
use tote_build::BuildError;
use tote_records::PartError;

/// Error of a step of a build.
#[derive(Debug, thiserror::Error)]
pub enum BuildFault {
    /// Dockerfile or a step of it.
    #[error(transparent)]
    Build(Box<BuildError<EngineError>>),
    /// Archive that cannot be extracted.
    #[error("cannot extract the archive")]
    Extract(#[source] tote_archive::ExtractError),
    /// Missing source; docker's wording.
    #[error("file not found in build context or excluded by .dockerignore: stat {0}: file does not exist")]
    NoSource(String),
    /// Source of `COPY --parents` behind a symbolic link.
    #[error(
        "{0:?} is a symbolic link, and --parents makes the directories on the way to a file: name the directory that the link leads to"
    )]
    LinkAbove(String),
    /// Unreadable source.
    #[error("cannot read {path:?}")]
    Source {
        /// Path in the context or the stage.
        path: String,
        /// Reason of the failure.
        #[source]
        source: Error,
    },
    /// Failed write to the image.
    #[error("cannot write {path:?}")]
    Place {
        /// Path in the image.
        path: String,
        /// Reason of the failure.
        #[source]
        source: Error,
    },
    /// Failed command; docker's wording.
    #[error("the command '{command}' returned a non-zero code: {code}{}", reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default())]
    Command {
        /// Command line.
        command: String,
        /// Exit code of the command.
        code: u8,
        /// Further facts beside the code.
        reason: Option<String>,
        /// True if the command had no network, although its instruction did not ask for that.
        offline: bool,
    },
    /// Command for another platform, for which the kernel has no interpreter.
    #[error(
        "cannot execute '{command}' for {platform} on this machine, which is {machine}: the kernel knows no interpreter for it"
    )]
    ForeignCommand {
        /// Command line.
        command: String,
        /// Platform of the image.
        platform: String,
        /// Platform of this machine.
        machine: String,
        /// Error of the kernel.
        #[source]
        source: Box<EngineError>,
    },
    /// Unusable secret.
    #[error(transparent)]
    Secret(#[from] SecretFault),
    /// Stage that was built beside others, and has not said how it went.
    #[error(transparent)]
    Stage(#[from] StageFault),
    /// Image for another platform.
    #[error("image {image} is for {found}, and {wanted} was asked for")]
    Platform {
        /// Image as requested.
        image: String,
        /// Platform of the image.
        found: String,
        /// Requested platform.
        wanted: String,
    },
    /// Push without a name.
    #[error("cannot push the image: it has no name")]
    PushNameless,
    /// Missing agent.
    #[error("no SSH agent {0:?} is forwarded: give --ssh {0}")]
    NoAgent(String),
    /// Unreadable records of package managers.
    #[error("cannot list the packages of the image")]
    Packages(#[source] tote_rootfs::ReadError),
    /// Failed download.
    #[error("cannot download {url}")]
    Download {
        /// Address of the file.
        url: String,
        /// Reason of the failure.
        #[source]
        source: Box<EngineError>,
    },
    /// Download with another checksum than expected.
    #[error("cannot download {url}: the content hashes to {actual}, not to {expected}")]
    Checksum {
        /// Address of the file.
        url: String,
        /// Value of `--checksum`.
        expected: String,
        /// Checksum of the download.
        actual: String,
    },
    /// Invalid option.
    #[error(transparent)]
    Option(#[from] BuildOptionError),
    /// Unusable context.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// Unusable repository.
    #[error(transparent)]
    Git(#[from] RepositoryFault),
    /// Unusable cache.
    #[error(transparent)]
    Cache(#[from] CacheFault),
}
tote_records::part!(
    BuildFault,
    BuildOptionError,
    CacheFault,
    ContextError,
    RepositoryFault,
    SecretFault,
    StageFault
);
tote_records::parts! {
    BuildFault {
        tote_dockerfile::ParseError => Context,
        tote_build::RepositoryError => Git,
    }
}

impl PartError for BuildFault {
    fn hint(&self) -> Option<String> {
        if let Self::Build(error) = self {
            return match error.of_stage() {
                BuildError::Step { source, .. } | BuildError::Result(source) => source.hint(),
                _ => None,
            };
        }
        let text = match self {
            Self::Command { .. } if has_one_id() => {
                "this user has one id in containers, and what makes users or gives files away fails: add ranges to /etc/subuid and /etc/subgid"
            }
            Self::Command { offline: true, .. } => {
                "if the command needs a network: this RUN step had none; with --network host it has this machine's"
            }
            Self::ForeignCommand { .. } => {
                "install qemu-user-static and binfmt-support, or whatever else registers an interpreter that containers see (flag F) in /proc/sys/fs/binfmt_misc; or let the stage run here: FROM --platform=$BUILDPLATFORM"
            }
            Self::PushNameless => "give it one that says where it goes: -t REGISTRY/NAME",
            Self::Option(error) => error.hint()?,
            Self::Context(error) => error.hint()?,
            Self::Git(error) => error.hint()?,
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// Whether this user's containers have no other id than root's.
fn has_one_id() -> bool {
    !rustix::process::geteuid().is_root() && tote_images::ranges(0, 0).is_none()
}

/// Returns the exit code of a build whose command a signal of the user has ended: 130 after ^C,
/// 143 after SIGTERM.
#[must_use]
pub fn interrupted(error: &EngineError) -> Option<u8> {
    let Some(BuildFault::Build(failed)) = error.part() else {
        return None;
    };
    let (BuildError::Step { source, .. } | BuildError::Result(source)) = failed.of_stage() else {
        return None;
    };
    let code = match source.part() {
        Some(BuildFault::Command { code, .. }) => Some(*code),
        Some(BuildFault::Stage(StageFault::Interrupted { signal })) => u8::try_from(128 + signal).ok(),
        _ => None,
    };
    code.filter(|code| [130, 143].contains(code))
}
