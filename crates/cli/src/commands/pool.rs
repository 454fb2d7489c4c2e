//! `tote pool …`.

use super::look::DESCRIPTION;
use super::repeated::FORMAT;
use super::{isolation, limits, process, remote};
use crate::seal::sealed;
use crate::{exit, pool, tell};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

const POOLS: Positional = Positional {
    name: "POOL",
    required: true,
    many: true,
    completes: Completes::Pools,
};

/// `tote pool`.
pub(crate) static POOL: Command = Command {
    usage: "COMMAND",
    details: "\
A pool keeps sandboxes that are made up to the moment before their program: `tote run --pool POOL COMMAND` takes one of \
them, and is many times faster than a `run` that makes its own. Each is used once. Whoever takes one leaves behind a \
process that makes the next, and ends: there is no daemon, the sandboxes are parked processes.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&FILL, &LS, &INSPECT, &RM],
    }],
    ..Command::new("pool", "Keep sandboxes ready", tell::help)
};

static FILL: Command = Command {
    usage: "[OPTIONS] POOL [IMAGE] [-- COMMAND [ARG...]]",
    details: "\
Makes a pool of sandboxes of the image, or changes one. Options are those of `tote run` that make a sandbox what it is; \
they may stand anywhere, and what follows IMAGE behind `--` is the command of those who give none.

With an IMAGE all options are said anew: sandboxes that were made otherwise, or of what the image's name meant before, \
go. Without it only the size changes. Prints how many sandboxes wait.",
    options: &[
        &Group {
            title: "",
            options: &[Opt::value(
                "size",
                "NUMBER",
                "Keep this many sandboxes ready: as many as before, or 1",
            )
            .short('n'), isolation::ISOLATION],
        },
        &process::OF_SANDBOX,
        &process::PROGRAM,
        &isolation::FILESYSTEM,
        &isolation::SECURITY,
        &limits::RESOURCES,
        &isolation::NAMESPACES,
        &isolation::NETWORK,
        &remote::PULLING,
        &process::QUIET,
    ],
    positionals: &[
        Positional {
            many: false,
            ..POOLS
        },
        Positional {
            name: "IMAGE",
            required: false,
            many: false,
            completes: Completes::Images,
        },
        Positional {
            name: "COMMAND",
            required: false,
            many: true,
            completes: Completes::None,
        },
    ],
    examples: &[
        Example {
            about: "Eight sandboxes without network and with little memory",
            line: "tote pool fill py -n 8 -m 256m python:3 && tote run --pool py python3 -c 'print(1)'",
        },
        Example {
            about: "Change the size to two",
            line: "tote pool fill py -n 2",
        },
    ],
    ..Command::new("fill", "Create or change a pool", |parsed| sealed(parsed, |parsed| exit::own(pool::fill(parsed))))
};

static LS: Command = Command {
    aliases: &["list"],
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[FORMAT, Opt::flag("quiet", "Print only names").short('q')],
    }],
    ..Command::new("ls", "List pools", |parsed| exit::own(pool::list(parsed)))
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] POOL [POOL...]",
    options: &[&Group {
        title: "",
        options: &[DESCRIPTION],
    }],
    positionals: &[POOLS],
    ..Command::new("inspect", "Print details of pools, as JSON", |parsed| {
        exit::own(pool::inspect(parsed))
    })
};

static RM: Command = Command {
    aliases: &["remove"],
    usage: "[OPTIONS] POOL [POOL...]",
    details: "Waiting sandboxes end; running containers that were taken from the pool go on.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("force", "Do not fail if a pool does not exist").short('f')],
    }],
    positionals: &[POOLS],
    ..Command::new("rm", "Remove pools", |parsed| exit::own(pool::remove(parsed)))
};
