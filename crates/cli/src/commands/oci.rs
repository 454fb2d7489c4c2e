//! `tote oci`: the command line of an OCI runtime, with runc's commands and options.

use super::repeated::word;
use crate::oci;
use tote_options::{Command, Completes, Example, ExitStatus, Group, Opt, Parsing, Positional, Section};

/// `tote oci`, which a link named `tote-oci` runs as well.
pub(crate) static OCI: Command = Command {
    usage: "[OPTIONS] COMMAND [ARG...]",
    details: "\
An OCI runtime for docker, podman, containerd and Kubernetes, in place of runc or crun. Called through a link named \
`tote-oci` it is this command alone:

  ln -s /usr/bin/tote /usr/local/bin/tote-oci
  podman --runtime /usr/local/bin/tote-oci run --rm alpine true",
    options: &[&GLOBAL],
    subcommands: &[
        Section {
            title: "Life of a container",
            commands: &[&CREATE, &START, &RUN, &EXEC, &KILL, &DELETE, &PAUSE, &RESUME, &UPDATE],
        },
        Section {
            title: "Information",
            commands: &[&STATE, &LIST, &PS, &EVENTS, &SPEC, &FEATURES, &CHECKPOINT, &RESTORE],
        },
    ],
    exit_status: &[
        ExitStatus { status: "0", about: "The command succeeded" },
        ExitStatus { status: "1", about: "The command failed" },
        ExitStatus { status: "255", about: "The command `exec` failed before its process ran" },
        ExitStatus { status: "N", about: "Exit code of the process of `run` or `exec`, or 128 and the number of the signal that ended it" },
    ],
    ..Command::new("oci", "Run as an OCI runtime for other engines", oci::itself)
};

static GLOBAL: Group = Group {
    title: "",
    options: &[
        Opt::value("root", "DIR", "Keep the state of containers below this directory")
            .completes(Completes::Dir),
        Opt::value("log", "FILE", "Append errors and warnings to this file").completes(Completes::File),
        Opt::value("log-format", "FORMAT", "Format of the log: text or json")
            .default("text")
            .completes(Completes::Words(&["text", "json"])),
        Opt::flag("debug", "Log more"),
        Opt::flag(
            "systemd-cgroup",
            "Read cgroup paths as SLICE:PREFIX:NAME; systemd itself is not asked",
        ),
        Opt::value(
            "rootless",
            "WHETHER",
            "Accepted for compatibility with runc; tote detects it",
        ),
        Opt::value("criu", "PATH", "Accepted for compatibility with runc"),
        Opt::halt("version", "Print the version").short('v'),
    ],
};

static BUNDLE: Opt = Opt::value(
    "bundle",
    "DIR",
    "Directory of the bundle (default: the current one)",
)
.short('b')
.completes(Completes::Dir);
static CONSOLE_SOCKET: Opt = Opt::value(
    "console-socket",
    "PATH",
    "Send the master of the terminal to this Unix socket",
)
.completes(Completes::File);
static PIDFD_SOCKET: Opt = Opt::value(
    "pidfd-socket",
    "PATH",
    "Send the process's pidfd to this Unix socket",
)
.completes(Completes::File);
static PID_FILE: Opt =
    Opt::value("pid-file", "FILE", "Write the process id to this file").completes(Completes::File);
static PRESERVE_FDS: Opt = Opt::value(
    "preserve-fds",
    "N",
    "Pass this many file descriptors into the container, from 3 on",
)
.default("0");
static NO_PIVOT: Opt = Opt::flag(
    "no-pivot",
    "Move the root over the host's instead of pivot_root(2), as a ramdisk needs",
);
static NO_NEW_KEYRING: Opt = Opt::flag(
    "no-new-keyring",
    "Share the caller's session keyring with the container",
);

const ID: Positional = Positional {
    name: "ID",
    required: true,
    many: false,
    completes: Completes::None,
};

