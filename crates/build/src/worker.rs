//! Who does what instructions say.

use crate::{FileMode, Repository};
use std::time::Duration;
use tote_dockerfile::Sharing;
use tote_image::{Digest, ImageConfig, Platform};

/// The image that a build ends with.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// Its id.
    pub id: Digest,
    /// Its configuration.
    pub config: ImageConfig,
}

/// Where files come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The directory that the build was given.
    Context,
    /// A directory that the build was given beside it, by its name.
    Named(String),
    /// The tree of these layers: another stage, or an image.
    Layers(Vec<Digest>),
}

impl Origin {
    /// Whether its files are of somebody's directory, where owners mean nothing for an image.
    #[must_use]
    pub fn is_given(&self) -> bool {
        !matches!(self, Self::Layers(_))
    }
}

/// `COPY` or `ADD`, with variables replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyStep {
    /// Where the sources are.
    pub from: Origin,
    /// Paths and patterns, relative to the origin.
    pub sources: Vec<String>,
    /// Addresses of HTTP whose files are copied as well.
    pub downloads: Vec<String>,
    /// Repositories of git whose files are copied as well.
    pub repositories: Vec<Repository>,
    /// What the only download must hash to.
    pub checksum: Option<Digest>,
    /// Files whose content is in the Dockerfile: name and content.
    pub inline: Vec<(String, String)>,
    /// Absolute; with a slash at its end it is a directory.
    pub destination: String,
    /// `USER[:GROUP]`, unresolved. Without it, what is of a directory that was given is root's, and everything else keeps its owner.
    pub chown: Option<String>,
    /// What becomes of the permissions of everything that is copied.
    pub mode: Option<FileMode>,
    /// Patterns of what is left out.
    pub exclude: Vec<String>,
    /// Whether the directories on the way to a source are made as well; a `/./` in it says where they begin.
    pub parents: bool,
    /// Whether archives are extracted.
    pub unpack: bool,
    /// Whether those that are downloaded are.
    pub unpack_downloads: bool,
}

impl CopyStep {
    /// One source, copied as it is.
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
    /// A script to be found at the command line's first word: interpreted by what its `#!` says.
    pub script: Option<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// As `USER` has it.
    pub user: String,
    /// Absolute, or empty.
    pub workdir: String,
    /// Whether the host's network is used, or none; `None` as the build has it.
    pub host_network: Option<bool>,
    /// What is mounted meanwhile.
    pub mounts: Vec<StepMount>,
    /// The platform of its programs.
    pub platform: Platform,
}

/// `RUN --mount`, with variables replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of tote_dockerfile::Mount")]
pub enum StepMount {
    /// A file that the build was given, or a variable with its content.
    Secret {
        id: String,
        target: Option<String>,
        env: Option<String>,
        required: bool,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    /// Nothing, in memory.
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
        /// What it begins with.
        from: Option<Origin>,
        source: String,
    },
    /// Files of another stage or of the context; what is written there is thrown away.
    Bind {
        target: String,
        source: String,
        from: Origin,
        writable: bool,
    },
    /// The socket of an agent.
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
    /// The mount as it is part of a key: of what is bound the files count, which have a digest there, and not whether a
    /// stage was built once more to make them.
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

/// What a build tells while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The build of one platform of several begins.
    Platform(&'a Platform),
    /// An instruction begins.
    Step {
        /// Its number, from 1.
        number: usize,
        /// How many there are.
        total: usize,
        /// Its text.
        text: &'a str,
    },
    /// So many triggers of the base image are next.
    Triggers(usize),
    /// The result was there already.
    Cached,
    /// The image that the instruction made.
    Image(&'a Digest),
    /// So much of a file has come, of how much where that is known.
    Download {
        /// Its address.
        url: &'a str,
        /// In bytes.
        received: u64,
        /// In bytes.
        length: Option<u64>,
    },
    /// `--build-arg`s that no `ARG` asked for.
    Unused(&'a [String]),
}

/// Does what instructions say. Files are named by the layers that they are made of.
pub trait Worker {
    /// Why something cannot be done.
    type Error: std::error::Error + 'static;

    /// The image of that name.
    ///
    /// # Errors
    /// There is none.
    fn image(&mut self, name: &str, platform: Option<&str>) -> Result<Built, Self::Error>;

    /// A stage begins; `in_result` if the result is made of it, and does not only copy from it.
    fn stage(&mut self, in_result: bool);

    /// The image that was made under that key, if all of it is still there, by an instruction on the image `before`.
    fn cached(&mut self, key: &str, before: &ImageConfig) -> Option<Built>;

    /// Notes what was made under a key. Gives its id.
    ///
    /// # Errors
    /// It cannot be written.
    fn remember(&mut self, key: &str, config: &ImageConfig) -> Result<Digest, Self::Error>;

    /// Keeps an image so that its layers stay; `last` is the one that was asked for.
    ///
    /// # Errors
    /// It cannot be written.
    fn keep(&mut self, config: &ImageConfig, last: bool) -> Result<Digest, Self::Error>;

    /// Runs a command. Gives the layer that it made, if it changed anything.
    ///
    /// # Errors
    /// It cannot be run, or says that it failed.
    fn run(&mut self, layers: &[Digest], step: &RunStep) -> Result<Option<Digest>, Self::Error>;

    /// The digest of what would be copied: names, contents, modes and owners, but no times.
    ///
    /// # Errors
    /// There is no such file.
    fn digest(&mut self, step: &CopyStep) -> Result<String, Self::Error>;

    /// Copies. Gives the layer that it made, if it changed anything.
    ///
    /// # Errors
    /// A file cannot be read or written.
    fn copy(&mut self, layers: &[Digest], step: &CopyStep) -> Result<Option<Digest>, Self::Error>;

    /// Makes a directory with those above it, if it is not there, for the user that `USER` names; for root if that is
    /// empty.
    ///
    /// # Errors
    /// It cannot be made, or there is no such user.
    fn directory(&mut self, layers: &[Digest], path: &str, user: &str)
    -> Result<Option<Digest>, Self::Error>;

    /// Makes one layer of all that are above the first `below`; `None` if together they change nothing.
    ///
    /// # Errors
    /// It cannot be written.
    fn squash(&mut self, layers: &[Digest], below: usize) -> Result<Option<Digest>, Self::Error>;

    /// The time since 1970.
    fn now(&self) -> Duration;

    /// Tells somebody what is going on.
    fn say(&mut self, event: Event<'_>);
}
