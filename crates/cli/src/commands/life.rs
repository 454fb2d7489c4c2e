//! Commands that start, stop, change and remove containers.

use super::attach::{DETACH_KEYS, SIG_PROXY};
use super::{ALL as EVERY, ANY_CONTAINERS, CONTAINER as ONE, CONTAINERS, IS_THERE, LATEST, limits, word};
use tote_options::{Command, Completes, Example, Group, Opt, Section};

const ATTACH: Opt = Opt::list("attach", "STREAM", "Attach only this of stdin, stdout and stderr")
    .short('a')
    .completes(Completes::Words(&["stdin", "stdout", "stderr"]));

/// `--attach` for a container that is created but not started.
pub(crate) static TO_ATTACH: Group = Group {
    title: "Attaching",
    options: &[
        ATTACH.details("It is only noted, as docker does: `tote start -a` attaches what there is to see.")
    ],
};

/// Options about attaching to a container at its start.
pub(crate) static ATTACHING: Group = Group {
    title: "Attaching",
    options: &[
        Opt::flag(
            "detach",
            "Leave the container running in the background and print its id",
        )
        .short('d'),
        ATTACH,
        DETACH_KEYS,
        SIG_PROXY,
        Opt::value(
            "pidfile",
            "FILE",
            "Write the process id of the container's first process to this file",
        )
        .completes(Completes::File),
    ],
};

/// Options about restarts and logs.
pub(crate) static AFTER: Group = Group {
    title: "Restart and log",
    options: &[
        RESTART,
        SDNOTIFY,
        Opt::value(
            "log-driver",
            "DRIVER",
            "Keep what the container says with this driver: json-file, local, k8s-file or none",
        )
        .default("json-file"),
        Opt::list(
            "log-opt",
            "KEY=VALUE",
            "Keep it this way: max-size, max-file, labels, env, tag",
        )
        .details(
            "Applies to containers that have a log: all but those of `tote run --rm` without `-d`. Sizes are in powers of 1000. \
             The driver local is json-file with 5 files of 20 MiB where nothing else is said.",
        ),
    ],
};

const RESTART: Opt = Opt::value(
    "restart",
    "POLICY",
    "Start the container again when it ends: no, on-failure[:N], always or unless-stopped",
)
.default("no")
.details("The wait before it is 100 ms, and twice as long each time, up to a minute. A container that was stopped stays so.");

const SDNOTIFY: Opt = Opt::value(
    "sdnotify",
    "WHO",
    "Let this tell the host's init that the container is ready: container, conmon, healthy or ignore",
)
.completes(Completes::Words(&["container", "conmon", "healthy", "ignore"]))
.details(
    "\
Counts where `NOTIFY_SOCKET` is set, as in a systemd unit of `Type=notify`. Sockets that the init has for the unit \
(`LISTEN_FDS`) are passed on in any case.

`container`
: the program, by sd_notify(3); the default. It finds its socket in `/run/notify`
`conmon`
: tote, as soon as the program runs
`healthy`
: tote, as soon as a health check has succeeded
`ignore`
: nothing",
);

const ALL: Opt = Opt::flag(
    "all",
    "Do so with all containers, or with all that fit the filters",
);

const FILTER: Opt = Opt::list(
    "filter",
    "KEY=VALUE",
    "Do so with all containers to which this applies",
)
.short('f')
.details("The keys are those of `tote ps`, such as `restart-policy=always` and `should-start-on-boot=true`.");

const CIDFILE: Opt = Opt::list(
    "cidfile",
    "FILE",
    "Do so with the container whose id is in this file",
)
.completes(Completes::File);

const IGNORE: Opt = Opt::flag("ignore", "Let pass what is not there").short('i');

/// `tote start`.
pub(crate) static START: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "Prints the name of each as it was given. With `-a` it is attached to, and the exit status is the container's.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("attach", "Attach standard output and error, and pass signals on").short('a'),
            Opt::flag("interactive", "Attach standard input").short('i'),
            DETACH_KEYS,
            SIG_PROXY,
            SDNOTIFY,
            ALL,
            FILTER,
            LATEST,
        ],
    }],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("start", "Start containers that were created or have ended")
};

pub(super) const TIME: Opt = Opt::value(
    "time",
    "SECONDS",
    "Kill the container this long after the signal; -1 for never",
)
.short('t')
.aliases(&["timeout"])
.details("Where it is not given: what `--stop-timeout` said when the container was created, or 10.");

const SIGNAL: Opt = Opt::value(
    "signal",
    "SIGNAL",
    "Send this signal in place of the container's stop signal",
)
.short('s')
.completes(Completes::Signals);

static STOPPING: Group = Group {
    title: "",
    options: &[SIGNAL, TIME],
};

/// podman's options for naming containers.
static WHICH: Group = Group {
    title: "Selection",
    options: &[EVERY, LATEST],
};

