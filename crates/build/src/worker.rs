//! The interface for everything that involves files, images or processes.

use crate::key::{Field, Key};
use crate::{BuildError, FileMode, Repository};
use std::time::Duration;
use tote_dockerfile::Sharing;
use tote_image::{Digest, ImageConfig, Platform};

/// The image that a build ends with.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// Id of the image.
    pub id: Digest,
    /// Configuration of the image.
    pub config: ImageConfig,
}

/// Origin of copied files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The directory of the build's context.
    Context,
    /// An additional directory that the user gave, by its name.
    Named(String),
    /// The tree of these layers: another stage, or an image.
    Layers(Vec<Digest>),
}

impl Origin {
    /// True for a directory that the user gave; its owners are meaningless in an image.
    #[must_use]
    pub fn is_given(&self) -> bool {
        !matches!(self, Self::Layers(_))
    }
}

/// `COPY` or `ADD`, with variables replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyStep {
    /// Origin of the sources.
    pub from: Origin,
    /// Paths and patterns, relative to the origin.
    pub sources: Vec<String>,
    /// HTTP addresses of files to download and copy.
    pub downloads: Vec<String>,
    /// Git repositories whose files are copied as well.
    pub repositories: Vec<Repository>,
    /// Expected digest of the only download.
    pub checksum: Option<Digest>,
    /// Files whose content is in the Dockerfile: name and content.
    pub inline: Vec<(String, String)>,
    /// Destination, absolute; a slash at its end makes it a directory.
    pub destination: String,
    /// Owner, as `USER[:GROUP]`, unresolved. `None` gives files of the user's directories to root, and keeps the
    /// owner of all others.
    pub chown: Option<String>,
    /// Permissions of the copied files; `None` keeps theirs.
    pub mode: Option<FileMode>,
    /// Patterns of files to leave out.
    pub exclude: Vec<String>,
    /// True if the directories on the way to a source are created as well; a `/./` in the source marks where they
    /// begin.
    pub parents: bool,
    /// True if archives are extracted.
    pub unpack: bool,
    /// True if downloaded archives are extracted.
    pub unpack_downloads: bool,
}

impl CopyStep {
    /// Copies a single source without changes.
    #[must_use]
    pub fn of(from: Origin, source: String, destination: String) -> Self {
        Self {
            from,
            sources: vec![source],
            downloads: Vec::new(),
            repositories: Vec::new(),
            checksum: None,
            inline: Vec::new(),
            destination,
            chown: None,
            mode: None,
            exclude: Vec::new(),
            parents: false,
            unpack: false,
            unpack_downloads: false,
        }
    }
}

/// `RUN`, with variables replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStep {
    /// The command line.
    pub argv: Vec<String>,
    /// Content of a script whose path is the command line's first word; the kernel interprets it by its `#!`.
    pub script: Option<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// User, as `USER` gives it.
    pub user: String,
    /// Working directory: absolute, or empty.
    pub workdir: String,
    /// `true` for the host's network, `false` for none, `None` for that of the build.
    pub host_network: Option<bool>,
    /// Mounts of the command.
    pub mounts: Vec<StepMount>,
    /// Platform of the programs.
    pub platform: Platform,
}

