//! The command that brings tools into a running container.

use super::exec::{ENV, ENV_FILE, NOT_RUNNING, OF_THE_COMMAND, PRIVILEGED, SIGNALLED, WRONG_LINE};
use super::repeated::{CONTAINER, word};
use crate::debug;
use crate::seal::sealed;
use tote_options::{Command, Completes, Example, ExitStatus, Group, Opt, Parsing};

/// `tote debug`.
pub(crate) static DEBUG: Command = Command {
    usage: "[OPTIONS] CONTAINER [COMMAND] [ARG...]",
    details: "\
Runs COMMAND in a container that runs, with programs that the container does not have. The command has the container's \
namespaces, cgroup, user, capabilities, filter and limits, and its environment except PATH. Its root directory holds \
the tools; the container's own root is /target there (also in `$TARGET`), and what the command writes below it is \
written to the container. The container's /proc, /dev, /sys, /etc/passwd, /etc/group, /etc/hosts, /etc/hostname and \
/etc/resolv.conf take the place of the tools' own.

Without COMMAND, `tote debug` starts the best shell of the tools: bash, zsh or sh. At a terminal the command gets a \
terminal of its own, as with `tote exec -it`; in a pipe its streams are passed on as they are.

What the command writes elsewhere is kept in memory and is gone when the command ends; the command ends with `tote debug`. The container's own mounts, \
files and processes stay as they are, and the container ends as if there had been no session.

CONTAINER is the name or the id of a container, of tote or of another engine:

`NAME`
: A container of tote, or else of docker, podman, containerd or systemd-nspawn
`docker:NAME`
: A container of docker, in its usual place (/var/lib/docker)
`podman:NAME`
: A container of podman: root's for root, the caller's own for other users
`containerd:[NAMESPACE/]ID`
: A container of containerd, which includes Kubernetes'
`nspawn:NAME`
: A machine of systemd-nspawn
`pid:N`
: The surroundings of any process

A container of another engine has a filter of system calls that tote cannot read. Where it has one, the command gets \
tote's default filter.",
    options: &[&Group {
        title: "",
        options: &[
            ENV,
            ENV_FILE,
            Opt::flag("interactive", "Keep standard input open (the default at a terminal)").short('i'),
            PRIVILEGED,
            Opt::value("tools", "IMAGE", "Take the tools from this image, from this machine (host) or from a directory (rootfs:DIR)")
                .default("host")
                .completes(Completes::Images),
            Opt::flag("tty", "Give the command a terminal of its own (the default at a terminal)").short('t'),
            Opt::value("user", "USER[:GROUP]", "Run as this user and group of the container, by name or number").short('u'),
            Opt::value("workdir", "DIR", "Start the command in this directory, among the tools or below /target").short('w').default("/"),
        ],
    }],
    positionals: &[
        CONTAINER,
        word("COMMAND", false, false),
        word("ARG", false, true),
    ],
    parsing: Parsing::StopAtFirstPositional,
    examples: &[
        Example { about: "A shell with this machine's tools in a container that has none", line: "tote debug web" },
        Example { about: "What a process of the container waits for", line: "tote debug web strace -p 1" },
        Example { about: "Tools of an image", line: "tote debug --tools debian:bookworm web" },
        Example { about: "An archive of a directory of the container", line: "tote debug web tar -C /target -c etc > etc.tar" },
        Example { about: "A container of docker", line: "tote debug docker:db ss -tlnp" },
    ],
    exit_status: &[
        NOT_RUNNING,
        WRONG_LINE,
        ExitStatus { status: "126", about: "The command was found but could not be executed, or the container could not be entered" },
        ExitStatus { status: "127", about: "The command was not found among the tools" },
        SIGNALLED,
        OF_THE_COMMAND,
    ],
    ..Command::new("debug", "Run a command in a running container with tools of its own", |parsed| sealed(parsed, debug::debug))
};
