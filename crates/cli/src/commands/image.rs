//! Commands about images, under both of docker's names: `tote rmi` and `tote image rm`.

use super::base::{BOOTSTRAP, TRACE};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

/// `--format` of every list and description.
pub(super) const FORMAT: Opt = Opt::value(
    "format",
    "FORMAT",
    "Print as json, as a table, or as a Go template says",
)
.details(
    "`json`, `table`, `table TEMPLATE` or a template of Go's such as `{{.ID}}`. Functions: and or not eq ne lt le gt ge len \
index slice print printf println json split join title lower upper pad truncate.",
)
.completes(Completes::Words(&["json", "table"]));

const LIST: Command = Command {
    usage: "[OPTIONS] [REPOSITORY[:TAG]]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Show also those that only builds go on from").short('a'),
            Opt::flag("digests", "Show the digests of manifests"),
            Opt::list("filter", "KEY=VALUE", "Show only images to which this applies").short('f').details(
                "`dangling=true` or `false`, `label=KEY` or `label=KEY=VALUE`, `reference=PATTERN`, `before=IMAGE`, `since=IMAGE`, `until=TIME`.",
            ),
            FORMAT,
            Opt::flag("no-trunc", "Print whole ids"),
            super::look::NOHEADING.short('n'),
            Opt::flag("quiet", "Print only ids").short('q'),
            Opt::value("sort", "KEY", "Sort by this: created, id, repository, size or tag")
                .completes(Completes::Words(&["created", "id", "repository", "size", "tag"])),
            Opt::flag("tree", "Show each image once, with its platform and what it takes on disk"),
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
        options: &[
            super::ALL,
            Opt::flag(
                "force",
                "Remove it with all its names, and although containers were made of it",
            )
            .short('f'),
            Opt::flag("ignore", "Pass over images that are not here").short('i'),
            Opt::flag(
                "no-prune",
                "Accepted for docker's sake: images that it was built from are not its parents",
            ),
            Opt::list(
                "platform",
                "OS/ARCH[/VARIANT]",
                "Remove it only if it is for these machines",
            ),
        ],
    }],
    positionals: &[Positional {
        name: "IMAGE",
        required: false,
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
            super::remote::PLATFORM,
            Opt::flag("quiet", "Without effect: there is no progress to be seen").short('q'),
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

const UNTAG: Command = Command {
    usage: "IMAGE [NAME[:TAG]...]",
    details: "\
Without names it takes all of them away. The image stays until it is removed by its id, or by `tote image prune`.",
    positionals: &[
        Positional {
            name: "IMAGE",
            required: true,
            many: false,
            completes: Completes::Images,
        },
        Positional {
            name: "NAME",
            required: false,
            many: true,
            completes: Completes::Images,
        },
    ],
    ..Command::new("untag", "Take names away from an image")
};

const SAVE: Command = Command {
    usage: "[OPTIONS] IMAGE [IMAGE...]",
    details: "\
Layers come out as they came in, so that their digests stay what they were. In OCI's form they are not compressed.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value(
                "output",
                "FILE",
                "Write to this file, or make this directory, and not to standard output",
            )
            .short('o')
            .completes(Completes::File),
            Opt::value(
                "format",
                "FORMAT",
                "The form: docker-archive, oci-archive or oci-dir",
            )
            .default("docker-archive")
            .completes(Completes::Words(&["docker-archive", "oci-archive", "oci-dir"])),
            super::remote::OF_PLATFORM,
        ],
    }],
    positionals: &[Positional {
        name: "IMAGE",
        required: true,
        many: true,
        completes: Completes::Images,
    }],
    ..Command::new("save", "Write images to an archive")
};

const IMPORT: Command = Command {
    usage: "[OPTIONS] FILE|- [REPOSITORY[:TAG]]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list(
                "change",
                "INSTRUCTION",
                "Apply a line of a build file: CMD, ENV, EXPOSE, USER and others",
            )
            .short('c'),
            super::build::DISK_SIZE,
            Opt::value("message", "TEXT", "Remember this in the image's history").short('m'),
            Opt::flag("quiet", "Taken for podman's sake: only the id is printed anyway").short('q'),
            Opt::value(
                "platform",
                "OS/ARCH[/VARIANT]",
                "Say that it is for these machines, not for this one",
            ),
        ],
    }],
    positionals: &[
        Positional {
            name: "FILE",
            required: true,
            many: false,
            completes: Completes::File,
        },
        Positional {
            name: "REPOSITORY",
            required: false,
            many: false,
            completes: Completes::Images,
        },
    ],
    examples: &[Example {
        about: "A root file system with a command",
        line: "tote import -c 'CMD [\"/bin/sh\"]' rootfs.tar.gz mine:1",
    }],
    ..Command::new("import", "Make an image of an archive with a root file system")
};

const HISTORY: Command = Command {
    usage: "[OPTIONS] IMAGE",
    options: &[&Group {
        title: "",
        options: &[
            FORMAT,
            Opt::flag(
                "human",
                "Print sizes and times for people: the default, unless it is `--human=false`",
            )
            .short('H'),
            Opt::flag("no-trunc", "Print whole commands"),
            super::remote::OF_PLATFORM,
            Opt::flag("quiet", "Print only ids").short('q'),
        ],
    }],
    positionals: &[Positional {
        name: "IMAGE",
        required: true,
        many: false,
        completes: Completes::Images,
    }],
    ..Command::new("history", "Show how an image was made")
};

