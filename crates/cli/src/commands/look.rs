//! Commands that show containers.

use super::repeated::{CONTAINER, CONTAINERS, FORMAT, LATEST, word};
use crate::{exit, look};
use tote_options::{Command, Completes, Example, ExitStatus, Group, Opt, Positional, Section};

const LIST: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Shows the containers that run, the newest first. With `table` templates there are more columns: `Pid`, `Driver`, \
`Rootfs` (the directory or the disk that it writes to), `IP`, `Health`, `ExitCode`, `Pod`, `PodName`, `Mounts`, `Networks`, `Labels` and \
`Label \"KEY\"`.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Also show containers that do not run").short('a'),
            Opt::list("filter", "KEY=VALUE", "Show only containers that match this filter")
                .short('f')
                .details(
                    "\
`id`, `name` (a pattern), `label` (`KEY` or `KEY=VALUE`), `status` (created, running, paused, restarting, removing, \
exited, stopped, dead), `exited` (an exit code), `health` (starting, healthy, unhealthy, none), `ancestor` (an image), `before` \
and `since` (a container), `volume` (a name or a path), `network`, `expose` (`PORT[-PORT][/PROTOCOL]`), `publish`, `pod`, `restart-policy`, `should-start-on-boot` (true, false). Of several values for one key one must apply, \
of labels all.",
                ),
            FORMAT,
            Opt::value("last", "N", "Show the newest N containers in any state").short('n'),
            super::accepted::EXTERNAL,
            Opt::flag("latest", "Show the newest container in any state").short('l'),
            Opt::flag("no-trunc", "Do not shorten ids and commands"),
            NOHEADING,
            Opt::flag("ns", "Show the namespaces of each container by their numbers"),
            Opt::value("sort", "KEY", "Sort by this: command, created, id, image, names, runningfor, size or status")
                .completes(Completes::Words(&["command", "created", "id", "image", "names", "runningfor", "size", "status"])),
            Opt::flag("pod", "Also show the pod of each container").short('p'),
            Opt::flag("quiet", "Print only ids").short('q'),
            Opt::flag("size", "Also show the size of the writable layer, and with the image").short('s'),
        ],
    }],
    examples: &[
        Example { about: "All containers, with process id and driver", line: "tote ps -a --format 'table {{.Names}}\\t{{.Pid}}\\t{{.Status}}\\t{{.Driver}}\\t{{.Rootfs}}\\t{{.IP}}'" },
        Example { about: "Remove containers that ended with exit code 0", line: "tote rm $(tote ps -qf exited=0 -f status=exited)" },
    ],
    ..Command::new("ps", "List containers", |parsed| exit::own(look::ps(parsed)))
};

/// `tote ps`.
pub(crate) static PS: Command = LIST;

/// `tote container ls`.
pub(crate) static CONTAINER_LS: Command = Command {
    name: "ls",
    aliases: &["list", "ps"],
    ..LIST
};

/// `--noheading` of podman's.
pub(super) const NOHEADING: Opt = Opt::flag("noheading", "Leave out the headings of the table");

const OBJECT: Positional = Positional {
    name: "NAME",
    ..CONTAINERS
};

/// `--format` of every command that prints descriptions.
pub(super) const DESCRIPTION: Opt = Opt::value(
    "format",
    "FORMAT",
    "Format by a Go template, or json for one line per object",
)
.short('f')
.completes(Completes::Words(&["json"]));
const SIZES: Opt = Opt::flag("size", "Also count the size of a container's writable layer").short('s');

/// `tote inspect`.
pub(crate) static INSPECT: Command = Command {
    usage: "[OPTIONS] NAME [NAME...]",
    details: "\
Prints all that is known, as JSON in docker's fields. NAME is a container, or else an image, a network, a volume, or a pod.",
    options: &[&Group {
        title: "",
        options: &[
            DESCRIPTION,
            SIZES,
            Opt::value(
                "type",
                "TYPE",
                "Search only objects of this type: container, image, network, volume or pod",
            )
            .short('t')
            .completes(Completes::Words(&[
                "container",
                "image",
                "network",
                "volume",
                "pod",
            ])),
            LATEST,
        ],
    }],
    positionals: &[OBJECT],
    examples: &[
        Example {
            about: "The process id of a container",
            line: "tote inspect -f '{{.State.Pid}}' web",
        },
        Example {
            about: "The mounts of a container",
            line: "tote inspect -f '{{json .Mounts}}' web",
        },
    ],
    exit_status: &[
        ExitStatus {
            status: "0",
            about: "All objects were found",
        },
        ExitStatus {
            status: "1",
            about: "An object was not found; the others are printed",
        },
    ],
    ..Command::new(
        "inspect",
        "Print details of containers, images, networks, volumes and pods",
        |parsed| exit::refused(look::inspect(parsed)),
    )
};