static CREATION: Group = Group {
    title: "",
    options: &[
        BUNDLE,
        CONSOLE_SOCKET,
        PIDFD_SOCKET,
        PID_FILE,
        NO_PIVOT,
        NO_NEW_KEYRING,
        PRESERVE_FDS,
    ],
};

static CREATE: Command = Command {
    usage: "[OPTIONS] ID",
    options: &[&CREATION],
    positionals: &[ID],
    ..Command::new("create", "Create a container that waits for `start`", |parsed| {
        oci::enter(parsed, &oci::CREATE)
    })
};

static START: Command = Command {
    usage: "ID",
    positionals: &[ID],
    ..Command::new("start", "Start the program of a created container", |parsed| {
        oci::serve(parsed, oci::start)
    })
};

static RUN: Command = Command {
    usage: "[OPTIONS] ID",
    options: &[
        &Group {
            title: "",
            options: &[
                Opt::flag("detach", "Return as soon as the container runs").short('d'),
                Opt::flag("keep", "Keep the container when it ends"),
                Opt::flag(
                    "no-subreaper",
                    "Accepted for compatibility with runc: this process never becomes a subreaper",
                ),
            ],
        },
        &CREATION,
    ],
    positionals: &[ID],
    examples: &[Example {
        about: "Run the bundle in this directory",
        line: "tote oci run web",
    }],
    ..Command::new(
        "run",
        "Create and start a container, and wait for its end",
        |parsed| oci::enter(parsed, &oci::RUN),
    )
};

static EXEC: Command = Command {
    usage: "[OPTIONS] ID COMMAND [ARG...]\n[OPTIONS] --process FILE ID",
    options: &[&Group {
        title: "",
        options: &[
            CONSOLE_SOCKET,
            PIDFD_SOCKET,
            Opt::value("cwd", "DIR", "The working directory inside"),
            Opt::list("env", "KEY=VALUE", "Set this environment variable")
                .short('e')
                .completes(Completes::Environment),
            Opt::flag("tty", "Give the process a terminal of its own").short('t'),
            Opt::value("user", "UID[:GID]", "Run as this user and group").short('u'),
            Opt::list("additional-gids", "GID", "Add this group").short('g'),
            Opt::value("process", "FILE", "Read the whole process from this process.json")
                .short('p')
                .completes(Completes::File),
            Opt::flag("detach", "Return as soon as the process runs").short('d'),
            PID_FILE,
            Opt::value("process-label", "LABEL", "The SELinux label"),
            Opt::value("apparmor", "PROFILE", "The AppArmor profile"),
            Opt::flag(
                "no-new-privs",
                "Set no_new_privs: no executed program gains privileges",
            ),
            Opt::list("cap", "CAPABILITY", "Add this capability")
                .short('c')
                .completes(Completes::Capabilities),
            PRESERVE_FDS,
            Opt::list(
                "cgroup",
                "[CONTROLLER,...:]PATH",
                "Put the process into this cgroup below the container's",
            ),
            Opt::flag("ignore-paused", "Allow exec into a paused container"),
        ],
    }],
    positionals: &[ID, word("COMMAND", false, false), word("ARG", false, true)],
    parsing: Parsing::StopAtFirstPositional,
    ..Command::new("exec", "Run another process in a container", |parsed| {
        oci::enter(parsed, &oci::EXEC)
    })
};

