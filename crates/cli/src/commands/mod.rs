//! The command line as tables. Parsing, `--help`, the man pages and the completions all use them. Options that
//! several commands share are defined once: [`process`], [`isolation`], [`limits`].

mod absent;
mod accepted;
mod attach;
mod base;
mod bench;
pub(crate) mod build;
mod builder;
mod change;
mod context;
mod copy;
mod debug;
mod exec;
mod graph;
mod image;
mod isolation;
mod itself;
mod life;
mod limits;
mod look;
mod manifest;
mod mount;
mod network;
mod oci;
mod pod;
mod pool;
mod process;
mod remote;
mod repeated;
mod run;
mod secret;
mod slim;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tried;
mod unit;
mod vm;
mod volume;

pub(crate) use oci::OCI;
pub(crate) use remote::PULLING;
pub(crate) use slim::OWN as SLIM_OWN;
use tote_options::{Command, Completes, ExitStatus, Group, Opt, Section};

/// `tote` itself: the root of the tables.
pub(crate) static TOTE: Command = Command {
    usage: "[OPTIONS] COMMAND [ARG...]",
    details: "\
Everything happens in the process that is started: there is no daemon. As root, containers belong to the machine; \
as another user they belong to that user and need no privilege.

The command line is docker's, for what both can do. Options of `tote` itself come before the command.",
    options: &[&GLOBAL, &accepted::OF_TOTE],
    subcommands: &[
        Section { title: "Container commands", commands: life::COMMANDS },
        Section {
            title: "Inspection commands",
            commands: &[&look::PS, &look::INSPECT, &look::EVENTS, &look::LS, &life::CONTAINER, &pod::COMMAND, &pool::POOL, &volume::VOLUME, &secret::SECRET, &network::NETWORK],
        },
        Section {
            title: "Image commands",
            commands: &[&build::BUILD, &slim::SLIM, &graph::GRAPH, &image::IMAGES, &image::TOP_LOAD, &image::TOP_SAVE, &image::TOP_IMPORT, &image::TOP_TAG, &image::TOP_UNTAG, &image::RMI, &image::TOP_HISTORY, &image::IMAGE],
        },
        Section {
            title: "Registry commands",
            commands: &[&remote::PULL, &remote::PUSH, &manifest::MANIFEST, &remote::SEARCH, &remote::LOGIN, &remote::LOGOUT],
        },
        Section {
            title: "Other commands",
            commands: &[&look::INIT, &exec::HEALTHCHECK, &vm::VM, &unit::GENERATE, &build::BUILDER, &image::SYSTEM, &image::SYSTEM_PRUNE, &image::STORE, &bench::BENCH, &OCI, &itself::UNSHARE, &itself::VERSION, &itself::INFO, &context::CONTEXT, &itself::HELP, &itself::COMPLETION, &itself::COMPLETE, &itself::MAN, &build::BUILD_GUARD],
        },
    ],
    exit_status: &[
        ExitStatus { status: "0", about: "The command succeeded" },
        ExitStatus { status: "1", about: "The command failed" },
        ExitStatus { status: "125", about: "The command line is wrong, or a container could not be run" },
    ],
    absent: absent::OF_TOTE,
    ..Command::new("tote", "Run Linux containers without a daemon", crate::about::itself)
};

static GLOBAL: Group = Group {
    title: "Global",
    options: &[
        Opt::value("root", "DIR", "Directory for containers, images and volumes")
            .env("TOTE_ROOT")
            .completes(Completes::Dir)
            .details("The default is `/var/lib/tote` for root, `$XDG_DATA_HOME/tote` or `~/.local/share/tote` for other users."),
        Opt::value("share-host", "HOW", "Share files of new images with the host's /usr: reflink, hardlink or never")
            .env("TOTE_SHARE_HOST")
            .completes(Completes::Words(&["reflink", "hardlink", "never"]))
            .details(
                "\
`reflink`
: blocks, where the file system can (btrfs, xfs); the default, and safe
`hardlink`
: the host's files themselves, for root where the store is on one file system with them. Whoever then changes such a \
file of the host in place changes the image; package managers do not, they replace files
`never`
: nothing",
            ),
        Opt::value("config", "DIR", "Directory with docker's config.json, where passwords for registries are")
            .completes(Completes::Dir)
            .details("It takes the place of `$DOCKER_CONFIG` and of podman's files; a command's `--authfile` wins."),
        Opt::value("context", "NAME", "Accepted for compatibility with docker: only default, which is this machine").short('c'),
        Opt::flag("debug", "Accepted for compatibility with docker, without effect").short('D'),
        Opt::value("log-level", "LEVEL", "Check the level, for compatibility with docker and podman; it has no effect").short('l').completes(Completes::Words(&crate::global::LEVELS)),
        Opt::flag("noout", "Print nothing to standard output, podman's"),
        Opt::halt("version", "Print the version").short('v'),
    ],
};
