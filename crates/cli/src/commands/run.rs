//! `tote run` and `tote create`.

use super::repeated::word;
use super::{absent, isolation, life, limits, process, remote};
use crate::run;
use tote_options::{Command, Completes, Example, ExitStatus, Group, Opt, Parsing, Positional};

/// `tote run`.
pub(crate) static RUN: Command = Command {
    usage: "[OPTIONS] IMAGE|--pool POOL [COMMAND] [ARG...]",
    details: "\
Options end at IMAGE: what follows is the command in the container and its arguments. Without a COMMAND the image's own \
is run. Standard input, output and error are those of `tote`, and so is the exit status.

With `--rm` and without `-d` the container lives as long as the command. Every other has a monitor, a process of its own \
that keeps its log and outlives the command; the container stays when it has ended, until `tote rm`.

IMAGE is one of these:

`NAME[:TAG]`
: an image of the store, see `tote images`, pulled if it is not there; its id or the beginning of it will do
`host`
: the programs of this machine: its /usr, read-only, with a small /etc of its own and nothing else of the host's
`rootfs:DIR`
: this directory as the root file system; it is only read, and a writable layer lies on top

What the container writes goes to its writable layer, which with `--rm` is in memory and vanishes.

With `--pool` there is no IMAGE: the command runs in a sandbox that was made before (`tote pool fill`), or in one like \
those where none is left. Nothing stays of it. What shapes a sandbox was said to `pool fill`; here there may be `-i`, \
`-t`, `-e`, `--env-file`, `-w`, `--entrypoint`, `--name`, `--label` and `--timeout`.",
    options: &[
        &POOL,
        &process::IDENTITY,
        &process::PROCESS,
        &process::LIFETIME,
        &process::IMAGE_TOO,
        &process::HEALTH,
        &life::ATTACHING,
        &life::AFTER,
        &DIRECTORY,
        &isolation::FILESYSTEM,
        &isolation::SECURITY,
        &limits::RESOURCES,
        &isolation::NAMESPACES,
        &isolation::NETWORK,
        &isolation::DOCKERS,
        &remote::PULLING,
        &process::QUIET,
        &process::OWN,
    ],
    positionals: &WHAT_OR_POOL,
    parsing: Parsing::StopAtFirstPositional,
    examples: &[
        Example { about: "A shell that leaves nothing behind", line: "tote run --rm -it host bash" },
        Example {
            about: "A program of the host, with this directory and for at most ten seconds",
            line: "tote run --rm -v $PWD:/src -w /src --timeout 10 host make test",
        },
        Example {
            about: "A directory as root file system, with limits",
            line: "tote run --memory 512m --cpus 1.5 --pids-limit 100 rootfs:/srv/web /bin/server",
        },
        Example { about: "The plan of a run", line: "tote run --plan host true" },
    ],
    exit_status: RUN_STATUS,
    absent: absent::OF_RUN,
    ..Command::new("run", "Run a command in a new container", run::run)
};

/// `tote create`.
pub(crate) static CREATE: Command = Command {
    usage: "[OPTIONS] IMAGE [COMMAND] [ARG...]",
    details: "\
Like `tote run`, but nothing is started: prints the id of the container, for `tote start`. Environment variables, files \
and relative paths of the options are looked up now, not at the start.",
    options: &[
        &process::IDENTITY,
        &process::PROCESS,
        &process::LIFETIME,
        &process::HEALTH,
        &life::TO_ATTACH,
        &life::AFTER,
        &DIRECTORY,
        &isolation::FILESYSTEM,
        &isolation::SECURITY,
        &limits::RESOURCES,
        &isolation::NAMESPACES,
        &isolation::NETWORK,
        &isolation::DOCKERS,
        &remote::PULLING,
        &process::QUIET,
    ],
    positionals: &WHAT,
    parsing: Parsing::StopAtFirstPositional,
    examples: &[Example {
        about: "Create now, start later",
        line: "tote create --name web -v $PWD:/srv:ro nginx && tote start web",
    }],
    absent: absent::OF_RUN,
    ..Command::new("create", "Create a container without starting it", run::create)
};

static POOL: Group = Group {
    title: "Pool",
    options: &[Opt::value(
        "pool",
        "POOL",
        "Run in a sandbox of this pool, which `tote pool fill` has made",
    )
    .completes(Completes::Pools)],
};

/// podman's name for `rootfs:DIR`.
static DIRECTORY: Group = Group {
    title: "Image",
    options: &[Opt::flag(
        "rootfs",
        "Take IMAGE for a directory with a root file system, as `rootfs:IMAGE`",
    )],
};

/// The positionals of `run`: with `--pool` the IMAGE is left out.
static WHAT_OR_POOL: [Positional; 3] = [
    Positional {
        required: false,
        ..WHAT[0]
    },
    WHAT[1],
    WHAT[2],
];

const WHAT: [Positional; 3] = [
    Positional {
        name: "IMAGE",
        required: true,
        many: false,
        completes: Completes::Images,
    },
    word("COMMAND", false, false),
    word("ARG", false, true),
];

/// Exit statuses, which are docker's, and timeout(1)'s for limits of time.
pub(super) static RUN_STATUS: &[ExitStatus] = &[
    ExitStatus {
        status: "124",
        about: "The limit of --timeout, --cpu-time or --output-limit was reached",
    },
    ExitStatus {
        status: "125",
        about: "The container could not be run, or the command line is wrong",
    },
    ExitStatus {
        status: "126",
        about: "The command was found but could not be executed",
    },
    ExitStatus {
        status: "127",
        about: "The command was not found",
    },
    ExitStatus {
        status: "128+N",
        about: "Signal N ended the command",
    },
    ExitStatus {
        status: "N",
        about: "In all other cases the exit code of the command",
    },
];
