//! `tote cp`.

use crate::copy;
use crate::seal::sealed;
use tote_options::{Command, Completes, Example, Group, Opt, Positional};

pub(crate) static CP: Command = Command {
    usage: "[OPTIONS] CONTAINER:SRC_PATH DEST_PATH|-\n[OPTIONS] SRC_PATH|- CONTAINER:DEST_PATH",
    details: "\
Containers may run, be paused, or not run; from one container to another goes as well. Paths in a container begin at \
its root, with or without a slash. What begins with a slash or a dot is a path of this machine, also with a colon in it \
(`./a:b`). A container that runs shows its mounts; of one that does not, volumes and bind mounts are there as at its start.

What is copied comes into DEST_PATH where that is a directory, and gets that name where it is not there; its parent \
directory must be there. SRC_PATH that ends in `/.` is what is in the directory. A directory is not copied onto a file, \
and a file is not copied to a DEST_PATH that ends in a slash and is not there. Links are copied as links, and none leads \
out of the container. Modes, times, hard links, holes and `user.` attributes are kept. \
What the kernel shows of itself below SRC_PATH (`/proc`, `/sys`) is left out.

Files belong to root of the container then, or out of it to the caller, unless `-a` is given; the archive that `-` stands \
for says itself whom its files belong to. Without `-a` nothing that comes out of a container is setuid or setgid, has \
capabilities, or is a device. A user's numbers are those in the container's user namespace.

A single file has its name only when it is whole; a copy that is killed leaves one whose name begins with `.tote-cp-`. Of \
a directory or an archive, what was copied before an error stays.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("archive", "Keep the user and group ids of the files").short('a'),
            Opt::flag("follow-link", "Follow SRC_PATH if it is a symbolic link").short('L'),
            Opt::flag("overwrite", "Let directories replace files, and files replace directories"),
            super::accepted::PAUSE,
            Opt::flag("quiet", "Do not show progress and result, which are only shown on a terminal").short('q'),
        ],
    }],
    positionals: &[
        Positional { name: "SRC_PATH", required: true, many: false, completes: Completes::Places },
        Positional { name: "DEST_PATH", required: true, many: false, completes: Completes::Places },
    ],
    examples: &[
        Example { about: "A file into a container, under another name", line: "tote cp nginx.conf web:/etc/nginx/conf.d/site.conf" },
        Example { about: "The contents of a directory, out of a container", line: "tote cp web:/var/log/. logs" },
        Example { about: "A directory as an archive", line: "tote cp web:/srv - | tar -tvf -" },
    ],
    ..Command::new("cp", "Copy files between a container and this machine", |parsed| sealed(parsed, copy::copy))
};
