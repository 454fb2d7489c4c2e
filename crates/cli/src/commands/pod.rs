//! `tote pod …`.

use super::image::FORMAT;
use super::look::DESCRIPTION;
use super::{isolation, life, limits, word};
use tote_options::{Command, Completes, Example, ExitStatus, Group, Opt, Parsing, Positional, Section};

const POD: Positional = Positional {
    name: "POD",
    required: true,
    many: false,
    completes: Completes::Pods,
};

/// The pods that a command is about; optional, because options may name them.
const PODS: Positional = Positional {
    required: false,
    many: true,
    ..POD
};

const CGROUP_PARENT: Opt = Opt::value(
    "cgroup-parent",
    "PATH",
    "Make the cgroup of the pod below this one",
)
.details("Limits are those of all containers of the pod together, whose cgroups lie in that of the pod.");

/// The single pod that a command is about; optional, because `--latest` may name it.
const ONE: Positional = Positional {
    required: false,
    ..POD
};

const ALL: Opt = Opt::flag("all", "All pods").short('a');
const LATEST: Opt = Opt::flag("latest", "The pod that was created last").short('l');
const IGNORE: Opt = Opt::flag("ignore", "Let pass what is not there").short('i');
const ID_FILE: Opt =
    Opt::list("pod-id-file", "FILE", "Read the id of a pod from this file").completes(Completes::File);

/// `tote pod`.
pub(crate) static COMMAND: Command = Command {
    usage: "COMMAND",
    details: "\
A pod is a group of containers that share namespaces and are started, stopped and removed together; the commands are \
podman's. `tote run --pod NAME` and `tote create --pod NAME` make members, `--pod new:NAME` makes the pod, too. \
The namespaces are kept by one container more, the infra container, which only waits.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[
            &CREATE, &EXISTS, &INSPECT, &KILL, &LOGS, &PAUSE, &PRUNE, &PS, &RESTART, &RM, &START, &STATS,
            &STOP, &TOP, &UNPAUSE,
        ],
    }],
    ..Command::new("pod", "Work with pods")
};

static CREATE: Command = Command {
    absent: super::absent::OF_POD,
    usage: "[OPTIONS] [NAME]",
    details: "\
Prints its id. Members come by `tote run --pod` and `tote create --pod`; `tote pod start` starts them. What belongs to a \
shared namespace is said here and not of members: the host name, lines of /etc/hosts, kernel parameters.",
    options: &[
        &Group {
            title: "",
            options: &[
                Opt::value(
                    "name",
                    "NAME",
                    "Give the pod this name; it may also be given as the last word",
                )
                .short('n'),
                Opt::flag("replace", "Remove the pod that has the name now, if there is one"),
                Opt::list("label", "KEY[=VALUE]", "Put this label on the pod").short('l'),
                Opt::list(
                    "label-file",
                    "FILE",
                    "Put the labels on the pod that are in this file, one on each line",
                )
                .completes(Completes::File),
                Opt::value(
                    "exit-policy",
                    "POLICY",
                    "When the last container has ended: continue, or stop with it",
                )
                .default("continue")
                .completes(Completes::Words(&["continue", "stop"])),
                Opt::value(
                    "share",
                    "NAMESPACES",
                    "Share these: ipc, net, pid, uts or none, with commas",
                )
                .default("ipc,net,uts")
                .completes(Completes::Words(&["ipc", "net", "pid", "uts", "none"]))
                .details("With `+` in front these are shared beside the usual ones: `+pid`."),
                Opt::flag(
                    "infra",
                    "Make a container that keeps the namespaces (the default; --infra=false shares nothing)",
                ),
                Opt::value("infra-name", "NAME", "Give that container this name")
                    .details("Where it is not given: the pod's short id and `-infra`."),
                Opt::value(
                    "pod-id-file",
                    "FILE",
                    "Write the pod's id to this file, which must not exist",
                )
                .completes(Completes::File),
            ],
        },
        &Group {
            title: "Namespace",
            options: &[
                Opt::value("hostname", "NAME", "Set the host name of the members")
                    .details("Where it is not given: the pod's name."),
                Opt::value("pid", "MODE", "See processes of: private, host")
                    .completes(Completes::Words(&["private", "host"])),
                Opt::value("uts", "MODE", "Use the host name of: private, host")
                    .completes(Completes::Words(&["private", "host"])),
                Opt::value("userns", "MODE", "Map user ids as: host, keep-id")
                    .completes(Completes::Words(&["host", "keep-id"])),
                Opt::list(
                    "sysctl",
                    "KEY=VALUE",
                    "Set this kernel parameter of the namespaces",
                ),
                Opt::value(
                    "shm-size",
                    "SIZE",
                    "Limit the /dev/shm of the members to this size; b, k, m and g may follow the number",
                ),
            ],
        },
        &Group {
            title: "Resource",
            options: &[
                limits::CPUS,
                limits::CPU_SHARES,
                limits::CPUSET_CPUS,
                limits::CPUSET_MEMS,
                limits::MEMORY,
                limits::MEMORY_SWAP,
                CGROUP_PARENT,
            ],
        },
        &isolation::NETWORK,
    ],
    positionals: &[word("NAME", false, false)],
    examples: &[Example {
        about: "A server and a program that talks to it on one loopback interface",
        line: "tote pod create shop && tote run -d --pod shop nginx && tote run --rm --pod shop alpine wget -qO- localhost",
    }],
    ..Command::new("create", "Create a pod")
};

