//! Commands about images, under both of docker's names: `tote rmi` and `tote image rm`.

use super::base::{BOOTSTRAP, TRACE};
use super::repeated::{DISK_SIZE, FORMAT};
use crate::{exit, image, tell};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

const LIST: Command = Command {
    usage: "[OPTIONS] [REPOSITORY[:TAG]]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Also show intermediate images of builds").short('a'),
            Opt::flag("digests", "Show the digests of manifests"),
            Opt::list("filter", "KEY=VALUE", "Show only images that match this filter").short('f').details(
                "`dangling=true` or `false`, `label=KEY` or `label=KEY=VALUE`, `reference=PATTERN`, `before=IMAGE`, `since=IMAGE`, `until=TIME`.",
            ),
            FORMAT,
            Opt::flag("no-trunc", "Do not shorten ids"),
            super::look::NOHEADING.short('n'),
            Opt::flag("quiet", "Print only ids").short('q'),
            Opt::value("sort", "KEY", "Sort by this: created, id, repository, size or tag")
                .completes(Completes::Words(&["created", "id", "repository", "size", "tag"])),
            Opt::flag("tree", "Show each image once, with its platform and its size on disk"),
        ],
    }],
    positionals: &[Positional { name: "REPOSITORY", required: false, many: false, completes: Completes::Images }],
    ..Command::new("images", "List images", |parsed| exit::image(image::images(parsed)))
};

const REMOVE: Command = Command {
    usage: "[OPTIONS] IMAGE [IMAGE...]",
    details: "\
Takes a name away, and removes the image with its last one. Layers that nothing else has go as well. Large ones are \
removed bit by bit by the commands that follow, or at once by `tote image prune`.",
    options: &[&Group {
        title: "",
        options: &[
            super::repeated::ALL,
            Opt::flag(
                "force",
                "Take all names away; an image that stopped containers use stays without a name",
            )
            .short('f'),
            Opt::flag("ignore", "Ignore images that do not exist").short('i'),
            Opt::flag(
                "no-prune",
                "Accepted for compatibility with docker: an image has no parents here",
            ),
            Opt::list(
                "platform",
                "OS/ARCH[/VARIANT]",
                "Remove the image only if it is for this platform",
            ),
        ],
    }],
    positionals: &[Positional {
        name: "IMAGE",
        required: false,
        many: true,
        completes: Completes::Images,
    }],
    ..Command::new("rmi", "Remove images", |parsed| {
        exit::image(image::remove(parsed))
    })
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
                "Read this file or directory instead of standard input",
            )
            .short('i')
            .completes(Completes::File),
            super::remote::PLATFORM,
            Opt::flag("quiet", "Do not show progress").short('q'),
        ],
    }],
    examples: &[Example {
        about: "An image that docker has saved",
        line: "docker save alpine | tote load",
    }],
    ..Command::new("load", "Load images from an archive", |parsed| {
        exit::image(image::load(parsed))
    })
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
    ..Command::new("tag", "Give an image another name", |parsed| {
        exit::image(image::tag(parsed))
    })
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
    ..Command::new("untag", "Remove names of an image", |parsed| {
        exit::own(image::untag(parsed))
    })
};

const SAVE: Command = Command {
    usage: "[OPTIONS] IMAGE [IMAGE...]",
    details: "\
Layers come out as they came in, so that their digests stay what they were. In OCI's form they are not compressed. A repository \
without a tag stands for all its tags.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value(
                "output",
                "FILE",
                "Write to this file, or create this directory, instead of standard output",
            )
            .short('o')
            .completes(Completes::File),
            Opt::value(
                "format",
                "FORMAT",
                "Format of the archive: docker-archive, oci-archive or oci-dir",
            )
            .default("docker-archive")
            .completes(Completes::Words(&["docker-archive", "oci-archive", "oci-dir"])),
            super::accepted::SAVE_QUIETLY,
            super::accepted::UNCOMPRESSED,
            super::remote::OF_PLATFORM,
        ],
    }],
    positionals: &[Positional {
        name: "IMAGE",
        required: true,
        many: true,
        completes: Completes::Images,
    }],
    ..Command::new("save", "Write images to an archive", |parsed| {
        exit::image(image::save(parsed))
    })
};