/// `tote container inspect`.
pub(crate) static CONTAINER_INSPECT: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    options: &[&Group {
        title: "",
        options: &[DESCRIPTION, SIZES, LATEST],
    }],
    positionals: &[CONTAINERS],
    ..Command::new("inspect", "Print details of containers, as JSON", |parsed| {
        exit::own(look::inspect_containers(parsed))
    })
};

const STREAM: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Prints a line for each thing that happens to containers, images, volumes and pods, as it happens. With `--since` or `--until` also \
what happened before; with `--until` it ends then.

A time is a duration before now (`10m`, `1h30m`), a date as RFC 3339 has it, or seconds since 1970.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list("filter", "KEY=VALUE", "Show only events that match this filter").short('f').details(
                "`type` (container, image, volume, builder, pod), `event` (create, start, die, destroy, prune and so on), `container`, \
                 `image`, `volume`, `network`, `pod`, `label`, `scope`. Of several values for one key one must apply, of labels all.",
            ),
            Opt::value("format", "FORMAT", "Print json or a Go template for each event")
                .completes(Completes::Words(&["json"]))
                .details("The fields are `Type`, `Action`, `ID`, `From`, `Status`, `Time`, `TimeNano`, `Actor.ID` and `Actor.Attributes`."),
            Opt::value("since", "TIME", "Show events since TIME"),
            Opt::flag("stream", "Wait for further events, as is usual; --stream=false ends after past ones"),
            Opt::value("until", "TIME", "End then"),
        ],
    }],
    examples: &[Example {
        about: "Containers that failed today",
        line: "tote events --since 24h --until 0s -f event=die --format '{{.Actor.Attributes.name}} {{.Actor.Attributes.exitCode}}'",
    }],
    ..Command::new("events", "Print events as they happen", |parsed| exit::own(look::events(parsed)))
};

/// `tote events`.
pub(crate) static EVENTS: Command = STREAM;
/// `tote system events`.
pub(crate) static SYSTEM_EVENTS: Command = STREAM;

/// `tote port`.
pub(crate) static PORT: Command = Command {
    usage: "[OPTIONS] CONTAINER [PORT[/PROTOCOL]]\nCOMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&PORT_ADD, &PORT_RM],
    }],
    details: "\
Prints a line for each port of a container that a port of this machine leads to, and with `PORT` only the machine's address and \
port. A container that does not run has none, and with `--network host` a container's ports are this machine's own.",
    options: &[&Group {
        title: "",
        options: &[LATEST],
    }],
    positionals: &[CONTAINER, word("PORT", false, false)],
    ..Command::new("port", "List the published ports of a container", |parsed| {
        exit::own(look::port(parsed))
    })
};

static PORT_ADD: Command = Command {
    usage: "--publish [[ADDRESS:][PORT]:]PORT[/PROTOCOL] CONTAINER",
    details: "\
A port of a running container leads to it at once, and a line says how. A container that does not run has the port from its next \
start on.",
    options: &[&Group {
        title: "",
        options: &[Opt::list(
            "publish",
            "[[ADDRESS:][PORT]:]PORT[/PROTOCOL]",
            "Publish a port of the container at this port of the host",
        )
        .short('p')],
    }],
    positionals: &[CONTAINER],
    examples: &[Example {
        about: "Another port of a container that runs",
        line: "tote port add -p 8443:443 web",
    }],
    ..Command::new("add", "Publish more ports of a container", |parsed| {
        exit::own(look::add_ports(parsed))
    })
};

static PORT_RM: Command = Command {
    aliases: &["remove"],
    usage: "CONTAINER [[ADDRESS:][PORT]:]PORT[/PROTOCOL]...",
    details: "\
`80` is port 80 of the container, whatever ports of the host lead there; `8080:80` only the host's 8080. Connections that are there \
go on.",
    positionals: &[CONTAINER, word("PORT", true, true)],
    examples: &[Example {
        about: "A port of the host that leads nowhere any more",
        line: "tote port rm web 8443:443",
    }],
    ..Command::new("rm", "Publish ports of a container no more", |parsed| {
        exit::own(look::remove_ports(parsed))
    })
};

/// `tote ls`.
pub(crate) static LS: Command = Command {
    usage: "",
    details: "\
Prints NAME, DEVICE, MOUNTPOINT and STATUS of every container. The device is the disk's file under the driver loop, \
else the driver; the mount point is where the container's tree is to be seen while it runs.",
    ..Command::new(
        "ls",
        "List containers with their devices and mount points",
        |parsed| exit::own(look::ls(parsed)),
    )
};

/// `tote init`.
pub(crate) static INIT: Command = Command {
    usage: "",
    details: "\
Makes the directories below `--root` and says what is there. Nothing needs it: every command makes them when they are \
missing. Doing it again changes nothing.",
    ..Command::new(
        "init",
        "Prepare the state root and show what it holds",
        |parsed| exit::own(look::init(parsed)),
    )
};
