//! The parsed form of a Dockerfile, which an executor walks.

use crate::heredoc::Heredoc;
use crate::lines::Directives;
use crate::mount::MountFlag;
use std::time::Duration;

/// A parsed Dockerfile. Variables are not expanded: see [`expand`](crate::expand).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dockerfile {
    /// Directives in the comments at the top.
    pub directives: Directives,
    /// `ARG`s before the first `FROM`: variables of `FROM`, which later stages can also declare by name.
    pub args: Vec<Arg>,
    /// Stages, at least one.
    pub stages: Vec<Stage>,
}

/// A `FROM` and the instructions after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name given by `AS`, in lower case.
    pub name: Option<String>,
    /// An image, an earlier stage or `scratch`.
    pub base: String,
    /// `--platform`.
    pub platform: Option<String>,
    /// Lines in the file.
    pub lines: Lines,
    /// The instructions, in order.
    pub instructions: Vec<Instruction>,
}

/// Lines of the file, counted from 1, the last one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Line where the instruction begins.
    pub first: usize,
    /// Line where the instruction or its last here-document ends.
    pub last: usize,
}

/// An instruction of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Lines in the file.
    pub lines: Lines,
    /// Text of the instruction in a single line, for people and for the history of the image.
    pub text: String,
    /// The parsed instruction.
    pub command: Command,
}

/// An instruction with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `RUN`.
    Run(Run),
    /// `CMD`.
    Cmd(CommandLine),
    /// `ENTRYPOINT`.
    Entrypoint(CommandLine),
    /// `COPY`.
    Copy(Copy),
    /// `ADD`.
    Add(Add),
    /// `ENV`: names and values, still quoted.
    Env(Vec<(String, String)>),
    /// `LABEL`: names and values, still quoted.
    Label(Vec<(String, String)>),
    /// `ARG`.
    Arg(Vec<Arg>),
    /// `EXPOSE`: ports, ranges and protocols as written.
    Expose(Vec<String>),
    /// `USER`.
    User(String),
    /// `WORKDIR`.
    Workdir(String),
    /// `VOLUME`.
    Volume(Vec<String>),
    /// `STOPSIGNAL`.
    StopSignal(String),
    /// `SHELL`.
    Shell(Vec<String>),
    /// `HEALTHCHECK`.
    Healthcheck(Healthcheck),
    /// `ONBUILD`: text of the trigger with its here-documents, and the parsed trigger.
    Onbuild(String, Box<Command>),
    /// `MAINTAINER`, which docker has deprecated.
    Maintainer(String),
}

/// A command line in one of the two forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// A JSON array: executed as it is.
    Exec(Vec<String>),
    /// Text for the shell.
    Shell(String),
}

/// `RUN` with its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Command to run.
    pub command: CommandLine,
    /// Here-documents of the shell form, in order. If the command line consists only of the first one's `<<NAME`,
    /// its content is the script.
    pub heredocs: Vec<Heredoc>,
    /// `--mount`.
    pub mounts: Vec<MountFlag>,
    /// `--network`.
    pub network: Network,
    /// `--security=insecure`.
    pub insecure: bool,
    /// `--device`, as written.
    pub devices: Vec<String>,
}

/// `RUN --network`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// The network of the build.
    #[default]
    Default,
    /// No network.
    None,
    /// The host's network.
    Host,
}

/// Sources and destination of `COPY` and `ADD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Paths, patterns or URLs.
    pub sources: Vec<String>,
    /// Files whose content stands in the Dockerfile.
    pub heredocs: Vec<Heredoc>,
    /// Destination; a trailing slash makes it a directory.
    pub destination: String,
    /// `--chown`.
    pub chown: Option<String>,
    /// `--chmod`.
    pub chmod: Option<String>,
    /// `--link`.
    pub link: bool,
    /// `--exclude`.
    pub exclude: Vec<String>,
}

/// `COPY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Arguments that `ADD` has too.
    pub transfer: Transfer,
    /// `--from`: a stage, an image or a named context.
    pub from: Option<String>,
    /// `--parents`.
    pub parents: bool,
}

/// `ADD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Add {
    /// Arguments that `COPY` has too.
    pub transfer: Transfer,
    /// `--checksum` of the downloaded file.
    pub checksum: Option<String>,
    /// `--keep-git-dir`.
    pub keep_git_dir: bool,
    /// `--unpack`; by default, local archives are extracted and downloaded ones are not.
    pub unpack: Option<bool>,
}

/// An argument of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Its name.
    pub name: String,
    /// The value if `--build-arg` gives none, still quoted.
    pub default: Option<String>,
}

/// `HEALTHCHECK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Healthcheck {
    /// `NONE`: the base image's check is dropped as well.
    None,
    /// `CMD`.
    Command {
        /// Command that checks the container.
        command: CommandLine,
        /// `--interval`.
        interval: Option<Duration>,
        /// `--timeout`.
        timeout: Option<Duration>,
        /// `--start-period`.
        start_period: Option<Duration>,
        /// `--start-interval`.
        start_interval: Option<Duration>,
        /// `--retries`.
        retries: Option<u32>,
    },
}
