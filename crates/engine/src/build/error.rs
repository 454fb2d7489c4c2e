//! Errors of the steps of a build.

use crate::EngineError;
use std::io::Error;
use std::path::PathBuf;

/// Error of a step of a build.
#[derive(Debug, thiserror::Error)]
pub enum BuildFault {
    /// Request for both files from standard input.
    #[error("can't use stdin for both build context and dockerfile")]
    Stdin,
    /// Unreadable context.
    #[error("cannot read the build context {path}")]
    Context {
        /// Directory, or `-`.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: Error,
    },
    /// Unreadable file of the context.
    #[error("cannot read the build context")]
    ContextFile(#[source] tote_rootfs::ReadError),
    /// Unreadable Dockerfile.
    #[error("failed to read dockerfile {path}")]
    Dockerfile {
        /// Path of the Dockerfile.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: Error,
    },
    /// Context without a Dockerfile.
    #[error("cannot find a Dockerfile in {0}: there is neither Dockerfile nor Containerfile")]
    NoDockerfile(PathBuf),
    /// Syntax error in the Dockerfile.
    #[error(transparent)]
    Parse(#[from] tote_dockerfile::ParseError),
    /// Invalid `.dockerignore`.
    #[error("error reading .dockerignore")]
    Ignore(#[source] tote_dockerfile::IgnoreError),
    /// Invalid pattern.
    #[error(transparent)]
    Glob(tote_build::GlobError),
    /// Archive that cannot be extracted.
    #[error("cannot extract the archive")]
    Extract(#[source] tote_archive::ExtractError),
    /// Missing source; docker's wording.
    #[error("file not found in build context or excluded by .dockerignore: stat {0}: file does not exist")]
    NoSource(String),
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
    /// A network that steps cannot have.
    #[error("invalid network {0:?} of a build: give default, none or host")]
    Network(String),
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
    /// Missing secret.
    #[error("secret {0}: not found: give --secret id={0},src=FILE")]
    NoSecret(String),
    /// Secret that is not text.
    #[error("cannot put secret {0} into a variable: it is not text")]
    SecretText(String),
    /// Invalid value of `--secret`.
    #[error("--secret {0}: it should be id=NAME,src=FILE or id=NAME,env=VARIABLE")]
    SecretOption(String),
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
    /// Invalid value of `--output`.
    #[error(
        "--output {0}: it should be a directory, -, type=local,dest=DIR, type=tar,dest=FILE, type=docker[,dest=FILE], \
         type=oci,dest=FILE, type=image[,name=NAME][,push=true] or type=registry[,name=NAME]"
    )]
    Output(String),
    /// Push without a name.
    #[error("cannot push the image: it has no name")]
    PushNameless,
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
    /// Missing agent.
    #[error("no SSH agent {0:?} is forwarded: give --ssh {0}")]
    NoAgent(String),
    /// Missing program git(1).
    #[error("cannot fetch the repository {0}: there is no program git on this machine")]
    NoGit(String),
    /// Failed execution of git(1).
    #[error("cannot run git")]
    GitStart(#[source] Error),
    /// Error of git(1).
    #[error("cannot fetch the repository {url}: {why}")]
    Git {
        /// Address of the repository, without credentials.
        url: String,
        /// Message of git.
        why: String,
    },
    /// Repository with another commit than expected.
    #[error("cannot use the repository {url}: its commit is {actual}, and {expected} was expected")]
    Commit {
        /// Address of the repository, without credentials.
        url: String,
        /// Expected checksum.
        expected: String,
        /// Commit of the reference.
        actual: String,
    },
    /// Missing directory of a repository.
    #[error("cannot use the repository {url}: it has no such directory, or the path has a symbolic link")]
    Subdirectory {
        /// Address of the repository, with the directory.
        url: String,
        /// Reason of the failure.
        #[source]
        source: Error,
    },
    /// Invalid address of a repository.
    #[error(transparent)]
    Repository(#[from] tote_build::RepositoryError),
    /// Named context from an address that is not an archive.
    #[error("cannot use {0} as a build context: it is not an archive")]
    NoArchive(PathBuf),
    /// Unreadable records of package managers.
    #[error("cannot list the packages of the image")]
    Packages(#[source] tote_rootfs::ReadError),
    /// Unknown named context.
    #[error("there is no build context {0:?}")]
    NoContext(String),
    /// Invalid value of `--build-context`.
    #[error(
        "--build-context {0}: it should be NAME=DIRECTORY, NAME=URL, NAME=docker-image://IMAGE or NAME=oci-layout://DIR[:TAG]"
    )]
    ContextOption(String),
    /// Invalid value of `--annotation`.
    #[error("--annotation {0}: it should be [manifest:]KEY=VALUE: only the image's manifest is annotated")]
    Annotation(String),
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
    /// Failed export of a cache.
    #[error("cannot write the build cache to {to}")]
    CacheExport {
        /// Destination.
        to: String,
        /// Reason of the failure.
        #[source]
        source: Box<EngineError>,
    },
    /// Image that is not a cache.
    #[error("it is neither a build cache nor an image that was built with --cache-to type=inline")]
    NoCache,
    /// Cache with invalid records.
    #[error("cannot read the records of the build cache")]
    CacheDocument(#[source] serde_json::Error),
    /// Cache with too many instructions.
    #[error("the records of the build cache have {0} bytes, more than {most}", most = tote_image::MAX_CONFIG_BYTES)]
    CacheSize(usize),
    /// Cache with too many layers.
    #[error("the build cache has {0} layers, more than {most}", most = tote_image::MAX_LAYERS)]
    CacheLayers(usize),
    /// Cache that is too large for an annotation.
    #[error(
        "the records of the build cache have {0} bytes, too many for an image's manifest: use type=registry"
    )]
    CacheInline(usize),
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

impl EngineError {
    /// True if the kernel cannot execute a program on this machine.
    pub(crate) fn is_unexecutable(&self) -> bool {
        let Self::Run(tote_runtime::RuntimeError::Step(step)) = self else {
            return false;
        };
        step.program.is_some() && step.errno == tote_sys::Errno::NOEXEC
    }

    /// Returns the exit code of a build whose command a signal of the user has ended: 130 after ^C,
    /// 143 after SIGTERM.
    #[must_use]
    pub fn interrupted(&self) -> Option<u8> {
        let Self::Build(failed) = self else { return None };
        let tote_build::BuildError::Step { source, .. } = &**failed else {
            return None;
        };
        match source {
            Self::BuildFault(BuildFault::Command { code, .. }) => {
                Some(*code).filter(|code| [130, 143].contains(code))
            }
            _ => None,
        }
    }
}
