//! Commands that start, stop, change and remove containers.

use super::attach::{DETACH_KEYS, SIG_PROXY};
use super::limits;
use super::repeated::{ALL as EVERY, ANY_CONTAINERS, CONTAINER as ONE, CONTAINERS, IS_THERE, LATEST, word};
use crate::seal::sealed;
use crate::{life, tell};
use tote_options::{Command, Completes, Example, Group, Opt, Section};

const ATTACH: Opt = Opt::list(
    "attach",
    "STREAM",
    "Attach only this stream: stdin, stdout or stderr",
)
.short('a')
.completes(Completes::Words(&["stdin", "stdout", "stderr"]));

/// `--attach` for a container that is created but not started.
pub(crate) static TO_ATTACH: Group = Group {
    title: "Attaching",
    options: &[
        ATTACH.details("The choice is only recorded, as by docker: `tote start -a` attaches all output.")
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
            "conmon-pidfile",
            "FILE",
            "Write the process id of the process that watches the container to this file",
        )
        .completes(Completes::File),
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
        Opt::list(
            "requires",
            "CONTAINER[,CONTAINER...]",
            "Start these containers first, whenever the container is started",
        ),
        SDNOTIFY,
        Opt::value(
            "log-driver",
            "DRIVER",
            "Log driver: json-file, local, k8s-file or none",
        )
        .default("json-file"),
        Opt::list(
            "log-opt",
            "KEY=VALUE",
            "Log option: max-size, max-file, labels, env or tag",
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
    "Restart policy: no, on-failure[:N], always or unless-stopped",
)
.default("no")
.details("The delay before a restart is 100 ms, and doubles each time up to a minute. A container that was stopped stays stopped.");

const SDNOTIFY: Opt = Opt::value(
    "sdnotify",
    "WHO",
    "Sender of the ready notification to the host's init: container, conmon, healthy or ignore",
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

const ALL: Opt = Opt::flag("all", "Select all containers, or all that match the filters");

const FILTER: Opt = Opt::list(
    "filter",
    "KEY=VALUE",
    "Select all containers that match this filter",
)
.short('f')
.details("Filters are those of `tote ps`, and also `restart-policy=always` and `should-start-on-boot=true`.");

const CIDFILE: Opt =
    Opt::list("cidfile", "FILE", "Select the container whose id is in this file").completes(Completes::File);

const IGNORE: Opt = Opt::flag("ignore", "Ignore containers that do not exist").short('i');

/// `tote start`.
pub(crate) static START: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "Prints each name as it was given. With `-a` tote attaches to the container and ends with its exit code.",
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
    absent: super::absent::OF_START,
    ..Command::new(
        "start",
        "Start containers that were created or have ended",
        |parsed| sealed(parsed, |parsed| life::execute(parsed, life::start)),
    )
};

pub(super) const TIME: Opt = Opt::value(
    "time",
    "SECONDS",
    "Seconds from the signal to SIGKILL; -1 never kills",
)
.short('t')
.aliases(&["timeout"])
.details("The default is the container's `--stop-timeout`, or 10.");

const SIGNAL: Opt = Opt::value(
    "signal",
    "SIGNAL",
    "Send this signal instead of the container's stop signal",
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
    details: "All containers get the signal before tote waits for the first. A container that does not run is not an error.",
    options: &[
        &STOPPING,
        &Group {
            title: "Selection",
            options: &[ALL.short('a'), FILTER, CIDFILE, IGNORE, LATEST],
        },
    ],
    positionals: &[ANY_CONTAINERS],
    ..Command::new(
        "stop",
        "Stop containers: send a signal, wait, then send SIGKILL",
        |parsed| life::execute(parsed, life::stop),
    )
};

/// `tote restart`.
pub(crate) static RESTART_COMMAND: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    options: &[&STOPPING, &WHICH],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("restart", "Stop containers, and start them again", |parsed| {
        sealed(parsed, |parsed| life::execute(parsed, life::restart))
    })
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
    ..Command::new(
        "kill",
        "Send a signal to the first process of containers",
        |parsed| life::execute(parsed, life::kill),
    )
};

