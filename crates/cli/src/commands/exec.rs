//! Commands about running containers: executing programs in them, and showing their processes and usage.

use super::{CONTAINER, CONTAINERS, LATEST, word};
use tote_options::{Command, Completes, Example, ExitStatus, Group, Opt, Parsing, Positional, Section};

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
            Opt::flag("detach", "Do not wait for the command; what it writes is dropped").short('d'),
            Opt::value("detach-keys", "KEYS", "Leave the command alone when these keys are typed, `ctrl-p,ctrl-q`")
                .details("Single characters, or `ctrl-` and a letter or one of `@[\\]^_`, with commas between. An empty text is no keys."),
            Opt::list("env", "KEY[=VALUE]", "Set this environment variable; a KEY alone takes the value from here")
                .short('e')
                .completes(Completes::Environment),
            Opt::list("env-file", "FILE", "Read environment variables from this file, one KEY[=VALUE] on each line")
                .completes(Completes::File),
            Opt::flag("interactive", "Pass standard input on").short('i'),
            Opt::value("preserve-fds", "N", "Pass N more file descriptors into the container, from 3 on").default("0"),
            LATEST,
            Opt::flag("privileged", "Give the command all capabilities"),
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
        ExitStatus { status: "1", about: "There is no such container, or it does not run" },
        ExitStatus { status: "125", about: "The command line is wrong" },
        ExitStatus { status: "126", about: "The command was found but could not be executed" },
        ExitStatus { status: "127", about: "The command was not found" },
        ExitStatus { status: "128+N", about: "Signal N ended the command" },
        ExitStatus { status: "N", about: "Otherwise the command's own" },
    ],
    ..Command::new("exec", "Run a command in a container that runs")
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
        about: "What each process may do",
        line: "tote top web pid args capeff",
    }],
    ..Command::new("top", "Show the processes of a container")
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
            Opt::flag("all", "Show also containers that do not run").short('a'),
            Opt::value("format", "FORMAT", "Print JSON, or what this Go template makes of each container")
                .completes(Completes::Words(&["json", "table"]))
                .details("Fields are .BlockIO, .CPUPerc, .Container, .ID, .MemPerc, .MemUsage, .Name, .NetIO, .PIDs and .Sums."),
            LATEST,
            Opt::flag("no-stream", "Show them once"),
            Opt::flag("no-trunc", "Print whole ids"),
        ],
    }],
    positionals: &[Positional { required: false, ..CONTAINERS }],
    ..Command::new("stats", "Show what containers use")
};

/// `tote healthcheck`.
pub(crate) static HEALTHCHECK: Command = Command {
    usage: "COMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&CHECK],
    }],
    ..Command::new("healthcheck", "See whether containers are well")
};

static CHECK: Command = Command {
    usage: "CONTAINER",
    details: "\
Makes the check that `--health-cmd` or the image describes, now, and adds the result to those of the container.",
    positionals: &[CONTAINER],
    exit_status: &[
        ExitStatus {
            status: "0",
            about: "The container is well",
        },
        ExitStatus {
            status: "1",
            about: "It is not, it does not run, or there is none",
        },
        ExitStatus {
            status: "125",
            about: "Nobody says how to check it",
        },
    ],
    ..Command::new("run", "Check a container now")
};
