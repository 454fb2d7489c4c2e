//! `tote manifest …`: images for several platforms under one name.

use super::remote::{AUTHFILE, CERT_DIR, CREDS, TLS_VERIFY};
use super::repeated::{IS_THERE, word};
use crate::{exit, manifest, tell};
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
        Opt::value("arch", "ARCH", "Set the architecture, instead of the image's own"),
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
            "Accepted for compatibility with podman: OCI indexes have no such property",
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
        Opt::flag("insecure", "Same as --tls-verify=false, in docker's words"),
    ],
};

/// Options that add members.
static ADDING: Group = Group {
    title: "",
    options: &[Opt::flag(
        "all",
        "Add all images of a member that is itself an index, not only the one for this machine",
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
            options: &[Opt::flag("amend", "Add to the list if it exists").short('a')],
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
        about: "A list of two images, pushed to a registry",
        line: "tote manifest create app:1 app:amd64 app:arm64 && tote manifest push app:1 ghcr.io/me/app:1",
    }],
    ..Command::new("create", "Create a list of images", |parsed| {
        exit::image(manifest::create(parsed))
    })
};

static ADD: Command = Command {
    usage: "[OPTIONS] LIST IMAGE...",
    details: "An image that the list already has is not added again; its entry is updated.",
    options: &[&ADDING, &MEMBER, &REGISTRY],
    positionals: &[LIST, Positional { many: true, ..IMAGE }],
    ..Command::new("add", "Put images into a list", |parsed| {
        exit::image(manifest::add(parsed))
    })
};

static ANNOTATE: Command = Command {
    usage: "[OPTIONS] LIST IMAGE",
    details: "IMAGE is a name, an id, the reference that it was fetched by, or the digest of its manifest.",
    options: &[&MEMBER],
    positionals: &[LIST, IMAGE],
    ..Command::new("annotate", "Change the entry of an image in a list", |parsed| {
        exit::image(manifest::annotate(parsed))
    })
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] NAME",
    details: "\
NAME is a list that is here, or else a manifest or an index at a registry; `docker://NAME` is always the latter. What was \
never pushed is shown as `save` writes it: a push compresses layers, and gives the manifests other digests.",
    options: &[
        &Group {
            title: "",
            options: &[Opt::flag("verbose", "Show each manifest in full").short('v')],
        },
        &REGISTRY,
    ],
    positionals: &[Positional { name: "NAME", ..LIST }],
    ..Command::new("inspect", "Show a list, a manifest or an index", |parsed| {
        exit::image(manifest::inspect(parsed))
    })
};

static PUSH: Command = Command {
    usage: "[OPTIONS] LIST [DESTINATION]",
    details: "The images are sent first, then the list. Without DESTINATION the name of the list is the destination.",
    options: &[
        &Group {
            title: "",
            options: &[
                Opt::flag(
                    "all",
                    "Accepted for compatibility with podman: all images are pushed",
                ),
                Opt::flag("purge", "Remove the local list afterwards").short('p'),
                Opt::flag("rm", "Same as --purge"),
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
    ..Command::new("push", "Push a list and its images to a registry", |parsed| {
        exit::image(manifest::push(parsed))
    })
};

static REMOVE: Command = Command {
    usage: "LIST IMAGE",
    details: "IMAGE is a name, an id, the reference that it was fetched by, or the digest of its manifest.",
    positionals: &[LIST, IMAGE],
    ..Command::new("remove", "Remove an image from a list", |parsed| {
        exit::image(manifest::take_out(parsed))
    })
};

static RM: Command = Command {
    usage: "LIST...",
    details: "Images that nothing else uses are removed as well.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("ignore", "Ignore lists that do not exist").short('i')],
    }],
    positionals: &[LISTS],
    ..Command::new("rm", "Remove lists", manifest::remove)
};

static EXISTS: Command = Command {
    usage: "LIST",
    positionals: &[LIST],
    exit_status: IS_THERE,
    ..Command::new(
        "exists",
        "Tell by the exit code whether a list exists",
        |parsed| exit::image(manifest::exists(parsed)),
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
    ..Command::new(
        "manifest",
        "Work with lists of images for several platforms",
        tell::help,
    )
};
