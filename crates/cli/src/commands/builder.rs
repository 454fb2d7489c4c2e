//! The commands of docker's `buildx` other than `build` and `prune`, for the only builder.

use super::remote::{AUTHFILE, CERT_DIR, TLS_VERIFY};
use super::repeated::word;
use crate::{buildx, exit, tell};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

const NAME: Positional = word("NAME", false, false);

static LS: Command = Command {
    usage: "",
    ..Command::new("ls", "Show the builder", |_| buildx::list())
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] [NAME]",
    details: "A RUN can execute programs for this machine and for the platforms with an interpreter in binfmt_misc.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag(
            "bootstrap",
            "Accepted for compatibility with docker: there is nothing to start",
        )],
    }],
    positionals: &[NAME],
    ..Command::new("inspect", "Show details of the builder", buildx::inspect)
};

static USE: Command = Command {
    usage: "[OPTIONS] NAME",
    details: "There is one builder, `default`: every NAME stands for it.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("default", "Accepted for compatibility with docker"),
            Opt::flag("global", "Accepted for compatibility with docker"),
        ],
    }],
    positionals: &[word("NAME", true, false)],
    ..Command::new("use", "Choose a builder; there is only one", buildx::accept)
};

static CREATE: Command = Command {
    usage: "[OPTIONS] [ENDPOINT]",
    details: "\
Makes nothing: there is one builder, this program, and every build is its own. It prints `default`, the name that scripts may \
go on with; `build --builder` takes any name.",
    options: &[&Group {
        title: "Accepted",
        options: &[
            Opt::flag("append", "Accepted for compatibility with docker"),
            Opt::flag("bootstrap", "Accepted for compatibility with docker"),
            Opt::value(
                "buildkitd-config",
                "FILE",
                "Accepted for compatibility with docker",
            )
            .completes(Completes::File),
            Opt::value(
                "buildkitd-flags",
                "FLAGS",
                "Accepted for compatibility with docker",
            ),
            Opt::value("driver", "DRIVER", "Accepted for compatibility with docker"),
            Opt::list(
                "driver-opt",
                "KEY=VALUE",
                "Accepted for compatibility with docker",
            ),
            Opt::value("name", "NAME", "Accepted for compatibility with docker"),
            Opt::value("node", "NAME", "Accepted for compatibility with docker"),
            Opt::list("platform", "PLATFORM", "Accepted for compatibility with docker"),
            Opt::flag("use", "Accepted for compatibility with docker"),
        ],
    }],
    positionals: &[word("ENDPOINT", false, false)],
    ..Command::new("create", "Accept a new builder; there is only one", |_| {
        buildx::create()
    })
};

static RM: Command = Command {
    usage: "[OPTIONS] [NAME...]",
    details: "Removes nothing: the only builder is this program. `tote builder prune` removes the build cache.",
    options: &[&Group {
        title: "Accepted",
        options: &[
            Opt::flag("all-inactive", "Accepted for compatibility with docker"),
            Opt::flag("force", "Accepted for compatibility with docker").short('f'),
            Opt::flag("keep-daemon", "Accepted for compatibility with docker"),
            Opt::flag("keep-state", "Accepted for compatibility with docker"),
        ],
    }],
    positionals: &[word("NAME", false, true)],
    ..Command::new(
        "rm",
        "Accept the removal of a builder; nothing is removed",
        buildx::accept,
    )
};

static DU: Command = Command {
    usage: "",
    ..Command::new("du", "Show the build cache", |parsed| {
        exit::one(buildx::space(parsed))
    })
};

static VERSION: Command = Command {
    usage: "",
    ..Command::new(
        "version",
        "Print the version of the builder, which is that of tote",
        |_| buildx::version(),
    )
};

/// Options about the connection to registries.
static REGISTRY: Group = Group {
    title: "Registry",
    options: &[AUTHFILE, CERT_DIR, TLS_VERIFY],
};

static TOOLS_INSPECT: Command = Command {
    usage: "[OPTIONS] NAME",
    options: &[
        &Group {
            title: "",
            options: &[
                super::repeated::FORMAT,
                Opt::flag("raw", "Print the document unchanged"),
            ],
        },
        &REGISTRY,
    ],
    positionals: &[word("NAME", true, false)],
    ..Command::new("inspect", "Show a manifest or an index at a registry", |parsed| {
        exit::one(buildx::tools_inspect(parsed))
    })
};

static TOOLS_CREATE: Command = Command {
    usage: "[OPTIONS] SOURCE...",
    details: "\
Every SOURCE is at a registry, and its images are fetched on the way; an index is taken apart, all its images are in the new \
one. Attestations are left out, because they are about another index.",
    options: &[
        &Group {
            title: "",
            options: &[
                Opt::flag(
                    "append",
                    "Add to the indexes that the names have at their registry",
                ),
                Opt::flag("dry-run", "Print the index and push nothing"),
                Opt::list("tag", "NAME[:TAG]", "Push the index to this name").short('t'),
            ],
        },
        &REGISTRY,
    ],
    positionals: &[word("SOURCE", true, true)],
    examples: &[Example {
        about: "An index of images that two machines have built",
        line: "tote buildx imagetools create -t ghcr.io/me/app:1 ghcr.io/me/app:amd64 ghcr.io/me/app:arm64",
    }],
    ..Command::new(
        "create",
        "Make an index of images at registries, and push it",
        |parsed| exit::one(buildx::tools_create(parsed)),
    )
};

static IMAGETOOLS: Command = Command {
    usage: "COMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&TOOLS_CREATE, &TOOLS_INSPECT],
    }],
    ..Command::new("imagetools", "Work with indexes at registries", tell::help)
};

/// Commands of `tote builder` about the builder itself, and about indexes.
pub(super) static COMMANDS: &[&Command] = &[&CREATE, &DU, &IMAGETOOLS, &INSPECT, &LS, &RM, &USE, &VERSION];
