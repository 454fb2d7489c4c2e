//! Commands about changes that containers made.

use super::repeated::{CONTAINER, LATEST};
use crate::{change, exit};
use tote_options::{Command, Completes, Example, Group, Opt, Positional};

/// `tote commit`.
pub(crate) static COMMIT: Command = Command {
    usage: "[OPTIONS] CONTAINER [REPOSITORY[:TAG]]",
    details: "\
What the container wrote becomes one more layer on those of its image, and the image's configuration is taken over. A \
container of a directory (`rootfs:DIR`) becomes an image of one layer with everything in it. What was mounted in the \
container is not in the image; neither are its `/etc/hosts`, `/etc/hostname` and `/etc/resolv.conf`.

Prints the id of the image.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value("author", "AUTHOR", "Set the author of the image").short('a'),
            Opt::list("change", "INSTRUCTION", "Apply this Dockerfile instruction to the image's configuration")
                .short('c')
                .details("Instructions are CMD, ENTRYPOINT, ENV, EXPOSE, LABEL, ONBUILD, STOPSIGNAL, USER, VOLUME and WORKDIR."),
            Opt::value("iidfile", "FILE", "Write the image's id to this file").completes(Completes::File),
            Opt::value("message", "TEXT", "Set the comment in the image's history").short('m'),
            Opt::flag("pause", "Pause a running container meanwhile; --pause=false turns this off").short('p'),
            Opt::flag("quiet", "Accepted for compatibility with podman: only the id is printed in any case").short('q'),
        ],
    }],
    positionals: &[
        CONTAINER,
        Positional { name: "REPOSITORY", required: false, many: false, completes: Completes::Images },
    ],
    examples: &[Example {
        about: "An image with one more package",
        line: "tote run --name c debian:bookworm apt-get install -y git && tote commit -c 'CMD [\"git\"]' c debian-git",
    }],
    ..Command::new("commit", "Create an image from a container", |parsed| exit::refused(change::commit(parsed)))
};

/// `tote diff`.
pub(crate) static DIFF: Command = Command {
    usage: "[OPTIONS] CONTAINER",
    details: "\
Prints a line for each path: `A` if the container added it, `C` if it changed it or something in it, `D` if it removed it.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value("format", "FORMAT", "Print the paths in this format, as with podman: json")
                .details("It is one object with the lists `added`, `changed` and `deleted`; an empty list is left out."),
            LATEST,
        ],
    }],
    positionals: &[CONTAINER],
    ..Command::new(
        "diff",
        "Show the changes of a container's file system",
        |parsed| exit::refused(change::diff(parsed)),
    )
};

/// `tote export`.
pub(crate) static EXPORT: Command = Command {
    usage: "[OPTIONS] CONTAINER",
    details: "\
Writes the container's tree as a tar archive: its image with what it changed, without what was mounted.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value("output", "FILE", "Write to this file instead of standard output")
                .short('o')
                .completes(Completes::File),
        ],
    }],
    positionals: &[CONTAINER],
    ..Command::new(
        "export",
        "Write the file system of a container as an archive",
        |parsed| exit::refused(change::export(parsed)),
    )
};
