//! Commands about running containers: executing programs in them, and showing their processes and usage.

use super::repeated::{CONTAINER, CONTAINERS, LATEST, word};
use crate::seal::sealed;
use crate::{exec, health, stats, tell};
use tote_options::{Command, Completes, Example, ExitStatus, Group, Opt, Parsing, Positional, Section};

/// Options of each command that runs a command in a container.
pub(super) const ENV: Opt = Opt::list(
    "env",
    "KEY[=VALUE]",
    "Set an environment variable; a KEY alone takes its value from the caller",
)
.short('e')
.completes(Completes::Environment);
pub(super) const ENV_FILE: Opt = Opt::list(
    "env-file",
    "FILE",
    "Read environment variables from this file, one KEY[=VALUE] per line",
)
.completes(Completes::File);
pub(super) const PRIVILEGED: Opt = Opt::flag("privileged", "Give the command all capabilities");

/// Exit statuses of these commands.
pub(super) const NOT_RUNNING: ExitStatus = ExitStatus {
    status: "1",
    about: "The container does not exist or does not run",
};
pub(super) const WRONG_LINE: ExitStatus = ExitStatus {
    status: "125",
    about: "The command line is wrong",
};
pub(super) const SIGNALLED: ExitStatus = ExitStatus {
    status: "128+N",
    about: "Signal N ended the command",
};
pub(super) const OF_THE_COMMAND: ExitStatus = ExitStatus {
    status: "N",
    about: "In all other cases the exit code of the command",
};

/// `tote exec`.
pub(crate) static EXEC: Command = Command {
    usage: "[OPTIONS] CONTAINER COMMAND [ARG...]",
    details: "\
Runs COMMAND in a container that runs: in its namespaces, its cgroup and its root, with its environment, capabilities, \
filter and limits. Signals that `tote` gets are passed on.

With `-it`, the detach keys leave COMMAND alone with its terminal. A container has one first process, and everything \
else in it ends with that.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("detach", "Run the command in the background; its output is dropped").short('d'),
            Opt::value("detach-keys", "KEYS", "Detach from the command when these keys are typed (default ctrl-p,ctrl-q)")
                .details("Keys are single characters, or `ctrl-` and a letter or one of `@[\\]^_`, separated by commas. An empty text turns detaching off."),
            ENV,
            ENV_FILE,
            Opt::flag("interactive", "Keep standard input open").short('i'),
            Opt::value("preserve-fds", "N", "Pass N more file descriptors into the container, from 3 on").default("0"),
            LATEST,
            PRIVILEGED,
            Opt::flag("tty", "Give the command a terminal of its own").short('t'),
            Opt::value("user", "USER[:GROUP]", "Run as this user and group, by name or number").short('u'),
            Opt::value("workdir", "DIR", "Start the command in this directory of the container").short('w'),
        ],
    }],
    positionals: &[
        CONTAINER,
        word("COMMAND", true, false),
        word("ARG", false, true),
    ],
    parsing: Parsing::StopAtFirstPositional,
    examples: &[
        Example { about: "A shell in a container", line: "tote exec -it web sh" },
        Example { about: "A copy of a database, made inside", line: "tote exec -u postgres db pg_dump shop > shop.sql" },
    ],
    exit_status: &[
        NOT_RUNNING,
        WRONG_LINE,
        ExitStatus { status: "126", about: "The command was found but could not be executed" },
        ExitStatus { status: "127", about: "The command was not found" },
        SIGNALLED,
        OF_THE_COMMAND,
    ],
    ..Command::new("exec", "Run a command in a running container", |parsed| sealed(parsed, exec::exec))
};

/// `tote top`.
pub(crate) static TOP: Command = Command {
    usage: "[OPTIONS] CONTAINER [PS OPTIONS|COLUMN...]",
    details: "\
What is shown of each process is chosen as ps(1) does it: `-ef`, `-o pid,args`, `aux` and the like; or by the names \
that podman has for columns: `args capamb capbnd capeff capinh capprm comm etime group groups hgroup hgroups hpid huser \
label nice pcpu pgid pid ppid rgroup rss ruser seccomp state stime time tty user vsz`. The former count processes and \
users as the machine does, the latter as the container does, but for those that begin with `h`.",
    options: &[&Group {
        title: "",
        options: &[LATEST],
    }],
    positionals: &[CONTAINER, word("COLUMN", false, true)],
    parsing: Parsing::StopAtFirstPositional,
    examples: &[Example {
        about: "The capabilities of each process",
        line: "tote top web pid args capeff",
    }],
    ..Command::new("top", "Show the processes of a container", exec::top)
};

/// `tote stats`.
pub(crate) static STATS: Command = Command {
    usage: "[OPTIONS] [CONTAINER...]",
    details: "\
Shows what containers use, again and again: those that are named, or all that run. CPU is the share of one processor, \
so two that are busy are 200 %. Memory is without page cache that could be given back at once.

What no cgroup counts for a container is added up over its processes, and has a `~` in front: page cache does not count \
then, nor does what has ended. In JSON and templates the field `Sums` names such columns instead.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Also show containers that do not run").short('a'),
            Opt::value("format", "FORMAT", "Format each container as json, or by a Go template")
                .completes(Completes::Words(&["json", "table"]))
                .details("Fields are .BlockIO, .CPUPerc, .Container, .ID, .MemPerc, .MemUsage, .Name, .NetIO, .PIDs and .Sums."),
            LATEST,
            Opt::flag("no-stream", "Print the figures once and end"),
            Opt::flag("no-trunc", "Do not shorten ids"),
        ],
    }],
    positionals: &[Positional { required: false, ..CONTAINERS }],
    ..Command::new("stats", "Show the resource usage of containers", stats::stats)
};

/// `tote healthcheck`.
pub(crate) static HEALTHCHECK: Command = Command {
    usage: "COMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&CHECK],
    }],
    ..Command::new("healthcheck", "Check the health of containers", tell::help)
};

static CHECK: Command = Command {
    usage: "CONTAINER",
    details: "\
Makes the check that `--health-cmd` or the image describes, now, and adds the result to those of the container.",
    positionals: &[CONTAINER],
    exit_status: &[
        ExitStatus {
            status: "0",
            about: "The container is healthy",
        },
        ExitStatus {
            status: "1",
            about: "The container is unhealthy, does not run or does not exist",
        },
        ExitStatus {
            status: "125",
            about: "The container has no health check",
        },
    ],
    ..Command::new("run", "Run a container's health check now", |parsed| {
        sealed(parsed, health::run)
    })
};