static EXISTS: Command = Command {
    usage: "POD",
    details: "Prints nothing.",
    positionals: &[POD],
    exit_status: &[
        ExitStatus {
            status: "0",
            about: "There is such a pod",
        },
        ExitStatus {
            status: "1",
            about: "There is none",
        },
    ],
    ..Command::new("exists", "Tell by the exit status whether there is such a pod")
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    options: &[&Group {
        title: "",
        options: &[DESCRIPTION, LATEST],
    }],
    positionals: &[PODS],
    ..Command::new("inspect", "Print what is known of pods, as JSON")
};

static KILL: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value("signal", "SIGNAL", "Send this signal")
                .short('s')
                .default("SIGKILL")
                .completes(Completes::Signals),
            ALL,
            LATEST,
        ],
    }],
    positionals: &[PODS],
    ..Command::new(
        "kill",
        "Send a signal to the first process of each container of pods",
    )
};

static SOME: Group = Group {
    title: "",
    options: &[ALL, LATEST],
};

static PAUSE: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    options: &[&SOME],
    positionals: &[PODS],
    ..Command::new("pause", "Stop all processes of pods where they are")
};

static UNPAUSE: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    options: &[&SOME],
    positionals: &[PODS],
    ..Command::new("unpause", "Let the processes of pods go on")
};

static RESTART: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    options: &[&SOME],
    positionals: &[PODS],
    ..Command::new("restart", "Stop pods, and start them again")
};

static PRUNE: Command = Command {
    usage: "[OPTIONS]",
    details: "Removes the pods whose containers have all ended, with these containers.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("force", "Do not ask").short('f')],
    }],
    ..Command::new("prune", "Remove pods that have ended")
};

static LOGS: Command = Command {
    usage: "[OPTIONS] POD",
    details: "\
Prints what the containers of the pod have written: by their times, and with `--follow` as it comes. Where they are \
several, the id of its container is in front of each line. The times of `--since` and `--until` are as those of `tote logs`.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list("container", "CONTAINER", "Show only what this one has written")
                .short('c')
                .completes(Completes::Containers),
            Opt::flag("follow", "Go on with what is added, until all have ended").short('f'),
            LATEST,
            Opt::flag("names", "Print the containers' names in place of their ids").short('n'),
            Opt::value("since", "TIME", "Show what is not older"),
            Opt::value("tail", "NUMBER", "Show so many lines from the end of each log").default("-1"),
            Opt::flag("timestamps", "Print the time of each line").short('t'),
            Opt::value("until", "TIME", "Show what is not newer"),
        ],
    }],
    positionals: &[ONE],
    ..Command::new("logs", "Print what the containers of a pod have written")
};

