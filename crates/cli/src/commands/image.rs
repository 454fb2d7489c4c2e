//! Commands about images: each of docker's two names for them, `tote rmi` and `tote image rm`.

use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

const LIST: Command = Command {
    usage: "[OPTIONS] [REPOSITORY[:TAG]]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Accepted for docker's sake: there are no intermediate images").short('a'),
            Opt::flag("digests", "Show the digests of manifests"),
            Opt::list("filter", "KEY=VALUE", "Show only images to which this applies").short('f').details(
                "`dangling=true` or `false`, `label=KEY` or `label=KEY=VALUE`, `reference=PATTERN`, `before=IMAGE`, `since=IMAGE`.",
            ),
            Opt::value("format", "FORMAT", "Print a line of JSON for each image, or a table")
                .completes(Completes::Words(&["json", "table"])),
            Opt::flag("no-trunc", "Print whole ids"),
            Opt::flag("quiet", "Print only ids").short('q'),
        ],
    }],
    positionals: &[Positional { name: "REPOSITORY", required: false, many: false, completes: Completes::Images }],
    ..Command::new("images", "List images")
};

const REMOVE: Command = Command {
    usage: "[OPTIONS] IMAGE [IMAGE...]",
    details: "\
Takes a name away, and removes the image with its last one. Layers that nothing else has go as well. Large ones are \
removed bit by bit by the commands that follow, or at once by `tote image prune`.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag(
            "force",
            "Remove it with all its names, and although containers were made of it",
        )
        .short('f')],
    }],
    positionals: &[Positional {
        name: "IMAGE",
        required: true,
        many: true,
        completes: Completes::Images,
    }],
    ..Command::new("rmi", "Remove images")
};

const LOAD: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Reads what `docker save`, `podman save` and `tote save` write, in docker's form or OCI's, compressed or not; or an OCI \
layout, where FILE is a directory.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value(
                "input",
                "FILE",
                "Read this file or directory; standard input where it is not given",
            )
            .short('i')
            .completes(Completes::File),
            Opt::flag("quiet", "Do not say what was loaded").short('q'),
        ],
    }],
    examples: &[Example {
        about: "An image of docker's",
        line: "docker save alpine | tote load",
    }],
    ..Command::new("load", "Load images from an archive")
};

const TAG: Command = Command {
    usage: "IMAGE NAME[:TAG]",
    positionals: &[
        Positional {
            name: "IMAGE",
            required: true,
            many: false,
            completes: Completes::Images,
        },
        Positional {
            name: "NAME",
            required: true,
            many: false,
            completes: Completes::Images,
        },
    ],
    ..Command::new("tag", "Give an image one more name")
};

/// `tote images`.
pub(crate) static IMAGES: Command = LIST;
/// `tote rmi`.
pub(crate) static RMI: Command = REMOVE;
/// `tote load`.
pub(crate) static TOP_LOAD: Command = LOAD;
/// `tote tag`.
pub(crate) static TOP_TAG: Command = TAG;

static IMAGE_LS: Command = Command {
    name: "ls",
    aliases: &["list"],
    ..LIST
};
static IMAGE_RM: Command = Command {
    name: "rm",
    aliases: &["remove"],
    ..REMOVE
};
static IMAGE_LOAD: Command = LOAD;
static IMAGE_TAG: Command = TAG;

/// `tote image`.
pub(crate) static IMAGE: Command = Command {
    usage: "COMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&IMAGE_LS, &IMAGE_RM, &IMAGE_LOAD, &IMAGE_TAG],
    }],
    ..Command::new("image", "Work with images")
};
