//! The command that brings tools into a running container.

use super::exec::{ENV, ENV_FILE, NOT_RUNNING, OF_THE_COMMAND, PRIVILEGED, SIGNALLED, WRONG_LINE};
use super::remote::PULLING;
use super::repeated::{CONTAINER, word};
use crate::debug;
use crate::seal::sealed;
use tote_engine::DEBUG_SHELLS;
use tote_options::{Command, Completes, Example, ExitStatus, Group, Opt, Parsing};

/// `tote debug`.
pub(crate) static DEBUG: Command = Command {
    usage: "[OPTIONS] CONTAINER [COMMAND] [ARG...]",
    details: "\
Runs COMMAND in a container, with programs that the container does not have. The command has the container's \
namespaces, cgroup, user, capabilities, filter and limits. Its root directory holds \
the tools; the container's own root is /target there (also in `$TARGET`), and what the command writes below it is \
written to the container. The container's /proc, /dev, /sys, /etc/passwd, /etc/group, /etc/hosts, /etc/hostname and \
/etc/resolv.conf take the place of the tools' own, the first two of these files as copies with the names alone.

Nothing of the container decides what the tools run: the command has none of its variables unless `--env-of-container` or `-e` gives them, and the \
tools' own home directories. Options that give the command more rights than the container has (`--privileged`, `--cap-add`, `--no-cgroup`) are refused together \
with `--env-of-container` and `--view target`: by these the container's code would have the rights.

Without COMMAND, `tote debug` starts a shell of the tools: the caller's own one (`$SHELL`), bash, zsh, fish or sh. At a terminal the command gets a \
terminal of its own, as with `tote exec -it`; in a pipe its streams are passed on as they are.

What the command writes elsewhere is kept in memory and is gone when the command ends, unless `--keep` is given; the command ends with `tote debug`. The container's own mounts, \
files and processes stay as they are, and the container ends as if there had been no session.

With `--view target`, or `--root target`, the container's own tree is the root directory, and the tools are in /.tote, which comes last in PATH. Tools run there with \
their own libraries and interpreters. New files directly in / are gone afterwards.

In a session, `tote exec COMMAND` runs a program of the container in the container's own root and environment, and `entrypoint` shows what the \
container runs: `entrypoint --lint` looks for mistakes, `entrypoint --run` runs it.

CONTAINER is the name or the id of a container, of tote or of another engine; or of a pod or an image:

`NAME`
: A container of tote, or else a pod, a container of docker, podman, containerd, systemd-nspawn or LXC, or an image of the store
`pod:NAME`
: The namespaces that the members of a pod share
`image:NAME`
: A throwaway container of an image; tote pulls a missing one
`rootfs:DIR`
: A throwaway container of a directory with a root file system
`docker:NAME`
: A container of docker, in its usual place (/var/lib/docker)
`podman:NAME`
: A container of podman: root's for root, the caller's own for other users
`containerd:[NAMESPACE/]ID`
: A container of containerd, which includes Kubernetes'
`crictl:ID`, `k8s:[NAMESPACE/]POD/CONTAINER`
: A container of Kubernetes, of containerd or CRI-O
`nspawn:NAME`
: A machine of systemd-nspawn
`lxc:NAME`, `lxd:NAME`
: A container of LXC; of LXD or Incus
`command:TEXT`
: The process that has this text in its command
`pid:N`
: The surroundings of any process

A container of tote that does not run is not started: its root is mounted for the session, with a first process that only waits, \
without a network. What the command writes below /target is written to the container, which cannot start meanwhile. With an image, that is \
gone after the session.

In a virtual machine (`run --isolation vm`) the tools are a disk, and all sessions of that machine at a time have the same tools. The container has to run.

The command has the container's filter of system calls: one of the same profile, which docker, podman, containerd and CRI-O leave in a \
file. Where a container of another engine has a filter and no such file, and with `--cap-add`, the command gets tote's default filter.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list("cap-add", "CAPABILITY", "Give the command a capability that the container lacks, or ALL").completes(Completes::Capabilities),
            Opt::value("command", "TEXT", "Let the shell carry out this text").short('c'),
            Opt::value("effective-user", "USER", "Let files that the command makes belong to this user of this machine")
                .details("The command has the ids of the user, and the container's capabilities, so it may do what the container's root may."),
            ENV,
            ENV_FILE,
            Opt::flag("env-of-container", "Give the command the container's environment, except PATH")
                .details("Variables such as LD_PRELOAD decide what the tools run then. `tote exec` in a session has this environment in any case."),
            Opt::list("forward", "SOCKET", "Let the command connect to a Unix socket of this machine: x11, wayland, dbus, ssh-agent or a PATH")
                .details("Only processes of the session are answered. With `x11` the command also gets a cookie of the display. With `--view target` a PATH is below /.tote/.run.")
                .completes(Completes::Words(&["x11", "wayland", "dbus", "ssh-agent"])),
            Opt::flag("forget", "Remove what sessions with --keep have left in CONTAINER, and run nothing"),
            Opt::list("install", "PACKAGE", "Install a package among the tools before COMMAND runs")
                .details("The tools need apt-get, apk or dnf, and the container a way to its packages. In a session, `install PACKAGE...` does the same, and `uninstall PACKAGE...` the reverse."),
            Opt::flag("interactive", "Keep standard input open (the default at a terminal)").short('i'),
            Opt::flag("keep", "Keep what COMMAND writes among the tools, for the next session with --keep and the same tools")
                .details("It is kept with the container, and goes with it; that of another engine's container goes by --forget. A session with more rights \
                    than the container has another layer than one without them."),
            Opt::flag("kept", "List what sessions with --keep have left in CONTAINER: the tools, and a number of bytes"),
            Opt::flag("no-cgroup", "Leave the command in the caller's cgroup")
                .details("The container's limits neither hold for the command nor count it then."),
            Opt::list("port-forward", "[[ADDRESS:]PORT:]PORT", "Pass connections to a port of this machine on to a port of the container")
                .details("The port need not be published. ADDRESS is 127.0.0.1 by default, and the port here is that of the container."),
            PRIVILEGED,
            Opt::flag("quiet", "Do not show how a pull goes").short('q'),
            Opt::value("shell", "SHELL", "Start this shell of the tools: auto, bash, fish, sh or zsh")
                .default("auto")
                .completes(Completes::Words(&DEBUG_SHELLS)),
            Opt::value("tools", "IMAGE", "Take the tools from this image, or from elsewhere")
                .details("`host` is this machine, `/DIR`, `./DIR` or `rootfs:DIR` a directory with a root file system, and `container:NAME` another container.")
                .default("host")
                .completes(Completes::Images),
            Opt::flag("tty", "Give the command a terminal of its own (the default at a terminal)").short('t'),
            Opt::value("user", "USER[:GROUP]", "Run as this user and group of the container, by name or number").short('u'),
            Opt::value("view", "VIEW", "Show the tools as the root (tools), or the container's own tree (target)")
                .aliases(&["root"])
                .details("With `tools` the container is in /target, with `target` the tools are in /.tote. `--root target` is the same as \
                    `--view target`; the `--root` that names a directory for containers stands before the word debug.")
                .default("tools")
                .completes(Completes::Words(&["tools", "target"])),
            Opt::value("workdir", "DIR", "Start the command in this directory, among the tools or below /target").short('w').default("/"),
        ],
    }, &PULLING],
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
        Example { about: "The files of an image, or of a container that does not run", line: "tote debug -c 'ls -l /target/etc' image:nginx" },
        Example { about: "A port that was never published", line: "tote debug --port-forward 8080:80 web" },
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
    ..Command::new("debug", "Run a command in a container with tools of its own", |parsed| sealed(parsed, debug::debug))
};
