//! `tote volume …`.

use super::IS_THERE;
use super::image::FORMAT;
use super::look::DESCRIPTION;
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

const VOLUMES: Positional = Positional {
    name: "VOLUME",
    required: true,
    many: true,
    completes: Completes::Volumes,
};

/// `tote volume`.
pub(crate) static VOLUME: Command = Command {
    usage: "COMMAND",
    details: "\
A volume is a directory that outlives containers: `-v NAME:/path` mounts it, and makes it where it is not there. One \
without a name (`-v /path`, or what an image asks for) belongs to its container; with `--rm` it goes with it.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&CREATE, &LS, &INSPECT, &EXISTS, &RM, &PRUNE],
    }],
    absent: super::absent::OF_VOLUME,
    ..Command::new("volume", "Work with volumes")
};

static CREATE: Command = Command {
    usage: "[OPTIONS] [VOLUME]",
    details: "\
Prints its name, which is random where none is given. One that is there stays as it is. `-o type=tmpfs -o device=tmpfs -o \
o=size=64m` is memory, which each container has for itself; `-o type=none -o device=DIR -o o=bind` is a directory of the host.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value("driver", "DRIVER", "Who keeps it: local")
                .short('d')
                .default("local")
                .completes(Completes::Words(&["local"])),
            Opt::list("label", "KEY=VALUE", "Note this with it"),
            Opt::value("name", "NAME", "The same as VOLUME, as docker once had it"),
            Opt::list(
                "opt",
                "KEY=VALUE",
                "What is mounted: type=tmpfs or none, device=, o=",
            )
            .short('o'),
        ],
    }],
    positionals: &[Positional {
        name: "VOLUME",
        required: false,
        many: false,
        completes: Completes::None,
    }],
    examples: &[Example {
        about: "A volume that several containers share",
        line: "tote volume create --label app=shop data && tote run --rm -v data:/data alpine ls /data",
    }],
    ..Command::new("create", "Make a volume")
};

/// `tote volume exists`, podman's.
static EXISTS: Command = Command {
    usage: "VOLUME",
    positionals: &[Positional {
        many: false,
        ..VOLUMES
    }],
    exit_status: IS_THERE,
    ..Command::new("exists", "Say by the exit code whether a volume is there")
};

static LS: Command = Command {
    aliases: &["list"],
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list("filter", "KEY=VALUE", "Show only volumes to which this applies").short('f').details(
                "`dangling=true` or `false` (no container has it), `driver`, `label=KEY` or `KEY=VALUE`, `label!=`, `name` (a pattern).",
            ),
            FORMAT,
            Opt::flag("quiet", "Print only names").short('q'),
        ],
    }],
    ..Command::new("ls", "List volumes")
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] VOLUME [VOLUME...]",
    options: &[&Group {
        title: "",
        options: &[DESCRIPTION],
    }],
    positionals: &[VOLUMES],
    ..Command::new("inspect", "Print what is known of volumes, as JSON")
};

static RM: Command = Command {
    aliases: &["remove"],
    usage: "[OPTIONS] VOLUME [VOLUME...]",
    details: "Removes volumes with all that is in them. One that a container has is refused.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("force", "Do not fail if a volume does not exist").short('f')],
    }],
    positionals: &[VOLUMES],
    ..Command::new("rm", "Remove volumes")
};

static PRUNE: Command = Command {
    usage: "[OPTIONS]",
    details: "Removes the volumes that no container has and that nobody named; with `--all` also those with a name.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Remove also volumes with a name").short('a'),
            Opt::list(
                "filter",
                "KEY=VALUE",
                "Remove only those to which this applies: label=, label!=",
            ),
            Opt::flag("force", "Do not ask").short('f'),
        ],
    }],
    ..Command::new("prune", "Remove volumes that no container has")
};
