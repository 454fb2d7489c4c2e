//! `tote manifest …`: images for several platforms under one name.

use super::remote::{AUTHFILE, CERT_DIR, CREDS, TLS_VERIFY};
use super::{IS_THERE, word};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

const LIST: Positional = Positional {
    name: "LIST",
    required: true,
    many: false,
    completes: Completes::Images,
};

const LISTS: Positional = Positional { many: true, ..LIST };

const IMAGE: Positional = Positional {
    name: "IMAGE",
    ..LIST
};

/// Options that describe a member.
static MEMBER: Group = Group {
    title: "Member",
    options: &[
        Opt::list("annotation", "KEY=VALUE", "Add an annotation to the entry"),
        Opt::value(
            "arch",
            "ARCH",
            "The architecture, in place of what the image says",
        ),
        Opt::value("os", "OS", "The operating system"),
        Opt::list("os-features", "FEATURE", "Features of the operating system"),
        Opt::value("os-version", "VERSION", "The version of the operating system"),
        Opt::value(
            "variant",
            "VARIANT",
            "The variant of the architecture, such as v7",
        ),
        Opt::list(
            "features",
            "FEATURE",
            "Accepted for podman's sake: OCI's indexes have no such property",
        ),
    ],
};

/// Options about the connection to a registry.
static REGISTRY: Group = Group {
    title: "Registry",
    options: &[
        AUTHFILE,
        CERT_DIR,
        CREDS,
        TLS_VERIFY,
        Opt::flag("insecure", "As --tls-verify=false, in docker's words"),
    ],
};

/// Options that add members.
static ADDING: Group = Group {
    title: "",
    options: &[Opt::flag(
        "all",
        "Of a member that is an index itself, take all images, and not only that for this machine",
    )],
};

static CREATE: Command = Command {
    usage: "[OPTIONS] LIST [IMAGE...]",
    details: "\
An IMAGE is one that is here, or `docker://REFERENCE` at a registry, from which it is fetched; so is a name that is not \
here.",
    options: &[
        &Group {
            title: "",
            options: &[Opt::flag("amend", "Add to a list of that name, if there is one").short('a')],
        },
        &ADDING,
        &MEMBER,
        &REGISTRY,
    ],
    positionals: &[
        LIST,
        Positional {
            required: false,
            many: true,
            ..IMAGE
        },
    ],
    examples: &[Example {
        about: "Of two images, and to a registry",
        line: "tote manifest create app:1 app:amd64 app:arm64 && tote manifest push app:1 ghcr.io/me/app:1",
    }],
    ..Command::new("create", "Make a list of images")
};

static ADD: Command = Command {
    usage: "[OPTIONS] LIST IMAGE...",
    details: "An image that the list has already is not added again; what is said of it replaces what was.",
    options: &[&ADDING, &MEMBER, &REGISTRY],
    positionals: &[LIST, Positional { many: true, ..IMAGE }],
    ..Command::new("add", "Put images into a list")
};

static ANNOTATE: Command = Command {
    usage: "[OPTIONS] LIST IMAGE",
    details: "IMAGE is a name, an id, the reference that it was fetched by, or the digest of its manifest.",
    options: &[&MEMBER],
    positionals: &[LIST, IMAGE],
    ..Command::new("annotate", "Say something else of an image in a list")
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] NAME",
    details: "\
NAME is a list that is here, or else a manifest or an index at a registry; `docker://NAME` is always the latter. What was \
never pushed is shown as `save` writes it: a push compresses layers, and gives the manifests other digests.",
    options: &[
        &Group {
            title: "",
            options: &[Opt::flag("verbose", "Show each manifest as a whole").short('v')],
        },
        &REGISTRY,
    ],
    positionals: &[Positional { name: "NAME", ..LIST }],
    ..Command::new("inspect", "Show a list, a manifest or an index")
};

static PUSH: Command = Command {
    usage: "[OPTIONS] LIST [DESTINATION]",
    details: "The images go first, then the list of them. Without DESTINATION it goes where its name says.",
    options: &[
        &Group {
            title: "",
            options: &[
                Opt::flag("all", "Accepted for podman's sake: all images are pushed"),
                Opt::flag("purge", "Remove the list here afterwards").short('p'),
                Opt::flag("rm", "As --purge"),
                Opt::flag("quiet", "Print only the digest").short('q'),
            ],
        },
        &REGISTRY,
    ],
    positionals: &[
        LIST,
        Positional {
            required: false,
            ..word("DESTINATION", false, false)
        },
    ],
    ..Command::new("push", "Send a list and its images to a registry")
};

static REMOVE: Command = Command {
    usage: "LIST IMAGE",
    details: "IMAGE is a name, an id, the reference that it was fetched by, or the digest of its manifest.",
    positionals: &[LIST, IMAGE],
    ..Command::new("remove", "Take an image out of a list")
};

static RM: Command = Command {
    usage: "LIST...",
    details: "Images that nothing else has go with it.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("ignore", "Say nothing of lists that are not there").short('i')],
    }],
    positionals: &[LISTS],
    ..Command::new("rm", "Remove lists")
};

static EXISTS: Command = Command {
    usage: "LIST",
    positionals: &[LIST],
    exit_status: IS_THERE,
    ..Command::new(
        "exists",
        "Tell by the exit status whether there is a list of that name",
    )
};

/// `tote manifest`.
pub(super) static MANIFEST: Command = Command {
    usage: "COMMAND",
    details: "\
A list of images for several platforms, an index, is an image like any other: `run` takes the one for this machine, `tag`, \
`save`, `push` and `rmi` mean all of it. `tote build --platform A,B` makes one at once.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&CREATE, &ADD, &ANNOTATE, &INSPECT, &EXISTS, &PUSH, &REMOVE, &RM],
    }],
    ..Command::new("manifest", "Work with lists of images for several platforms")
};
