//! Request of a build.

use super::{Attestations, BuildFault, BuildOutput, CacheFrom, CacheTo, SecretSource};
use crate::{Access, PullEvent, PushReport, WhenToPull};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;
use tote_build::{Event, Repository};
use tote_bundle::RunOptions;
use tote_image::Platform;

/// Request to build an image.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// Source of the files.
    pub context: BuildContext,
    /// Dockerfile: `-f`; `-` is standard input.
    pub dockerfile: Option<PathBuf>,
    /// File in place of the context's own `.dockerignore`: `--ignorefile`.
    pub ignore_file: Option<PathBuf>,
    /// Names for the image: `-t`.
    pub tags: Vec<String>,
    /// Further contexts by the names that [`tote_build::Options::contexts`] has for them: `--build-context`.
    pub contexts: BTreeMap<String, BuildContext>,
    /// Annotations of the manifest: `--annotation`.
    pub annotations: BTreeMap<String, String>,
    /// Arguments, the target and other options that concern instructions.
    pub options: tote_build::Options,
    /// Platforms to build for, one image each: `--platform`; by default this machine's. They replace
    /// [`tote_build::Options::platform`].
    pub platforms: Vec<Platform>,
    /// Secrets by id: `--secret`.
    pub secrets: BTreeMap<String, SecretSource>,
    /// Sockets of agents by id: `--ssh`.
    pub agents: BTreeMap<String, PathBuf>,
    /// Options for the container of every `RUN`: limits, `--add-host` and the like.
    pub run: RunOptions,
    /// `--network`, for every `RUN` that names none.
    pub network: Option<String>,
    /// Time at which base images are pulled.
    pub pull: WhenToPull,
    /// Options for the access to registries.
    pub access: Access,
    /// Further destinations of the result: `--output`.
    pub outputs: Vec<BuildOutput>,
    /// Attestations of the image.
    pub attestations: Attestations,
    /// True if the image is pushed to the registries of its names: `--push`.
    pub push: bool,
    /// Sources for results that are missing here: `--cache-from`.
    pub cache_from: Vec<CacheFrom>,
    /// Destinations for the build cache: `--cache-to`.
    pub cache_to: Vec<CacheTo>,
    /// True if the output of commands is not shown.
    pub quiet: bool,
}

/// Source of a build's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildContext {
    /// Directory on this machine.
    Directory(PathBuf),
    /// Archive: of a context if it has a Dockerfile, otherwise of a root file system.
    Archive(PathBuf),
    /// Standard input: an archive, or a Dockerfile without any files.
    Stdin,
    /// Repository of git.
    Repository(Box<Repository>),
    /// Address of HTTP: an archive, or a Dockerfile without any files.
    Address(String),
}

impl BuildContext {
    /// Parses the address of a remote context; `None` if the text is not such an address.
    ///
    /// # Errors
    /// `RepositoryFault::Repository` if the address is of git, but unusable.
    pub fn remote(text: &str) -> Result<Option<Self>, BuildFault> {
        if let Some(repository) = Repository::parse_context(text)? {
            return Ok(Some(Self::Repository(Box::new(repository))));
        }
        let is_address = text.starts_with("http://") || text.starts_with("https://");
        Ok(is_address.then(|| Self::Address(text.to_owned())))
    }

    /// Returns the directory or archive, or `-`.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::Archive(path) => path,
            Self::Stdin | Self::Repository(_) => Path::new("-"),
            Self::Address(url) => Path::new(url),
        }
    }
}

/// Receivers of progress events of a build.
pub struct Voice<'a> {
    /// Receiver of each step.
    pub say: &'a mut dyn FnMut(Event<'_>),
    /// Receiver of the progress of a pull, from several threads.
    pub pull: &'a (dyn Fn(PullEvent<'_>) + Sync),
    /// Receiver of the progress of a push, from several threads.
    pub push: PushReport,
    /// Starts a process that removes this directory as soon as its lock is free: the build was killed then. Without
    /// such a process the next build does that.
    pub guard: &'a dyn Fn(&Path) -> Option<Child>,
}

impl std::fmt::Debug for Voice<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Voice").finish_non_exhaustive()
    }
}