/// `tote save`.
pub(crate) static TOP_SAVE: Command = SAVE;
/// `tote import`.
pub(crate) static TOP_IMPORT: Command = IMPORT;
/// `tote history`.
pub(crate) static TOP_HISTORY: Command = HISTORY;

static IMAGE_SAVE: Command = SAVE;
static IMAGE_IMPORT: Command = IMPORT;
static IMAGE_HISTORY: Command = HISTORY;

static IMAGE_INSPECT: Command = Command {
    usage: "[OPTIONS] IMAGE [IMAGE...]",
    options: &[&Group {
        title: "",
        options: &[FORMAT.short('f'), super::remote::OF_PLATFORM],
    }],
    positionals: &[Positional {
        name: "IMAGE",
        required: true,
        many: true,
        completes: Completes::Images,
    }],
    ..Command::new("inspect", "Print what an image says of itself, as JSON")
};

static IMAGE_TREE: Command = Command {
    usage: "[OPTIONS] IMAGE",
    details: "\
The lowest layer comes first, and beside a layer stand the images that end with it. What a layer is called depends on those \
below it.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag(
            "whatrequires",
            "Show the last layer, and all that lies on it in other images",
        )],
    }],
    positionals: &[Positional {
        name: "IMAGE",
        required: true,
        many: false,
        completes: Completes::Images,
    }],
    ..Command::new("tree", "Show the layers of an image, and whose they are")
};

static IMAGE_EXISTS: Command = Command {
    usage: "IMAGE",
    details: "\
Prints nothing: the exit code is 0 where it is here, 1 where it is not, 125 where that cannot be told.",
    positionals: &[Positional {
        name: "IMAGE",
        required: true,
        many: false,
        completes: Completes::Images,
    }],
    ..Command::new("exists", "Say whether an image is here")
};

static IMAGE_PRUNE: Command = Command {
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag(
                "all",
                "Remove every image that no container has, not only those without a name",
            )
            .short('a'),
            Opt::flag("force", "Do not ask").short('f'),
            PRUNE_FILTER,
        ],
    }],
    ..Command::new(
        "prune",
        "Remove images that are not used, and every byte that nothing needs",
    )
};

/// `tote system`.
pub(crate) static SYSTEM: Command = Command {
    usage: "COMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[
            &SYSTEM_DF,
            &SYSTEM_PRUNE,
            &super::look::SYSTEM_EVENTS,
            &super::itself::INFO,
        ],
    }],
    absent: super::absent::OF_SYSTEM,
    ..Command::new("system", "Look at what tote keeps")
};

/// `tote system prune`, and `tote prune` for short.
pub(crate) static SYSTEM_PRUNE: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Does what `tote container prune`, `tote image prune` and `tote builder prune` do, with `--volumes` also what \
`tote volume prune` does. There are no networks to remove. What builds keep has no labels, and its age is the time since it \
was used last.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag(
                "all",
                "Remove every image that no container has, and all that builds keep",
            )
            .short('a'),
            Opt::flag("force", "Do not ask").short('f'),
            Opt::flag(
                "volumes",
                "Remove also volumes that nobody named and no container has",
            ),
            PRUNE_FILTER,
        ],
    }],
    ..Command::new("prune", "Remove everything that is not used")
};

/// `--filter` of prune commands: selects which unused objects are removed.
const PRUNE_FILTER: Opt = Opt::list(
    "filter",
    "KEY=VALUE",
    "Remove only what fits: until=TIMESTAMP, label=KEY[=VALUE], label!=KEY[=VALUE]",
);

static SYSTEM_DF: Command = Command {
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            FORMAT,
            Opt::flag("verbose", "Show each image, container and volume").short('v'),
        ],
    }],
    ..Command::new(
        "df",
        "Show how much space images, containers and volumes take, and what sharing saves",
    )
};

/// `tote store`.
pub(crate) static STORE: Command = Command {
    usage: "COMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&STORE_VERIFY],
    }],
    ..Command::new("store", "Look after the store of images")
};

static STORE_VERIFY: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Looks at every file that an image needs, at records, names and trees, and reports what is lost or damaged, with the \
images concerned. Most of what a power cut takes shows in the sizes.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("full", "Read the contents, too"),
            Opt::flag(
                "repair",
                "Mend records and trees, fetch damaged layers from where their images came, and say what is lost",
            ),
        ],
    }],
    ..Command::new("verify", "Check that what is stored is what was stored")
};

/// `tote images`.
pub(crate) static IMAGES: Command = LIST;
/// `tote rmi`.
pub(crate) static RMI: Command = REMOVE;
/// `tote load`.
pub(crate) static TOP_LOAD: Command = LOAD;
/// `tote tag`.
pub(crate) static TOP_TAG: Command = TAG;
/// `tote untag`.
pub(crate) static TOP_UNTAG: Command = UNTAG;

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
static IMAGE_UNTAG: Command = UNTAG;

/// `tote image`.
pub(crate) static IMAGE: Command = Command {
    usage: "COMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[
            &super::build::IMAGE_BUILD,
            &IMAGE_LS,
            &IMAGE_EXISTS,
            &IMAGE_INSPECT,
            &IMAGE_HISTORY,
            &IMAGE_RM,
            &IMAGE_PRUNE,
            &super::remote::PULL,
            &super::remote::PUSH,
            &IMAGE_LOAD,
            &IMAGE_SAVE,
            &IMAGE_IMPORT,
            &IMAGE_TAG,
            &IMAGE_UNTAG,
            &IMAGE_TREE,
            &TRACE,
            &BOOTSTRAP,
        ],
    }],
    ..Command::new("image", "Work with images")
};
