//! Options about a container's name and lifetime, and about the process in it.

use tote_options::{Completes, Group, Opt};

const HOSTNAME: Opt = Opt::value("hostname", "NAME", "Host name of the container").short('h');
const LABEL: Opt = Opt::list("label", "KEY[=VALUE]", "Add a label to the container").short('l');
const ANNOTATION: Opt = Opt::list(
    "annotation",
    "KEY=VALUE",
    "Add an annotation to the container's config.json",
);
const STOP_SIGNAL: Opt = Opt::value(
    "stop-signal",
    "SIGNAL",
    "Signal to stop the container (default: the image's, or SIGTERM)",
)
.completes(Completes::Signals);
const STOP_TIMEOUT: Opt = Opt::value(
    "stop-timeout",
    "SECONDS",
    "Seconds from the stop signal to SIGKILL",
)
.default("10");

/// Options about identity that a waiting sandbox has before its first use.
pub(crate) static OF_SANDBOX: Group = Group {
    title: "Identity",
    options: &[HOSTNAME, LABEL, ANNOTATION, STOP_SIGNAL, STOP_TIMEOUT],
};

/// Options about a container's name and labels.
pub(crate) static IDENTITY: Group = Group {
    title: "Identity",
    options: &[
        Opt::value("name", "NAME", "Name of the container"),
        Opt::flag("replace", "Remove an existing container of this name first"),
        HOSTNAME,
        Opt::value(
            "domainname",
            "DOMAIN",
            "NIS domain name of the container, also in /etc/hosts",
        ),
        LABEL,
        Opt::list(
            "label-file",
            "FILE",
            "Read labels from this file, one KEY[=VALUE] per line",
        )
        .completes(Completes::File)
        .details("Empty lines and lines that start with # are skipped. Labels set with `--label` win."),
        ANNOTATION,
        Opt::value(
            "cidfile",
            "FILE",
            "Write the container's id to this file, which must not exist",
        )
        .completes(Completes::File),
    ],
};

/// Options about the process.
pub(crate) static PROCESS: Group = Group {
    title: "Process",
    options: &[
        Opt::flag("interactive", "Keep standard input open").short('i'),
        Opt::flag("tty", "Give the command a terminal of its own").short('t'),
        ABOUT_PROGRAM[0],
        ABOUT_PROGRAM[1],
        ABOUT_PROGRAM[2],
        ABOUT_PROGRAM[3],
        ABOUT_PROGRAM[4],
        ABOUT_PROGRAM[5],
        ABOUT_PROGRAM[6],
        ABOUT_PROGRAM[7],
        ABOUT_PROGRAM[8],
        ABOUT_PROGRAM[9],
        ABOUT_PROGRAM[10],
        ABOUT_PROGRAM[11],
    ],
};

/// Options about the process except for its input and output.
pub(crate) static PROGRAM: Group = Group {
    title: "Process",
    options: &ABOUT_PROGRAM,
};

const ABOUT_PROGRAM: [Opt; 12] = [
    Opt::list(
        "env",
        "KEY[=VALUE]",
        "Set an environment variable; a KEY alone takes its value from the caller",
    )
    .short('e')
    .completes(Completes::Environment),
    Opt::list(
        "env-file",
        "FILE",
        "Read environment variables from this file, one KEY[=VALUE] per line",
    )
    .completes(Completes::File)
    .details("Empty lines and lines that start with # are skipped. Variables set with `--env` win."),
    Opt::flag(
        "env-host",
        "Pass all variables of the caller; those of the image win",
    ),
    Opt::list(
        "unsetenv",
        "NAME",
        "Remove a variable of the image or a default one",
    ),
    Opt::flag(
        "unsetenv-all",
        "Start with no variables except those that options set",
    ),
    Opt::value(
        "tz",
        "ZONE",
        "Time zone, such as Europe/Berlin; local for that of this machine",
    ),
    Opt::value("umask", "MODE", "File mode creation mask of the command").default("0022"),
    Opt::value(
        "workdir",
        "DIR",
        "Start the command in this directory of the container",
    )
    .short('w'),
    Opt::value(
        "user",
        "USER[:GROUP]",
        "Run as this user and group, by name or number",
    )
    .short('u'),
    Opt::list(
        "group-add",
        "GROUP",
        "Add this supplementary group, by name or number",
    ),
    Opt::value(
        "entrypoint",
        "PROGRAM",
        "Run this program instead of the image's entrypoint",
    )
    .details(
        "The words after IMAGE become its arguments. The image's own command is dropped with its entrypoint. \
         Where PROGRAM is empty, the words after IMAGE are the whole command. Several words are written as in JSON: \
         `[\"sh\",\"-c\"]`.",
    ),
    Opt::flag(
        "init",
        "Run a small init as process 1: it forwards signals and reaps zombies",
    ),
];