/// Flags of runc's `checkpoint` and `restore`. They are known only so that the error says that the command is not
/// supported, and not that the flag is unknown.
static CRIU: Group = Group {
    title: "",
    options: &[
        Opt::value("image-path", "DIR", "Accepted for compatibility with runc"),
        Opt::value("work-path", "DIR", "Accepted for compatibility with runc"),
        Opt::value("parent-path", "DIR", "Accepted for compatibility with runc"),
        Opt::flag("leave-running", "Accepted for compatibility with runc"),
        Opt::flag("tcp-established", "Accepted for compatibility with runc"),
        Opt::flag("tcp-skip-in-flight", "Accepted for compatibility with runc"),
        Opt::flag("ext-unix-sk", "Accepted for compatibility with runc"),
        Opt::flag("shell-job", "Accepted for compatibility with runc"),
        Opt::flag("lazy-pages", "Accepted for compatibility with runc"),
        Opt::value("status-fd", "FD", "Accepted for compatibility with runc"),
        Opt::value("page-server", "ADDRESS", "Accepted for compatibility with runc"),
        Opt::flag("file-locks", "Accepted for compatibility with runc"),
        Opt::flag("pre-dump", "Accepted for compatibility with runc"),
        Opt::value(
            "manage-cgroups-mode",
            "MODE",
            "Accepted for compatibility with runc",
        ),
        Opt::value("empty-ns", "NAMESPACE", "Accepted for compatibility with runc"),
        Opt::flag("auto-dedup", "Accepted for compatibility with runc"),
        Opt::value("lsm-profile", "PROFILE", "Accepted for compatibility with runc"),
        Opt::value(
            "lsm-mount-context",
            "CONTEXT",
            "Accepted for compatibility with runc",
        ),
        Opt::flag("no-subreaper", "Accepted for compatibility with runc"),
    ],
};

static RESTORED: Group = Group {
    title: "",
    options: &[
        BUNDLE,
        CONSOLE_SOCKET,
        PID_FILE,
        Opt::flag("detach", "Accepted for compatibility with runc").short('d'),
        Opt::flag("no-pivot", "Accepted for compatibility with runc"),
    ],
};

static CHECKPOINT: Command = Command {
    usage: "[OPTIONS] ID",
    options: &[&CRIU],
    positionals: &[ID],
    hidden: true,
    ..Command::new(
        "checkpoint",
        "Accepted for compatibility with runc: not supported",
        |parsed| oci::serve(parsed, oci::refuse_criu),
    )
};

static RESTORE: Command = Command {
    usage: "[OPTIONS] ID",
    options: &[&CRIU, &RESTORED],
    positionals: &[ID],
    hidden: true,
    ..Command::new(
        "restore",
        "Accepted for compatibility with runc: not supported",
        |parsed| oci::serve(parsed, oci::refuse_criu),
    )
};

static KILL: Command = Command {
    usage: "[OPTIONS] ID [SIGNAL]",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("all", "Signal every process of the container").short('a')],
    }],
    positionals: &[
        ID,
        Positional {
            name: "SIGNAL",
            required: false,
            many: false,
            completes: Completes::Signals,
        },
    ],
    ..Command::new(
        "kill",
        "Send a signal to a container's first process, SIGTERM where none is named",
        |parsed| oci::serve(parsed, oci::kill),
    )
};

static DELETE: Command = Command {
    usage: "[OPTIONS] ID",
    options: &[&Group {
        title: "",
        options: &[Opt::flag(
            "force",
            "Kill a running container; an id that does not exist is not an error",
        )
        .short('f')],
    }],
    positionals: &[ID],
    ..Command::new(
        "delete",
        "Remove a container that has ended or was never started",
        |parsed| oci::serve(parsed, oci::delete),
    )
};

static PAUSE: Command = Command {
    usage: "ID",
    positionals: &[ID],
    ..Command::new("pause", "Pause every process of a container", |parsed| {
        oci::serve(parsed, oci::pause)
    })
};

static RESUME: Command = Command {
    usage: "ID",
    positionals: &[ID],
    ..Command::new("resume", "Resume the processes of a paused container", |parsed| {
        oci::serve(parsed, oci::resume)
    })
};

static STATE: Command = Command {
    usage: "ID",
    positionals: &[ID],
    ..Command::new("state", "Print the state of a container as JSON", |parsed| {
        oci::serve(parsed, oci::state)
    })
};

static FORMAT: Opt = Opt::value("format", "FORMAT", "Format of the output: table or json")
    .short('f')
    .default("table")
    .completes(Completes::Words(&["table", "json"]));

