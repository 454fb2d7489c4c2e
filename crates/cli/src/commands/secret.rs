//! `tote secret …`, podman's.

use super::look::DESCRIPTION;
use super::repeated::{FORMAT, IS_THERE};
use crate::{exit, secret, tell};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

const SECRETS: Positional = Positional {
    name: "SECRET",
    required: true,
    many: true,
    completes: Completes::None,
};

/// `tote secret`.
pub(crate) static SECRET: Command = Command {
    usage: "COMMAND",
    details: "\
A secret is a password, a key or the like. `run --secret NAME` gives a container a copy, as the file /run/secrets/NAME or as a \
variable; neither `inspect` nor `commit` has it. Secrets are files of the state root, which other users cannot read; they are not \
encrypted.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&CREATE, &LS, &INSPECT, &EXISTS, &RM],
    }],
    absent: super::absent::OF_SECRET,
    ..Command::new("secret", "Work with secrets", tell::help)
};

static CREATE: Command = Command {
    usage: "[OPTIONS] SECRET FILE|-",
    details: "Prints the id of the new secret. `-` is standard input. A secret has less than 512000 bytes.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value("driver", "DRIVER", "Secret driver; only file is supported")
                .short('d')
                .default("file")
                .completes(Completes::Words(&["file"])),
            Opt::flag(
                "env",
                "Read the secret from the variable of the environment that FILE names",
            ),
            Opt::flag("ignore", "Leave a secret of that name as it is"),
            Opt::list("label", "KEY=VALUE", "Add a label to the secret").short('l'),
            Opt::flag("replace", "Replace a secret of that name"),
        ],
    }],
    positionals: &[
        Positional {
            many: false,
            ..SECRETS
        },
        Positional {
            name: "FILE",
            required: true,
            many: false,
            completes: Completes::File,
        },
    ],
    examples: &[Example {
        about: "A password that only one container has",
        line: "printf hunter2 | tote secret create password - && tote run --rm --secret password alpine cat /run/secrets/password",
    }],
    ..Command::new("create", "Create a secret", |parsed| {
        exit::own(secret::create(parsed))
    })
};

static LS: Command = Command {
    aliases: &["list"],
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list(
                "filter",
                "KEY=VALUE",
                "Show only secrets that match: name=PATTERN, id=PREFIX",
            )
            .short('f'),
            FORMAT,
            Opt::flag("quiet", "Print only ids").short('q'),
        ],
    }],
    ..Command::new("ls", "List secrets", |parsed| exit::own(secret::list(parsed)))
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] SECRET [SECRET...]",
    options: &[&Group {
        title: "",
        options: &[
            DESCRIPTION,
            Opt::flag("pretty", "Print details for people"),
            Opt::flag("showsecret", "Print the secret as well"),
        ],
    }],
    positionals: &[SECRETS],
    ..Command::new("inspect", "Print details of secrets, as JSON", |parsed| {
        exit::own(secret::inspect(parsed))
    })
};

static EXISTS: Command = Command {
    usage: "SECRET",
    positionals: &[Positional {
        many: false,
        ..SECRETS
    }],
    exit_status: IS_THERE,
    ..Command::new(
        "exists",
        "Tell by the exit code whether a secret exists",
        |parsed| exit::own(secret::exists(parsed)),
    )
};

static RM: Command = Command {
    aliases: &["remove"],
    usage: "[OPTIONS] SECRET [SECRET...]",
    details: "Containers that were made with a secret keep their copies.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Remove all secrets").short('a'),
            Opt::flag("force", "Remove also secrets that a newer tote has made").short('f'),
            Opt::flag("ignore", "Do not fail if a secret does not exist").short('i'),
        ],
    }],
    positionals: &[Positional {
        required: false,
        ..SECRETS
    }],
    ..Command::new("rm", "Remove secrets", |parsed| exit::own(secret::remove(parsed)))
};
