//! Why a step of a build fails.

use crate::EngineError;
use std::io::Error;
use std::path::PathBuf;

/// Why a step of a build fails.
#[derive(Debug, thiserror::Error)]
pub enum BuildFault {
    /// Both from standard input.
    #[error("can't use stdin for both build context and dockerfile")]
    Stdin,
    /// The context.
    #[error("cannot read the build context {path}")]
    Context {
        /// The directory, or `-`.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Error,
    },
    /// A file of the context.
    #[error("cannot read the build context")]
    ContextFile(#[source] tote_rootfs::ReadError),
    /// The Dockerfile.
    #[error("failed to read dockerfile {path}")]
    Dockerfile {
        /// Its path.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Error,
    },
    /// A context without one.
    #[error("cannot find a Dockerfile in {0}: there is neither Dockerfile nor Containerfile")]
    NoDockerfile(PathBuf),
    /// The Dockerfile's syntax.
    #[error(transparent)]
    Parse(#[from] tote_dockerfile::ParseError),
    /// `.dockerignore`.
    #[error("error reading .dockerignore")]
    Ignore(#[source] tote_dockerfile::IgnoreError),
    /// A pattern.
    #[error(transparent)]
    Glob(tote_build::GlobError),
    /// An archive.
    #[error("cannot extract the archive")]
    Extract(#[source] tote_archive::ExtractError),
    /// A source that is not there; docker's wording.
    #[error("file not found in build context or excluded by .dockerignore: stat {0}: file does not exist")]
    NoSource(String),
    /// A source that cannot be read.
    #[error("cannot read {path:?}")]
    Source {
        /// In the context or the stage.
        path: String,
        /// Why not.
        #[source]
        source: Error,
    },
    /// What cannot be written.
    #[error("cannot write {path:?}")]
    Place {
        /// In the image.
        path: String,
        /// Why not.
        #[source]
        source: Error,
    },
    /// A command that failed; docker's wording.
    #[error("the command '{command}' returned a non-zero code: {code}{}", reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default())]
    Command {
        /// The command line.
        command: String,
        /// Its exit code.
        code: u8,
        /// What is known beside the code.
        reason: Option<String>,
        /// Whether it had no network, and its instruction did not say that it should have none.
        offline: bool,
    },
    /// A command of another machine's program, which the kernel has no interpreter for.
    #[error(
        "cannot execute '{command}' for {platform} on this machine, which is {machine}: the kernel knows no interpreter for it"
    )]
    ForeignCommand {
        /// The command line.
        command: String,
        /// The platform of its image.
        platform: String,
        /// This machine's platform.
        machine: String,
        /// The kernel's error.
        #[source]
        source: Box<EngineError>,
    },
    /// A secret that was not given.
    #[error("secret {0}: not found: give --secret id={0},src=FILE")]
    NoSecret(String),
    /// A secret that is no text.
    #[error("cannot put secret {0} into a variable: it is not text")]
    SecretText(String),
    /// `--secret`.
    #[error("--secret {0}: it should be id=NAME,src=FILE or id=NAME,env=VARIABLE")]
    SecretOption(String),
    /// An image for another platform.
    #[error("image {image} is for {found}, and {wanted} was asked for")]
    Platform {
        /// As asked for.
        image: String,
        /// What it is for.
        found: String,
        /// What it should be for.
        wanted: String,
    },
    /// `--output`.
    #[error(
        "--output {0}: it should be a directory, -, type=local,dest=DIR, type=tar,dest=FILE, type=docker[,dest=FILE], \
         type=oci,dest=FILE, type=image[,name=NAME][,push=true] or type=registry[,name=NAME]"
    )]
    Output(String),
    /// A push without a name.
    #[error("cannot push the image: it has no name")]
    PushNameless,
    /// `--provenance`, `--sbom` or `--attest`.
    #[error("--{option} {value}: it should be {}", match *option {
        "attest" => "type=provenance or type=sbom, with mode=min, mode=max, version=v1, version=v0.2 or disabled=true",
        "sbom" => "true or false: the list of packages is made here, by no image's program",
        _ => "true, false, mode=min or mode=max, with version=v1 or version=v0.2",
    })]
    Attestation {
        /// The option.
        option: &'static str,
        /// As given.
        value: String,
    },
    /// `--call`.
    #[error("--call {0}: it should be build or check")]
    Call(String),
    /// `--ssh`.
    #[error("--ssh {0}: it should be default or ID[=SOCKET]")]
    AgentOption(String),
    /// `--ssh` without a socket where the caller has no agent.
    #[error("--ssh {0}: SSH_AUTH_SOCK is not set: start an SSH agent, or give ID=SOCKET")]
    NoOwnAgent(String),
    /// `--ssh` with a key in place of an agent's socket.
    #[error("--ssh {0}: not a socket: tote forwards an agent and reads no key files")]
    AgentKey(PathBuf),
    /// An agent that was not given.
    #[error("no SSH agent {0:?} is forwarded: give --ssh {0}")]
    NoAgent(String),
    /// git(1) is missing.
    #[error("cannot fetch the repository {0}: there is no program git on this machine")]
    NoGit(String),
    /// git(1) does not run.
    #[error("cannot run git")]
    GitStart(#[source] Error),
    /// git(1) says no.
    #[error("cannot fetch the repository {url}: {why}")]
    Git {
        /// Its address, without credentials.
        url: String,
        /// git's own message.
        why: String,
    },
    /// A repository whose commit is another one.
    #[error("cannot use the repository {url}: its commit is {actual}, and {expected} was expected")]
    Commit {
        /// Its address, without credentials.
        url: String,
        /// The checksum.
        expected: String,
        /// The commit that the reference stands for.
        actual: String,
    },
    /// A directory of a repository.
    #[error("cannot use the repository {url}: it has no such directory, or the path has a symbolic link")]
    Subdirectory {
        /// Its address, with the directory.
        url: String,
        /// Why not.
        #[source]
        source: Error,
    },
    /// An address.
    #[error(transparent)]
    Repository(#[from] tote_build::RepositoryError),
    /// An address of a named context with something else.
    #[error("cannot use {0} as a build context: it is not an archive")]
    NoArchive(PathBuf),
    /// The records of package managers cannot be read.
    #[error("cannot list the packages of the image")]
    Packages(#[source] tote_rootfs::ReadError),
    /// A directory that was not given.
    #[error("there is no build context {0:?}")]
    NoContext(String),
    /// `--build-context`.
    #[error(
        "--build-context {0}: it should be NAME=DIRECTORY, NAME=URL, NAME=docker-image://IMAGE or NAME=oci-layout://DIR[:TAG]"
    )]
    ContextOption(String),
    /// `--annotation`.
    #[error("--annotation {0}: it should be [manifest:]KEY=VALUE: only the image's manifest is annotated")]
    Annotation(String),
    /// A file that could not be fetched.
    #[error("cannot download {url}")]
    Download {
        /// Its address.
        url: String,
        /// Why not.
        #[source]
        source: Box<EngineError>,
    },
    /// A file that is another one.
    #[error("cannot download {url}: the content hashes to {actual}, not to {expected}")]
    Checksum {
        /// Its address.
        url: String,
        /// `--checksum`
        expected: String,
        /// What came.
        actual: String,
    },
    /// `--cache-from`; the words are docker's builder's where it has some.
    #[error("--cache-from {text}: {why}")]
    CacheFrom {
        /// As given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// `--cache-to`; the words are docker's builder's where it has some.
    #[error("--cache-to {text}: {why}")]
    CacheTo {
        /// As given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A cache that cannot be written.
    #[error("cannot write the build cache to {to}")]
    CacheExport {
        /// The place.
        to: String,
        /// Why not.
        #[source]
        source: Box<EngineError>,
    },
    /// An image of somebody else's.
    #[error("it is neither a build cache nor an image that was built with --cache-to type=inline")]
    NoCache,
    /// A cache that makes no sense.
    #[error("cannot read the records of the build cache")]
    CacheDocument(#[source] serde_json::Error),
    /// A cache of too many instructions.
    #[error("the records of the build cache have {0} bytes, more than {most}", most = tote_image::MAX_CONFIG_BYTES)]
    CacheSize(usize),
    /// A cache of too many layers.
    #[error("the build cache has {0} layers, more than {most}", most = tote_image::MAX_LAYERS)]
    CacheLayers(usize),
    /// A cache that is too large for an annotation.
    #[error(
        "the records of the build cache have {0} bytes, too many for an image's manifest: use type=registry"
    )]
    CacheInline(usize),
    /// `builder prune --filter`.
    #[error("invalid filter {0:?}: it should be until=DURATION, such as until=24h")]
    PruneFilter(String),
    /// `builder prune` with a size that is none.
    #[error("--{option}")]
    PruneSize {
        /// The option.
        option: &'static str,
        /// What is wrong with it.
        #[source]
        source: tote_bundle::SizeError,
    },
}

impl EngineError {
    /// Whether a program is none for this machine.
    pub(crate) fn is_unexecutable(&self) -> bool {
        let Self::Run(tote_runtime::RuntimeError::Step(step)) = self else {
            return false;
        };
        step.program.is_some() && step.errno == tote_sys::Errno::NOEXEC
    }

    /// The exit code of a command of a build that a signal of the user's has ended: 130 after ^C, 143 after SIGTERM.
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