static LIST: Command = Command {
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[FORMAT, Opt::flag("quiet", "Print only ids").short('q')],
    }],
    ..Command::new("list", "List the containers below the root", |parsed| {
        oci::serve(parsed, oci::list)
    })
};

static PS: Command = Command {
    usage: "[OPTIONS] ID [PS_OPTION...]",
    options: &[&Group {
        title: "",
        options: &[FORMAT],
    }],
    positionals: &[
        ID,
        Positional {
            name: "PS_OPTION",
            required: false,
            many: true,
            completes: Completes::None,
        },
    ],
    parsing: Parsing::StopAtFirstPositional,
    ..Command::new("ps", "List the processes of a container", |parsed| {
        oci::serve(parsed, oci::ps)
    })
};

static EVENTS: Command = Command {
    usage: "[OPTIONS] ID",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("stats", "Print the statistics once"),
            Opt::value(
                "interval",
                "TIME",
                "Interval of the statistics, such as 500ms or 5s",
            )
            .default("5s"),
        ],
    }],
    positionals: &[ID],
    ..Command::new(
        "events",
        "Print the resource usage of a container, and out-of-memory events",
        |parsed| oci::serve(parsed, oci::events),
    )
};

static UPDATE: Command = Command {
    usage: "[OPTIONS] ID",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value(
                "resources",
                "FILE",
                "Read all limits from this JSON file; - is standard input",
            )
            .short('r')
            .completes(Completes::File),
            Opt::value("blkio-weight", "N", "Share of block input and output, 10 to 1000"),
            Opt::value("cpu-period", "MICROSECONDS", "The period of the processor quota"),
            Opt::value("cpu-quota", "MICROSECONDS", "Processor time in one period"),
            Opt::value(
                "cpu-burst",
                "MICROSECONDS",
                "CPU time that may be saved up for a burst",
            ),
            Opt::value("cpu-share", "N", "Share of the processors, 2 to 262144"),
            Opt::value(
                "cpu-rt-period",
                "MICROSECONDS",
                "The period of real-time scheduling",
            ),
            Opt::value(
                "cpu-rt-runtime",
                "MICROSECONDS",
                "Real-time scheduling in one period",
            ),
            Opt::value("cpuset-cpus", "LIST", "The processors, as in 0-2,7"),
            Opt::value("cpuset-mems", "LIST", "The memory nodes"),
            Opt::value(
                "cpu-idle",
                "0|1",
                "Schedule the container as idle: it gets only unused CPU time",
            ),
            Opt::value("memory", "BYTES", "The memory limit; -1 means no limit"),
            Opt::value("memory-reservation", "BYTES", "The soft memory limit"),
            Opt::value(
                "memory-swap",
                "BYTES",
                "Memory and swap together; -1 means no limit",
            ),
            Opt::value("kernel-memory", "BYTES", "Accepted for compatibility with runc"),
            Opt::value("kernel-memory-tcp", "BYTES", "Memory for TCP buffers (cgroup v1)"),
            Opt::value("pids-limit", "N", "Limit of processes; -1 means no limit"),
            Opt::value("l3-cache-schema", "LINE", "Accepted for compatibility with runc"),
            Opt::value("mem-bw-schema", "LINE", "Accepted for compatibility with runc"),
        ],
    }],
    positionals: &[ID],
    ..Command::new("update", "Change the limits of a container", |parsed| {
        oci::serve(parsed, oci::update)
    })
};

static SPEC: Command = Command {
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            BUNDLE,
            Opt::flag("rootless", "Write a config.json for running without root"),
        ],
    }],
    ..Command::new("spec", "Write a template config.json", |parsed| {
        oci::serve(parsed, oci::spec)
    })
};

static FEATURES: Command = Command {
    ..Command::new(
        "features",
        "Print the features of this runtime as JSON",
        |parsed| oci::serve(parsed, oci::features),
    )
};