/// Options about the end of the container.
pub(crate) static LIFETIME: Group = Group {
    title: "Lifetime",
    options: &[
        Opt::flag("rm", "Remove the container when it ends"),
        STOP_SIGNAL,
        STOP_TIMEOUT,
        Opt::value(
            "timeout",
            "SECONDS",
            "Limit of the running time; the exit code is then 124",
        ),
        Opt::value(
            "cpu-time",
            "SECONDS",
            "Limit of the CPU time; the exit code is then 124",
        )
        .details(
            "What all of the container's processes used together counts. \
             Time spent waiting does not, so a sleeping container lives on: see `--timeout`. \
             It takes a cgroup to count: where this user may make none, the limit has no effect.",
        ),
        Opt::value(
            "output-limit",
            "SIZE",
            "Limit of what the program writes to its output; the exit code is then 124",
        )
        .details(
            "Standard output and standard error count together, as does a terminal. What comes within the limit is passed on and              logged; at the first byte beyond it the container is killed. Each start has the whole limit again. \
             What `tote exec` writes does not count.",
        ),
        Opt::value(
            "report",
            "FILE",
            "Write to this file how the container ended, and what it used: JSON",
        )
        .details(
            "What ended it (`exit`, `signal`, `out-of-memory`, `timeout`, `cpu-time` or `output-limit`), and the kernel's figures: \
             time, processor time, memory, processes, bytes of disks. The process that watches the container writes the file, \
             so that nothing that the program prints, and no exit code, can say otherwise. The file is there only after the end; \
             each end writes it anew. What was not counted is `null`.",
        ),
    ],
};

/// Options about the health check.
pub(crate) static HEALTH: Group = Group {
    title: "Health",
    options: &[
        Opt::value("health-cmd", "COMMAND", "Shell command that checks the health of the container").details(
            "It runs in the container, as with `tote exec`, and is to end with 0. `none` is no check, not even the image's. \
             Checks are made by the process that watches a container, which one that is checked has also in the foreground with \
             `--rm`: it lives on when the command is killed.",
        ),
        Opt::value("health-interval", "TIME", "Time between two checks, such as `30s`")
            .details("30 seconds where neither this nor the image says otherwise."),
        Opt::value("health-timeout", "TIME", "A check that takes longer than this fails")
            .details("30 seconds where neither this nor the image says otherwise."),
        Opt::value("health-retries", "NUMBER", "Number of consecutive failures that make the container unhealthy")
            .details("3 where neither this nor the image says otherwise."),
        Opt::value("health-start-period", "TIME", "Time after the start in which failures do not count"),
        Opt::value("health-start-interval", "TIME", "Time between two checks in the start period")
            .aliases(&["health-startup-interval"])
            .details("5 seconds where neither this nor the image says otherwise."),
        Opt::value("health-on-failure", "ACTION", "Action when the container becomes unhealthy: none, kill, stop or restart")
            .completes(Completes::Words(&["none", "kill", "stop", "restart"]))
            .details("After `kill`, `--restart` decides whether it starts again."),
        Opt::flag("no-healthcheck", "Disable the health check of the image"),
    ],
};

/// `--quiet`.
pub(crate) static QUIET: Group = Group {
    title: "Output",
    options: &[Opt::flag("quiet", "Do not show progress of the pull").short('q')],
};

/// Options that docker does not have.
pub(crate) static OWN: Group = Group {
    title: "Further",
    options: &[
        Opt::value(
            "preserve-fds",
            "N",
            "Pass N more file descriptors into the container, from 3 on",
        )
        .default("0"),
        Opt::flag("plan", "Print the planned operations and run nothing"),
        Opt::flag(
            "timings",
            "Print the microseconds of each operation to standard error",
        ),
    ],
};

/// `--rmi`.
pub(crate) static IMAGE_TOO: Group = Group {
    title: "Image",
    options: &[Opt::flag(
        "rmi",
        "Also remove the image when the container ends, unless another container uses it; implies --rm",
    )],
};
