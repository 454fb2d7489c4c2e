//! Options about a container's name and lifetime, and about the process in it.

use tote_options::{Completes, Group, Opt};

const HOSTNAME: Opt = Opt::value("hostname", "NAME", "Set the host name inside").short('h');
const LABEL: Opt = Opt::list("label", "KEY[=VALUE]", "Put this label on the container").short('l');
const ANNOTATION: Opt = Opt::list(
    "annotation",
    "KEY=VALUE",
    "Put this annotation into the container's config.json",
);
const STOP_SIGNAL: Opt = Opt::value(
    "stop-signal",
    "SIGNAL",
    "Stop the container with this signal (the image's, or SIGTERM)",
)
.completes(Completes::Signals);
const STOP_TIMEOUT: Opt = Opt::value(
    "stop-timeout",
    "SECONDS",
    "Kill the container this long after the stop signal",
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
        Opt::value("name", "NAME", "Give the container this name"),
        Opt::flag(
            "replace",
            "Remove the container that has the name now, if there is one",
        ),
        HOSTNAME,
        Opt::value(
            "domainname",
            "DOMAIN",
            "Set the domain name inside, of NIS and in /etc/hosts",
        ),
        LABEL,
        Opt::list(
            "label-file",
            "FILE",
            "Read labels from this file, one KEY[=VALUE] on each line",
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
        "Set this environment variable; a KEY alone takes the value from here",
    )
    .short('e')
    .completes(Completes::Environment),
    Opt::list(
        "env-file",
        "FILE",
        "Read environment variables from this file, one KEY[=VALUE] on each line",
    )
    .completes(Completes::File)
    .details("Empty lines and lines that start with # are skipped. Variables set with `--env` win."),
    Opt::flag(
        "env-host",
        "Set all variables that are set here, below those of the image",
    ),
    Opt::list(
        "unsetenv",
        "NAME",
        "Leave out this variable, which the image sets or every container has",
    ),
    Opt::flag(
        "unsetenv-all",
        "Leave out all variables but those that options set",
    ),
    Opt::value(
        "tz",
        "ZONE",
        "Have the time of this zone, such as Europe/Berlin; local for that of this machine",
    ),
    Opt::value("umask", "MODE", "Begin with this file mode creation mask").default("0022"),
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
        "Run this program in place of the image's entrypoint",
    )
    .details(
        "The words after IMAGE become its arguments. The image's own command is dropped with its entrypoint. \
         Where PROGRAM is empty, the words after IMAGE are the whole command. Several words are written as in JSON: \
         `[\"sh\",\"-c\"]`.",
    ),
    Opt::flag(
        "init",
        "Run a small init as process 1: it forwards signals and reaps what is left behind",
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
            "End the container after this time on the clock, with status 124",
        ),
        Opt::value(
            "cpu-time",
            "SECONDS",
            "End the container after this much time on the CPUs",
        )
        .details(
            "What all of the container's processes used together counts. \
             Time spent waiting does not, so a sleeping container lives on: see `--timeout`. \
             It takes a cgroup to count: where this user may make none, the limit has no effect.",
        ),
    ],
};

/// Options about the health check.
pub(crate) static HEALTH: Group = Group {
    title: "Health",
    options: &[
        Opt::value("health-cmd", "COMMAND", "Check with this line of shell whether the container is well").details(
            "It runs in the container, as with `tote exec`, and is to end with 0. `none` is no check, not even the image's. \
             Checks are made by the process that watches a container, which one that is checked has also in the foreground with \
             `--rm`: it lives on when the command is killed.",
        ),
        Opt::value("health-interval", "TIME", "Wait this long from one check to the next, `30s`")
            .details("30 seconds where neither this nor the image says otherwise."),
        Opt::value("health-timeout", "TIME", "A check that takes longer has failed")
            .details("30 seconds where neither this nor the image says otherwise."),
        Opt::value("health-retries", "NUMBER", "So many failures one after another make the container unhealthy")
            .details("3 where neither this nor the image says otherwise."),
        Opt::value("health-start-period", "TIME", "Failures do not count so long after the start"),
        Opt::value("health-start-interval", "TIME", "Wait this long between checks in the start period")
            .details("5 seconds where neither this nor the image says otherwise."),
        Opt::value("health-on-failure", "ACTION", "Do this when the container has become unhealthy: none")
            .completes(Completes::Words(&["none"])),
        Opt::flag("no-healthcheck", "Do not make the checks that the image describes"),
    ],
};

/// `--quiet`.
pub(crate) static QUIET: Group = Group {
    title: "Output",
    options: &[Opt::flag("quiet", "Do not show the progress of pulling the image").short('q')],
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
        Opt::flag("plan", "Print what would be done, step by step, and do nothing"),
        Opt::flag(
            "timings",
            "Print the microseconds that each step took to standard error",
        ),
    ],
};

/// `--rmi`.
pub(crate) static IMAGE_TOO: Group = Group {
    title: "Image",
    options: &[Opt::flag(
        "rmi",
        "Remove the image as well when the container ends, unless another one has it; implies --rm",
    )],
};
