//! `tote pod …`.

use super::look::DESCRIPTION;
use super::repeated::{FORMAT, word};
use super::{isolation, life, limits};
use crate::seal::sealed;
use crate::{exit, pod, tell};
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
    "Create the cgroup of the pod below this one",
)
.details("Limits apply to all containers of the pod together: their cgroups are below that of the pod.");

/// The single pod that a command is about; optional, because `--latest` may name it.
const ONE: Positional = Positional {
    required: false,
    ..POD
};

const ALL: Opt = Opt::flag("all", "All pods").short('a');
const LATEST: Opt = Opt::flag("latest", "The pod that was created last").short('l');
const IGNORE: Opt = Opt::flag("ignore", "Ignore containers that do not exist").short('i');
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
    ..Command::new("pod", "Work with pods", tell::help)
};

static CREATE: Command = Command {
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
                    "Name of the pod; the last argument may give it as well",
                )
                .short('n'),
                Opt::flag("replace", "Remove an existing pod of this name first"),
                Opt::list("label", "KEY[=VALUE]", "Put this label on the pod").short('l'),
                Opt::list(
                    "label-file",
                    "FILE",
                    "Read labels of the pod from this file, one per line",
                )
                .completes(Completes::File),
                Opt::value(
                    "exit-policy",
                    "POLICY",
                    "Exit policy after the last container has ended: continue or stop",
                )
                .default("continue")
                .completes(Completes::Words(&["continue", "stop"])),
                Opt::value(
                    "share",
                    "NAMESPACES",
                    "Namespaces to share, separated by commas: ipc, net, pid, uts or none",
                )
                .default("ipc,net,uts")
                .completes(Completes::Words(&["ipc", "net", "pid", "uts", "none"]))
                .details("A leading `+` adds to the default namespaces: `+pid`."),
                Opt::flag(
                    "infra",
                    "Create an infra container that keeps the namespaces; --infra=false shares nothing",
                ),
                super::accepted::INFRA_COMMAND,
                super::accepted::INFRA_IMAGE,
                Opt::value("infra-name", "NAME", "Name of the infra container")
                    .details("The default is the pod's short id and `-infra`."),
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
                isolation::ISOLATION,
                Opt::value("hostname", "NAME", "Set the host name of the members")
                    .details("The default is the pod's name."),
                Opt::value("pid", "MODE", "PID namespace: private or host")
                    .completes(Completes::Words(&["private", "host"])),
                Opt::value("uts", "MODE", "UTS namespace: private or host")
                    .completes(Completes::Words(&["private", "host"])),
                Opt::value("userns", "MODE", "User namespace: host or keep-id")
                    .completes(Completes::Words(&["host", "keep-id"])),
                Opt::list(
                    "sysctl",
                    "KEY=VALUE",
                    "Set this kernel parameter of the namespaces",
                ),
                Opt::value(
                    "shm-size",
                    "SIZE",
                    "Limit the /dev/shm of the members to this size; the units are b, k, m and g",
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
    ..Command::new("create", "Create a pod", |parsed| {
        sealed(parsed, |parsed| exit::own(pod::create(parsed)))
    })
};

static EXISTS: Command = Command {
    usage: "POD",
    details: "Prints nothing.",
    positionals: &[POD],
    exit_status: &[
        ExitStatus {
            status: "0",
            about: "The pod exists",
        },
        ExitStatus {
            status: "1",
            about: "The pod does not exist",
        },
    ],
    ..Command::new("exists", "Tell by the exit code whether a pod exists", |parsed| {
        exit::own(pod::exists(parsed))
    })
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    options: &[&Group {
        title: "",
        options: &[DESCRIPTION, LATEST],
    }],
    positionals: &[PODS],
    ..Command::new("inspect", "Print details of pods, as JSON", |parsed| {
        exit::own(pod::inspect(parsed))
    })
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
        |parsed| exit::own(pod::kill(parsed)),
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
    ..Command::new("pause", "Pause all processes of pods", |parsed| {
        exit::own(pod::pause(parsed))
    })
};

static UNPAUSE: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    options: &[&SOME],
    positionals: &[PODS],
    ..Command::new("unpause", "Resume the processes of pods", |parsed| {
        exit::own(pod::unpause(parsed))
    })
};

static RESTART: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    options: &[&SOME],
    positionals: &[PODS],
    ..Command::new("restart", "Stop pods, and start them again", |parsed| {
        sealed(parsed, |parsed| exit::own(pod::restart(parsed)))
    })
};

static PRUNE: Command = Command {
    usage: "[OPTIONS]",
    details: "Removes the pods whose containers have all ended, with these containers.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("force", "Do not ask for confirmation").short('f')],
    }],
    ..Command::new("prune", "Remove pods that have ended", |parsed| {
        exit::own(pod::prune(parsed))
    })
};

