//! Errors of the options of builds.

use std::path::PathBuf;

/// Reason why an option of a build is refused.
#[derive(Debug, thiserror::Error)]
pub enum BuildOptionError {
    /// Request for both files from standard input.
    #[error("can't use stdin for both build context and dockerfile")]
    Stdin,
    /// A network that steps cannot have.
    #[error("invalid network {0:?} of a build: give default, none or host")]
    Network(String),
    /// Invalid value of `--secret`.
    #[error("--secret {0}: it should be id=NAME,src=FILE or id=NAME,env=VARIABLE")]
    SecretOption(String),
    /// Invalid value of `--output`.
    #[error(
        "--output {0}: it should be a directory, -, type=local,dest=DIR, type=tar,dest=FILE, type=docker[,dest=FILE], \
         type=oci,dest=FILE, type=image[,name=NAME][,push=true] or type=registry[,name=NAME]"
    )]
    Output(String),
    /// Invalid value of `--provenance`, `--sbom` or `--attest`.
    #[error("--{option} {value}: it should be {}", match *option {
        "attest" => "type=provenance or type=sbom, with mode=min, mode=max, version=v1, version=v0.2 or disabled=true",
        "sbom" => "true or false: the list of packages is made here, by no image's program",
        _ => "true, false, mode=min or mode=max, with version=v1 or version=v0.2",
    })]
    Attestation {
        /// Name of the option.
        option: &'static str,
        /// Value as given.
        value: String,
    },
    /// Invalid value of `--call`.
    #[error("--call {0}: it should be build or check")]
    Call(String),
    /// Invalid value of `--ssh`.
    #[error("--ssh {0}: it should be default or ID[=SOCKET]")]
    AgentOption(String),
    /// Use of `--ssh` without a socket by a caller without an agent.
    #[error("--ssh {0}: SSH_AUTH_SOCK is not set: start an SSH agent, or give ID=SOCKET")]
    NoOwnAgent(String),
    /// Use of `--ssh` with a key in place of an agent's socket.
    #[error("--ssh {0}: not a socket: tote forwards an agent and reads no key files")]
    AgentKey(PathBuf),
    /// Invalid value of `--build-context`.
    #[error(
        "--build-context {0}: it should be NAME=DIRECTORY, NAME=URL, NAME=docker-image://IMAGE or NAME=oci-layout://DIR[:TAG]"
    )]
    ContextOption(String),
    /// Invalid value of `--annotation`.
    #[error("--annotation {0}: it should be [manifest:]KEY=VALUE: only the image's manifest is annotated")]
    Annotation(String),
    /// Refused value of `--cache-from`; in the words of docker's builder if it has some.
    #[error("--cache-from {text}: {why}")]
    CacheFrom {
        /// Value as given.
        text: String,
        /// Reason of the refusal.
        why: String,
    },
    /// Refused value of `--cache-to`; in the words of docker's builder if it has some.
    #[error("--cache-to {text}: {why}")]
    CacheTo {
        /// Value as given.
        text: String,
        /// Reason of the refusal.
        why: String,
    },
    /// Invalid value of `builder prune --filter`.
    #[error("invalid filter {0:?}: it should be until=DURATION, such as until=24h")]
    PruneFilter(String),
    /// Invalid size in an option of `builder prune`.
    #[error("--{option}")]
    PruneSize {
        /// Name of the option.
        option: &'static str,
        /// Reason of the refusal.
        #[source]
        source: tote_bundle::SizeError,
    },
}

impl BuildOptionError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::AgentKey(_)).then_some("start an agent, ssh-add the key, and give --ssh default")
    }
}