/// `RUN --mount`, with variables replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of tote_dockerfile::Mount")]
pub enum StepMount {
    /// A file that the user gave to the build, or a variable with its content.
    Secret {
        id: String,
        target: Option<String>,
        env: Option<String>,
        required: bool,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    /// An empty directory in memory.
    Tmpfs { target: String, size: Option<u64> },
    /// A directory that outlives the build.
    Cache {
        id: String,
        target: String,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        read_only: bool,
        sharing: Sharing,
        /// Origin of a new cache's content; `None` for an empty cache.
        from: Option<Origin>,
        source: String,
    },
    /// Files of another stage or of the context; written changes are discarded.
    Bind {
        target: String,
        source: String,
        from: Origin,
        writable: bool,
    },
    /// The socket of an SSH agent.
    Ssh {
        id: String,
        target: Option<String>,
        required: bool,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
    },
}

impl StepMount {
    /// Prepares the mount for a key: without the layers of a bind mount's origin. The digest of its files is in the
    /// key already, and a stage that was built again to the same files must not change the key.
    pub(crate) fn without_layers(&self) -> Self {
        let mut mount = self.clone();
        if let Self::Bind {
            from: Origin::Layers(layers),
            ..
        } = &mut mount
        {
            layers.clear();
        }
        mount
    }
}

impl Field for Origin {
    fn add_to(&self, key: &mut Key) {
        match self {
            Self::Context => "context".add_to(key),
            Self::Named(name) => {
                "named".add_to(key);
                name.add_to(key);
            }
            Self::Layers(layers) => {
                let layers: Vec<String> = layers.iter().map(Digest::to_string).collect();
                "layers".add_to(key);
                layers.add_to(key);
            }
        }
    }
}

impl Field for StepMount {
    fn add_to(&self, key: &mut Key) {
        let mut add = |kind: &str, fields: &[&dyn Field]| {
            kind.add_to(key);
            fields.iter().for_each(|field| field.add_to(key));
        };
        match self {
            Self::Secret {
                id,
                target,
                env,
                required,
                mode,
                uid,
                gid,
            } => add("secret", &[id, target, env, required, mode, uid, gid]),
            Self::Tmpfs { target, size } => add("tmpfs", &[target, size]),
            Self::Cache {
                id,
                target,
                mode,
                uid,
                gid,
                read_only,
                sharing,
                from,
                source,
            } => {
                let sharing = match sharing {
                    Sharing::Shared => "shared",
                    Sharing::Private => "private",
                    Sharing::Locked => "locked",
                }
                .to_owned();
                add(
                    "cache",
                    &[id, target, mode, uid, gid, read_only, &sharing, from, source],
                );
            }
            Self::Bind {
                target,
                source,
                from,
                writable,
            } => add("bind", &[target, source, from, writable]),
            Self::Ssh {
                id,
                target,
                required,
                mode,
                uid,
                gid,
            } => add("ssh", &[id, target, required, mode, uid, gid]),
        }
    }
}

/// An event of a build, for progress output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The build of one platform of several begins.
    Platform(&'a Platform),
    /// An instruction begins.
    Step {
        /// Number of the instruction, from 1.
        number: usize,
        /// Number of all instructions.
        total: usize,
        /// Text of the instruction.
        text: &'a str,
    },
    /// This number of the base image's triggers follow.
    Triggers(usize),
    /// The result was found in the cache.
    Cached,
    /// The image that the instruction made.
    Image(&'a Digest),
    /// A part of a file was downloaded.
    Download {
        /// Address of the file.
        url: &'a str,
        /// Bytes received so far.
        received: u64,
        /// Length of the file in bytes, if known.
        length: Option<u64>,
    },
    /// Files come from an image, because no earlier stage has this name; that of one differs from it in one place.
    Misspelled {
        /// Name as the instruction has it.
        name: &'a str,
        /// Name of the stage.
        stage: &'a str,
    },
    /// Names of `--build-arg`s that no `ARG` declares.
    Unused(&'a [String]),
    /// A command has no network, for this reason, although it was not to be without one.
    NoNetwork(&'a str),
    /// A line that came out of a stage which is built beside others.
    Line {
        /// Place and name of the stage.
        stage: &'a str,
        /// The line, without its end.
        line: &'a [u8],
        /// True if it was written to standard error.
        is_error: bool,
    },
}

/// A stage that is built beside others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageLabel {
    /// Number of the stage in the file, from 0.
    pub at: usize,
    /// Place among the stages of the build and name, for people: `stage 2/3 assets`.
    pub text: String,
}

/// Results of a stage for others, from the process that has built it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Image of the stage.
    pub built: Built,
    /// Arguments that are declared at the end of the stage.
    pub args: Vec<(String, Option<String>)>,
    /// Numbers of layers and of history entries that are not of this build.
    pub below: (usize, usize),
    /// Names of all arguments that the stage asked for.
    pub asked: Vec<String>,
}

/// The work of a stage, on a worker of its own.
pub type StageWork<'a, W> = &'a mut dyn FnMut(&mut W) -> Outcome<W>;

/// How the work of a stage ended.
pub type Outcome<W> = Result<Told, BuildError<<W as Worker>::Error>>;

/// The executor of a build's steps. A tree of files is named by its layers.
pub trait Worker {
    /// Why a step failed.
    type Error: std::error::Error + 'static;

    /// Finds or pulls the image of that name.
    ///
    /// # Errors
    /// The image does not exist.
    fn image(&mut self, name: &str, platform: Option<&str>) -> Result<Built, Self::Error>;

    /// Reports the begin of a stage; `in_result` is true if the result is based on it, and does not only copy from
    /// it.
    fn stage(&mut self, in_result: bool);

    /// Returns the cached image of that key, made by an instruction on the image `before`, if it is still complete.
    fn cached(&mut self, key: &Key, before: &ImageConfig) -> Option<Built>;

    /// Stores the image of a key in the cache; returns its id.
    ///
    /// # Errors
    /// The cache cannot be written.
    fn remember(&mut self, key: &Key, config: &ImageConfig) -> Result<Digest, Self::Error>;

    /// Keeps an image so that its layers are not removed; `last` is true for the image that the user asked for.
    ///
    /// # Errors
    /// The image cannot be written.
    fn keep(&mut self, config: &ImageConfig, last: bool) -> Result<Digest, Self::Error>;

    /// Keeps other stages from making the result of this key until [`Worker::release`]. If one is making it, this waits until it has
    /// done so, and returns true.
    ///
    /// # Errors
    /// The wait is over without an end of the other stage.
    fn claim(&mut self, key: &Key) -> Result<bool, Self::Error>;

    /// Ends [`Worker::claim`].
    fn release(&mut self);

    /// Starts the work of a stage in a process of its own, where the worker is a copy of this one.
    ///
    /// # Errors
    /// The process cannot be started.
    fn start(&mut self, stage: &StageLabel, work: StageWork<'_, Self>) -> Result<(), Self::Error>
    where
        Self: Sized;

    /// Waits for the next end of a stage that was started. Returns the stage's number and how it ended; this worker knows then what
    /// the copy has learnt.
    ///
    /// # Errors
    /// The wait is over without an end, or the user has ended the build.
    fn ended(&mut self) -> Result<(usize, Outcome<Self>), Self::Error>
    where
        Self: Sized;

    /// Ends all stages that are still at work, and waits until they have.
    fn stop(&mut self);

    /// Runs a command. Returns the layer that it made; `None` if it changed nothing.
    ///
    /// # Errors
    /// The command cannot be run, or it failed.
    fn run(&mut self, layers: &[Digest], step: &RunStep) -> Result<Option<Digest>, Self::Error>;

    /// Computes the digest of the files to copy: names, contents, modes and owners, but not times.
    ///
    /// # Errors
    /// A file does not exist.
    fn digest(&mut self, step: &CopyStep) -> Result<String, Self::Error>;

    /// Copies files. Returns the layer that it made; `None` if it changed nothing.
    ///
    /// # Errors
    /// A file cannot be read or written.
    fn copy(&mut self, layers: &[Digest], step: &CopyStep) -> Result<Option<Digest>, Self::Error>;

    /// Creates a directory with its parents, if it does not exist, for the user that `USER` names; for root if that
    /// is empty.
    ///
    /// # Errors
    /// The directory cannot be created, or the user does not exist.
    fn directory(&mut self, layers: &[Digest], path: &str, user: &str)
    -> Result<Option<Digest>, Self::Error>;

    /// Merges all layers above the first `below`; `None` if together they change nothing.
    ///
    /// # Errors
    /// The layer cannot be written.
    fn squash(&mut self, layers: &[Digest], below: usize) -> Result<Option<Digest>, Self::Error>;

    /// Makes layers whose files are no younger than that time, and otherwise the same.
    ///
    /// # Errors
    /// A layer cannot be read or written.
    fn no_younger(&mut self, layers: &[Digest], time: Duration) -> Result<Vec<Digest>, Self::Error>;

    /// Returns the time since 1970.
    fn now(&self) -> Duration;

    /// Reports an event to the user.
    fn say(&mut self, event: Event<'_>);
}