static LOGS: Command = Command {
    usage: "[OPTIONS] POD",
    details: "\
Prints what the containers of the pod have written: by their times, and with `--follow` as it comes. Where they are \
several, the id of its container is in front of each line. The times of `--since` and `--until` are as those of `tote logs`.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list("container", "CONTAINER", "Show only the log of this container")
                .short('c')
                .completes(Completes::Containers),
            Opt::flag("follow", "Follow the logs until all containers have ended").short('f'),
            LATEST,
            Opt::flag("names", "Print names of containers instead of ids").short('n'),
            Opt::value("since", "TIME", "Show log lines since TIME"),
            Opt::value("tail", "NUMBER", "Show this many lines from the end of each log").default("-1"),
            Opt::flag("timestamps", "Show the time of each line").short('t'),
            Opt::value("until", "TIME", "Show log lines until TIME"),
        ],
    }],
    positionals: &[ONE],
    ..Command::new("logs", "Print the logs of a pod's containers", |parsed| {
        exit::own(pod::logs(parsed))
    })
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
                "Format each container as json, or by a Go template",
            )
            .completes(Completes::Words(&["json", "table"]))
            .details(
                "Fields are .Pod, .CID, .Name, .CPU, .MemUsage, .Mem, .NetIO, .BlockIO, .PIDS and .Sums.",
            ),
            LATEST,
            Opt::flag("no-reset", "Do not clear the terminal between tables"),
            Opt::flag("no-stream", "Print the figures once and end"),
        ],
    }],
    positionals: &[PODS],
    ..Command::new("stats", "Show the resource usage of pods", |parsed| {
        exit::own(pod::stats(parsed))
    })
};

static TOP: Command = Command {
    usage: "[OPTIONS] POD [PS OPTIONS|COLUMN...]",
    details: "Columns are chosen as for `tote top`.",
    options: &[&Group {
        title: "",
        options: &[LATEST],
    }],
    positionals: &[ONE, word("COLUMN", false, true)],
    parsing: Parsing::StopAtFirstPositional,
    ..Command::new("top", "Show the processes of a pod", |parsed| {
        exit::own(pod::top(parsed))
    })
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
            Opt::flag("ctr-status", "Show the states of the containers"),
            Opt::list("filter", "KEY=VALUE", "Show only pods that match this filter")
                .short('f')
                .details(
                    "`id`, `name` (a pattern), `label` (`KEY` or `KEY=VALUE`), `label!`, `status`, `ctr-ids`, `ctr-names`, \
                     `ctr-number`, `ctr-status`, `network`, `until` (a time). Of several values for one key one must apply, of labels all.",
                ),
            FORMAT,
            LATEST,
            Opt::flag("no-trunc", "Do not shorten ids"),
            Opt::flag("noheading", "Print no headings").short('n'),
            Opt::flag("ns", "Show which namespaces are shared"),
            Opt::flag("quiet", "Print only ids").short('q'),
            Opt::value("sort", "FIELD", "Sort by created, id, name, number or status")
                .default("created")
                .completes(Completes::Words(&["created", "id", "name", "number", "status"])),
        ],
    }],
    examples: &[Example {
        about: "Pods with containers that do not run",
        line: "tote pod ps -f status=degraded --ctr-names --ctr-status",
    }],
    ..Command::new("ps", "List pods", |parsed| exit::own(pod::ps(parsed)))
};

static RM: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    details: "Removes pods with all their containers, and prints their ids. A pod with a running container needs `--force`.",
    options: &[&Group {
        title: "",
        options: &[
            ALL,
            Opt::flag(
                "force",
                "Kill running containers, and ignore pods that do not exist",
            )
            .short('f'),
            IGNORE,
            LATEST,
            ID_FILE,
            Opt::value(
                "time",
                "SECONDS",
                "With --force, seconds from the stop signal to SIGKILL; -1 never kills",
            )
            .short('t'),
        ],
    }],
    positionals: &[PODS],
    ..Command::new("rm", "Remove pods", |parsed| exit::own(pod::remove(parsed)))
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
    ..Command::new("start", "Start the containers of pods", |parsed| {
        sealed(parsed, |parsed| exit::own(pod::start(parsed)))
    })
};

static STOP: Command = Command {
    usage: "[OPTIONS] POD [POD...]",
    details: "All containers of a pod get the stop signal before tote waits for the first; the infra container ends last.",
    options: &[&Group {
        title: "",
        options: &[ALL, IGNORE, LATEST, life::TIME, ID_FILE],
    }],
    positionals: &[PODS],
    ..Command::new("stop", "Stop the containers of pods", |parsed| {
        exit::own(pod::stop(parsed))
    })
};
