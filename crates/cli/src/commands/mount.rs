//! `tote mount` and `tote umount`, podman's.

use super::repeated::{ALL, ANY_CONTAINERS, FORMAT, LATEST};
use crate::{exit, mount};
use tote_options::{Command, Example, Group, Opt};

/// `tote mount`.
pub(crate) static MOUNT: Command = Command {
    usage: "[OPTIONS] [CONTAINER...]",
    details: "\
Mounts the root of each container and prints where, so that programs of this machine can read and write its files; without \
words it lists what is mounted. The container may run or not, and can be started, ended and removed meanwhile. Its volumes are \
not in it. Only root of the machine can do so, and not with the driver split. The mount stays until `tote umount`, the removal \
of the container or the next boot.",
    options: &[&Group {
        title: "",
        options: &[
            ALL,
            FORMAT.details(
                "`json`, `table`, `table TEMPLATE` or a template of Go's such as `{{.ID}}`, for the list.",
            ),
            LATEST,
            Opt::flag("no-trunc", "Do not shorten ids in the list").aliases(&["notruncate"]),
        ],
    }],
    positionals: &[ANY_CONTAINERS],
    examples: &[Example {
        about: "Look for a file in a container that has ended",
        line: "find \"$(tote mount web)\" -name core; tote umount web",
    }],
    ..Command::new(
        "mount",
        "Mount the root of containers on this machine",
        |parsed| exit::own(mount::mount(parsed)),
    )
};

/// `tote umount`.
pub(crate) static UMOUNT: Command = Command {
    aliases: &["unmount"],
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "Containers that run go on. A mount that a process works in is refused.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Take away the mounts of all containers").short('a'),
            Opt::flag(
                "force",
                "Accepted for compatibility with podman: no uses of a mount are counted",
            )
            .short('f'),
            LATEST,
        ],
    }],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("umount", "Take away what 'tote mount' has mounted", |parsed| {
        exit::own(mount::unmount(parsed))
    })
};