/// `tote stop`.
pub(crate) static STOP: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "All are asked to end before the first is waited for. One that does not run is no error.",
    options: &[
        &STOPPING,
        &Group {
            title: "Selection",
            options: &[ALL.short('a'), FILTER, CIDFILE, IGNORE, LATEST],
        },
    ],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("stop", "End containers: a signal, some time, then SIGKILL")
};

/// `tote restart`.
pub(crate) static RESTART_COMMAND: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    options: &[&STOPPING, &WHICH],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("restart", "Stop containers, and start them again")
};

/// `tote kill`.
pub(crate) static KILL: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    options: &[
        &Group {
            title: "",
            options: &[Opt::value("signal", "SIGNAL", "Send this signal")
                .short('s')
                .default("SIGKILL")
                .completes(Completes::Signals)],
        },
        &WHICH,
    ],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("kill", "Send a signal to the first process of containers")
};

/// `tote rm`.
pub(crate) static RM: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "All that run are killed before the first is waited for.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("force", "Kill the containers that run").short('f'),
            TIME.details("Only with `--force`, which kills at once where this is not given."),
            EVERY,
            Opt {
                short: None,
                ..LATEST
            },
            Opt::flag("volumes", "Remove also their volumes that nobody named").short('v'),
            CIDFILE,
            IGNORE,
            Opt::flag(
                "link",
                "Refused for every container, as docker does: none has a link that could be removed",
            )
            .short('l'),
        ],
    }],
    positionals: &[ANY_CONTAINERS],
    examples: &[Example {
        about: "All of them",
        line: "tote rm -fa",
    }],
    ..Command::new("rm", "Remove containers")
};

/// `tote wait`.
pub(crate) static WAIT: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "Waits for one after the other, and prints the exit code of each.",
    options: &[&Group {
        title: "",
        options: &[LATEST],
    }],
    positionals: &[CONTAINERS],
    ..Command::new("wait", "Wait until containers have ended")
};

/// `tote rename`.
pub(crate) static RENAME: Command = Command {
    usage: "CONTAINER NAME",
    positionals: &[ONE, word("NAME", true, false)],
    ..Command::new("rename", "Give a container another name")
};

/// `tote pause`.
pub(crate) static PAUSE: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "Uses the freezer of the container's cgroup, so it needs one.",
    options: &[&WHICH],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("pause", "Stop all processes of containers where they are")
};

/// `tote unpause`.
pub(crate) static UNPAUSE: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    options: &[&WHICH],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("unpause", "Let paused containers go on")
};

/// `tote update`.
pub(crate) static UPDATE: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "\
What runs has the new limits at once, and they count for each later start. `--ulimit` and `--oom-score-adj` can be given, \
but count from the next start on.",
    options: &[
        &limits::RESOURCES,
        &Group {
            title: "",
            options: &[RESTART],
        },
    ],
    positionals: &[CONTAINERS],
    ..Command::new("update", "Change limits and the restart policy of containers")
};

/// `tote container prune`.
static PRUNE: Command = Command {
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("force", "Do not ask").short('f'),
            Opt::list(
                "filter",
                "KEY=VALUE",
                "Remove only what fits: until=TIMESTAMP, label=KEY[=VALUE], label!=KEY[=VALUE]",
            ),
        ],
    }],
    ..Command::new("prune", "Remove all containers that do not run")
};

/// `tote container exists`, podman's.
static EXISTS: Command = Command {
    usage: "[OPTIONS] CONTAINER",
    options: &[&Group {
        title: "",
        options: &[Opt::flag(
            "external",
            "Taken for podman's sake: nothing else makes containers here",
        )],
    }],
    positionals: &[ONE],
    exit_status: IS_THERE,
    ..Command::new("exists", "Say by the exit code whether a container is there")
};

/// Commands of this file that are also commands of the group `container`.
pub(super) static COMMANDS: &[&Command] = &[
    &super::run::RUN,
    &super::run::CREATE,
    &START,
    &STOP,
    &RESTART_COMMAND,
    &KILL,
    &RM,
    &WAIT,
    &super::attach::ATTACH,
    &super::attach::LOGS,
    &RENAME,
    &PAUSE,
    &UNPAUSE,
    &UPDATE,
    &super::exec::EXEC,
    &super::exec::TOP,
    &super::exec::STATS,
    &super::copy::CP,
    &super::change::COMMIT,
    &super::change::DIFF,
    &super::change::EXPORT,
    &super::look::PORT,
];

/// `tote container`.
pub(crate) static CONTAINER: Command = Command {
    usage: "COMMAND",
    details: "The commands do the same as those without `container` in front, and `ls` is `tote ps`.",
    subcommands: &[
        Section {
            title: "Commands",
            commands: COMMANDS,
        },
        Section {
            title: "Commands about all containers",
            commands: &[
                &super::look::CONTAINER_LS,
                &super::look::CONTAINER_INSPECT,
                &EXISTS,
                &PRUNE,
            ],
        },
    ],
    absent: super::absent::OF_CONTAINER,
    ..Command::new("container", "Work with containers")
};