const IMPORT: Command = Command {
    usage: "[OPTIONS] FILE|URL|- [REPOSITORY[:TAG]]",
    details: "\
Reads an archive of files, compressed or not, from FILE, from an HTTP or HTTPS address, or with - from standard input, and \
makes an image of one layer of it.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list(
                "change",
                "INSTRUCTION",
                "Apply a Dockerfile instruction: CMD, ENV, EXPOSE, USER and others",
            )
            .short('c'),
            DISK_SIZE,
            Opt::value("message", "TEXT", "Set the comment in the image's history").short('m'),
            Opt::flag(
                "quiet",
                "Accepted for compatibility with podman: only the id is printed in any case",
            )
            .short('q'),
            Opt::value(
                "platform",
                "OS/ARCH[/VARIANT]",
                "Set the platform of the image (default: this machine's)",
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
    ..Command::new(
        "import",
        "Create an image from an archive of a root file system",
        |parsed| exit::image(image::import(parsed)),
    )
};

const HISTORY: Command = Command {
    usage: "[OPTIONS] IMAGE",
    options: &[&Group {
        title: "",
        options: &[
            FORMAT,
            Opt::flag(
                "human",
                "Print sizes and times for people; --human=false turns this off",
            )
            .short('H'),
            Opt::flag("no-trunc", "Do not shorten commands"),
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
    ..Command::new("history", "Show how an image was made", |parsed| {
        exit::image(image::history(parsed))
    })
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
    ..Command::new("inspect", "Print the details of an image, as JSON", |parsed| {
        exit::image(image::inspect(parsed))
    })
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
            "Show the last layer and the layers of other images on top of it",
        )],
    }],
    positionals: &[Positional {
        name: "IMAGE",
        required: true,
        many: false,
        completes: Completes::Images,
    }],
    ..Command::new(
        "tree",
        "Show the layers of an image and the images that share them",
        |parsed| exit::own(image::tree(parsed)),
    )
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
    ..Command::new(
        "exists",
        "Tell by the exit code whether an image exists",
        |parsed| exit::own(image::exists(parsed)),
    )
};

static IMAGE_PRUNE: Command = Command {
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag(
                "all",
                "Remove all images without containers, not only those without a name",
            )
            .short('a'),
            Opt::flag("force", "Do not ask for confirmation").short('f'),
            PRUNE_FILTER,
        ],
    }],
    ..Command::new(
        "prune",
        "Remove unused images and the files that no image needs",
        |parsed| exit::image(image::prune(parsed)),
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
    ..Command::new("system", "Show and prune what tote stores", tell::help)
};

/// `tote system prune`, and `tote prune` for short.
pub(crate) static SYSTEM_PRUNE: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Does the work of `tote container prune`, `tote network prune`, `tote image prune` and `tote builder prune`, with `--volumes` \
also that of `tote volume prune`. The build cache has no labels, and its age is the time since it was used last.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag(
                "all",
                "Also remove named images without containers, and the whole build cache",
            )
            .short('a'),
            Opt::flag("force", "Do not ask for confirmation").short('f'),
            Opt::flag("volumes", "Also remove anonymous volumes without containers"),
            PRUNE_FILTER,
        ],
    }],
    ..Command::new(
        "prune",
        "Remove unused containers, networks, images and build cache",
        |parsed| exit::image(image::builder::prune_all(parsed)),
    )
};

/// `--filter` of prune commands: selects which unused objects are removed.
const PRUNE_FILTER: Opt = Opt::list(
    "filter",
    "KEY=VALUE",
    "Remove only objects that match: until=TIMESTAMP, label=KEY[=VALUE], label!=KEY[=VALUE]",
);

static SYSTEM_DF: Command = Command {
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            FORMAT,
            Opt::flag("verbose", "Show every image, container and volume").short('v'),
        ],
    }],
    ..Command::new(
        "df",
        "Show the disk space of images, containers and volumes, and what sharing saves",
        |parsed| exit::image(image::space(parsed)),
    )
};

/// `tote store`.
pub(crate) static STORE: Command = Command {
    usage: "COMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&STORE_VERIFY, &super::graph::STORE_REPORT],
    }],
    ..Command::new(
        "store",
        "Check, repair and measure the store of images",
        tell::help,
    )
};

static STORE_VERIFY: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Looks at every file that an image needs, at records, names and trees, and reports what is lost or damaged, with the \
images concerned. Most of what a power cut takes shows in the sizes.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("full", "Also read the contents of all files"),
            Opt::flag(
                "repair",
                "Repair records and trees, fetch damaged layers from their registry, and report what is lost",
            ),
        ],
    }],
    ..Command::new("verify", "Check the store for damage", |parsed| {
        exit::image(image::verify(parsed))
    })
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
    absent: super::absent::OF_IMAGE,
    ..Command::new("image", "Work with images", tell::help)
};