/// `tote rm`.
pub(crate) static RM: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "All running containers are killed before tote waits for the first.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("force", "Kill the containers that run").short('f'),
            TIME.details("Only with `--force`, which otherwise kills at once."),
            EVERY,
            Opt {
                short: None,
                ..LATEST
            },
            Opt::flag("volumes", "Also remove the anonymous volumes of the containers").short('v'),
            CIDFILE,
            Opt::flag(
                "depend",
                "Also remove the containers that require these or use their namespaces",
            ),
            IGNORE,
            Opt::flag(
                "link",
                "Not supported: a link goes with the container that has it",
            )
            .short('l'),
        ],
    }],
    positionals: &[ANY_CONTAINERS],
    examples: &[Example {
        about: "All containers",
        line: "tote rm -fa",
    }],
    ..Command::new("rm", "Remove containers", |parsed| {
        life::execute(parsed, life::remove)
    })
};

/// `tote wait`.
pub(crate) static WAIT: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "Waits for the containers in order and prints the exit code of each.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list(
                "condition",
                "CONDITION",
                "Wait for one of these conditions instead of the end",
            )
            .completes(Completes::Words(&[
                "created",
                "exited",
                "healthy",
                "paused",
                "removing",
                "running",
                "stopped",
                "unhealthy",
            ]))
            .details("podman's; `-1` is printed for a container that runs then."),
            IGNORE,
            super::accepted::INTERVAL,
            LATEST,
        ],
    }],
    positionals: &[CONTAINERS],
    ..Command::new("wait", "Wait until containers have ended", |parsed| {
        life::execute(parsed, life::wait)
    })
};

/// `tote rename`.
pub(crate) static RENAME: Command = Command {
    usage: "CONTAINER NAME",
    positionals: &[ONE, word("NAME", true, false)],
    ..Command::new("rename", "Give a container another name", |parsed| {
        life::change(parsed, life::rename)
    })
};

/// `tote pause`.
pub(crate) static PAUSE: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "Pausing uses the freezer of the container's cgroup, so the container needs one.",
    options: &[&WHICH],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("pause", "Pause all processes of containers", |parsed| {
        life::execute(parsed, life::pause)
    })
};

/// `tote unpause`.
pub(crate) static UNPAUSE: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    options: &[&WHICH],
    positionals: &[ANY_CONTAINERS],
    ..Command::new("unpause", "Resume paused containers", |parsed| {
        life::execute(parsed, life::unpause)
    })
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
    ..Command::new(
        "update",
        "Change limits and the restart policy of containers",
        |parsed| life::change(parsed, life::update),
    )
};

/// `tote container prune`.
static PRUNE: Command = Command {
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("force", "Do not ask for confirmation").short('f'),
            Opt::list(
                "filter",
                "KEY=VALUE",
                "Remove only objects that match: until=TIMESTAMP, label=KEY[=VALUE], label!=KEY[=VALUE]",
            ),
        ],
    }],
    ..Command::new("prune", "Remove all containers that do not run", |parsed| {
        life::execute(parsed, life::prune)
    })
};

/// `tote container exists`, podman's.
static EXISTS: Command = Command {
    usage: "[OPTIONS] CONTAINER",
    options: &[&Group {
        title: "",
        options: &[Opt::flag(
            "external",
            "Accepted for compatibility with podman: all containers here are tote's",
        )],
    }],
    positionals: &[ONE],
    exit_status: IS_THERE,
    ..Command::new(
        "exists",
        "Tell by the exit code whether a container exists",
        |parsed| life::execute(parsed, life::exists),
    )
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
    &super::debug::DEBUG,
    &super::exec::TOP,
    &super::exec::STATS,
    &super::copy::CP,
    &super::change::COMMIT,
    &super::change::DIFF,
    &super::change::EXPORT,
    &super::mount::MOUNT,
    &super::mount::UMOUNT,
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
    ..Command::new("container", "Work with containers", tell::help)
};
