//! `tote volume …`.

use super::look::DESCRIPTION;
use super::repeated::{FORMAT, IS_THERE};
use crate::{exit, tell, volume};
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
        commands: &[&CREATE, &LS, &INSPECT, &EXISTS, &EXPORT, &IMPORT, &RM, &PRUNE],
    }],
    absent: super::absent::OF_VOLUME,
    ..Command::new("volume", "Work with volumes", tell::help)
};

static CREATE: Command = Command {
    usage: "[OPTIONS] [VOLUME]",
    details: "\
Prints its name, which is random where none is given. One that is there stays as it is. `-o type=tmpfs -o device=tmpfs -o \
o=size=64m` is memory, which each container has for itself; `-o type=disk -o o=size=1g` is a disk, which one container in \
a virtual machine has at a time; `-o type=none -o device=DIR -o o=bind` is a directory of the host.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value("driver", "DRIVER", "Volume driver; only local is supported")
                .short('d')
                .default("local")
                .completes(Completes::Words(&["local"])),
            Opt::list("label", "KEY=VALUE", "Add a label to the volume"),
            Opt::value(
                "name",
                "NAME",
                "Name of the volume, as older versions of docker take it",
            ),
            Opt::list(
                "opt",
                "KEY=VALUE",
                "Mount option: type=tmpfs or none, device=, o=",
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
    ..Command::new("create", "Create a volume", |parsed| {
        exit::own(volume::create(parsed))
    })
};

/// `tote volume exists`, podman's.
static EXISTS: Command = Command {
    usage: "VOLUME",
    positionals: &[Positional {
        many: false,
        ..VOLUMES
    }],
    exit_status: IS_THERE,
    ..Command::new(
        "exists",
        "Tell by the exit code whether a volume exists",
        |parsed| exit::own(volume::exists(parsed)),
    )
};

/// `tote volume export`, podman's.
static EXPORT: Command = Command {
    usage: "[OPTIONS] VOLUME",
    details: "Writes the files of a volume as a tar archive, to standard output unless `-o` is given.",
    options: &[&Group {
        title: "",
        options: &[Opt::value("output", "FILE", "Write to this file")
            .short('o')
            .completes(Completes::File)],
    }],
    positionals: &[Positional {
        many: false,
        ..VOLUMES
    }],
    examples: &[Example {
        about: "A backup, and the way back",
        line: "tote volume export data | gzip >data.tar.gz; tote volume import data data.tar.gz",
    }],
    ..Command::new("export", "Write a volume's files as a tar archive", |parsed| {
        exit::own(volume::export(parsed))
    })
};

/// `tote volume import`, podman's.
static IMPORT: Command = Command {
    usage: "VOLUME FILE|-",
    details: "Extracts a tar archive, compressed or not, into a volume that is there; `-` is standard input. Files of the same \
              name are replaced, others stay.",
    positionals: &[
        Positional {
            many: false,
            ..VOLUMES
        },
        Positional {
            name: "FILE",
            required: true,
            many: false,
            completes: Completes::File,
        },
    ],
    ..Command::new("import", "Extract a tar archive into a volume", |parsed| {
        exit::own(volume::import(parsed))
    })
};

static LS: Command = Command {
    aliases: &["list"],
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list("filter", "KEY=VALUE", "Show only volumes that match this filter").short('f').details(
                "`dangling=true` or `false` (no container has it), `driver`, `label=KEY` or `KEY=VALUE`, `label!=`, `name` (a pattern).",
            ),
            FORMAT,
            super::look::NOHEADING.short('n'),
            Opt::flag("quiet", "Print only names").short('q'),
        ],
    }],
    ..Command::new("ls", "List volumes", |parsed| exit::own(volume::list(parsed)))
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] VOLUME [VOLUME...]",
    options: &[&Group {
        title: "",
        options: &[DESCRIPTION],
    }],
    positionals: &[VOLUMES],
    ..Command::new("inspect", "Print details of volumes, as JSON", |parsed| {
        exit::own(volume::inspect(parsed))
    })
};

static RM: Command = Command {
    aliases: &["remove"],
    usage: "[OPTIONS] VOLUME [VOLUME...]",
    details: "Removes volumes with their contents. A volume that a container uses is refused.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Remove all volumes that no container uses, podman's").short('a'),
            Opt::flag("force", "Do not fail if a volume does not exist").short('f'),
            super::accepted::NO_TIME,
        ],
    }],
    positionals: &[Positional {
        required: false,
        ..VOLUMES
    }],
    ..Command::new("rm", "Remove volumes", |parsed| exit::own(volume::remove(parsed)))
};

static PRUNE: Command = Command {
    usage: "[OPTIONS]",
    details: "Removes anonymous volumes without containers; with `--all` also those with a name.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Also remove volumes with a name").short('a'),
            Opt::list(
                "filter",
                "KEY=VALUE",
                "Remove only volumes that match: label=, label!=",
            ),
            Opt::flag("force", "Do not ask for confirmation").short('f'),
        ],
    }],
    ..Command::new("prune", "Remove volumes without containers", |parsed| {
        exit::own(volume::prune(parsed))
    })
};