static STATS: Command = Command {
    usage: "[OPTIONS] [POD...]",
    details: "\
Shows what the running containers of pods use, again and again; of all pods where none is named. The figures are those of \
`tote stats`.",
    options: &[&Group {
        title: "",
        options: &[
            ALL,
            Opt::value(
                "format",
                "FORMAT",
                "Print JSON, or what this Go template makes of each container",
            )
            .completes(Completes::Words(&["json", "table"]))
            .details(
                "Fields are .Pod, .CID, .Name, .CPU, .MemUsage, .Mem, .NetIO, .BlockIO, .PIDS and .Sums.",
            ),
            LATEST,
            Opt::flag("no-reset", "Print one table below the other, also on a terminal"),
            Opt::flag("no-stream", "Show them once"),
        ],
    }],
    positionals: &[PODS],
    ..Command::new("stats", "Show what the containers of pods use")
};

static TOP: Command = Command {
    usage: "[OPTIONS] POD [PS OPTIONS|COLUMN...]",
    details: "What is shown of each process is chosen as for `tote top`.",
    options: &[&Group {
        title: "",
        options: &[LATEST],
    }],
    positionals: &[ONE, word("COLUMN", false, true)],
    parsing: Parsing::StopAtFirstPositional,
    ..Command::new("top", "Show the processes of a pod")
};

static PS: Command = Command {
    usage: "[OPTIONS]",
    aliases: &["ls", "list"],
    details: "\
STATUS is `Created` (no container was started yet), `Running` (all run), `Degraded` (some run, or run in namespaces of an infra container that has ended), `Paused`, `Exited` (all \
have ended), `Stopped` (none runs, and some were never started), `Error` or, while it is being removed, `Dead`.

Fields of templates: `ID`, `Name`, `Status`, `Created`, `InfraID`, `NumberOfContainers`, `ContainerIds`, `ContainerNames`, \
`ContainerStatuses`, `Labels`, `Label \"KEY\"`, `Networks`, `Restarts`, `Namespace`, `Cgroup`.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("ctr-ids", "Show the ids of the containers"),
            Opt::flag("ctr-names", "Show the names of the containers"),
            Opt::flag("ctr-status", "Show how the containers are doing"),
            Opt::list("filter", "KEY=VALUE", "Show only pods to which this applies")
                .short('f')
                .details(
                    "`id`, `name` (a pattern), `label` (`KEY` or `KEY=VALUE`), `label!`, `status`, `ctr-ids`, `ctr-names`, \
                     `ctr-number`, `ctr-status`, `network`, `until` (a time). Of several values for one key one must apply, of labels all.",
                ),
            FORMAT,
            LATEST,
            Opt::flag("no-trunc", "Print whole ids"),
            Opt::flag("noheading", "Print no headings").short('n'),
            Opt::flag("ns", "Show which namespaces are shared"),
            Opt::flag("quiet", "Print only ids").short('q'),
            Opt::value("sort", "FIELD", "Order by created, id, name, number or status")
                .default("created")
                .completes(Completes::Words(&["created", "id", "name", "number", "status"])),
        ],
    }],
    examples: &[Example {
        about: "The pods that do not run wholly",
        line: "tote pod ps -f status=degraded --ctr-names --ctr-status",
    }],
    ..Command::new("ps", "List pods")
};

static RM: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    details: "Removes pods with all their containers, and prints their ids. One with a container that runs is refused without `--force`.",
    options: &[&Group {
        title: "",
        options: &[
            ALL,
            Opt::flag(
                "force",
                "Kill the containers that run, and let pass what is not there",
            )
            .short('f'),
            IGNORE,
            LATEST,
            ID_FILE,
            Opt::value(
                "time",
                "SECONDS",
                "With --force, ask the containers to end, and kill them so long after; -1 for never",
            )
            .short('t'),
        ],
    }],
    positionals: &[PODS],
    ..Command::new("rm", "Remove pods")
};

static START: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    details: "\
Starts the infra container, and then all others that do not run. One that has outlived the infra container stays in the \
old namespaces, with a warning: `tote pod restart` brings all together.",
    options: &[&Group {
        title: "",
        options: &[ALL, LATEST, ID_FILE],
    }],
    positionals: &[PODS],
    ..Command::new("start", "Start the containers of pods")
};

static STOP: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    details: "All containers of a pod are asked to end before the first is waited for; the infra container goes last.",
    options: &[&Group {
        title: "",
        options: &[ALL, IGNORE, LATEST, life::TIME, ID_FILE],
    }],
    positionals: &[PODS],
    ..Command::new("stop", "Stop the containers of pods")
};
