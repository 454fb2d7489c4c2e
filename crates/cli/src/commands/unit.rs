//! `tote generate`: units for the host's init.

use super::repeated::{CONTAINER, word};
use crate::{exit, tell, unit};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

/// `tote generate systemd`.
pub(crate) static SYSTEMD: Command = Command {
    usage: "[OPTIONS] CONTAINER|POD\n--restart [OPTIONS]",
    details: "\
Prints a unit of systemd's that runs the container directly: what systemd watches is the process that watches the \
container, with `Type=notify`, its own cgroup, and sockets of a unit of the same name (`.socket`) passed on to the program.

Without `--new` the unit starts and stops the container that is there. With it each start makes a new one, as the container \
was made, and its end removes it; the container itself is then needed no longer.

Of a pod there is a unit for each member, and one that they begin and end with; `--files` makes them files.

Readiness: what was created with `--sdnotify` says so itself (`container`, `healthy`); everything else is ready when its \
program runs.",
    options: &[
        &Group {
            title: "",
            options: &[
                Opt::flag("new", "Let the unit create and remove the container"),
                Opt::flag("name", "Name the unit after the container's name, not its id").short('n'),
                Opt::flag("files", "Write to NAME.service in the current directory, and print the path").short('f'),
                Opt::flag("template", "Make a template NAME@.service, with one container for each instance"),
                Opt::flag("restart", "Print tote-restart.service, which starts containers when the machine starts")
                    .details(
                        "It starts containers with `--restart always`, and those with `unless-stopped` that were not stopped.",
                    ),
                Opt::flag("no-header", "Omit the comment at the top"),
                Opt::value("format", "FORMAT", "Print json: an object with the text of each unit")
                    .completes(Completes::Words(&["json"])),
            ],
        },
        &Group {
            title: "Unit",
            options: &[
                Opt::value("restart-policy", "POLICY", "Restart policy of the unit").default("on-failure").completes(
                    Completes::Words(&["no", "on-success", "on-failure", "on-abnormal", "on-watchdog", "on-abort", "always"]),
                ),
                Opt::value("restart-sec", "SECONDS", "Delay before a restart"),
                Opt::value("start-timeout", "SECONDS", "A start that takes longer than this fails"),
                Opt::value("stop-timeout", "SECONDS", "Seconds from the stop signal to SIGKILL")
                    .short('t')
                    .aliases(&["time"])
                    .details("The default is the container's `--stop-timeout`, or 10."),
                Opt::list("wants", "UNIT", "Also want this unit, besides network-online.target"),
                Opt::list("after", "UNIT", "Start after this unit, besides network-online.target"),
                Opt::list("requires", "UNIT", "Require this unit"),
                Opt::list("env", "KEY[=VALUE]", "Set an environment variable of tote; a KEY alone takes its value from the caller")
                    .short('e')
                    .completes(Completes::Environment),
                Opt::value("container-prefix", "PREFIX", "Prefix of unit names for containers").default("container"),
                Opt::value("pod-prefix", "PREFIX", "Prefix of unit names for pods").default("pod"),
                Opt::value("separator", "TEXT", "Separator between prefix and name").default("-"),
            ],
        },
    ],
    positionals: &[Positional {
        name: "CONTAINER",
        required: false,
        many: false,
        completes: Completes::Containers,
    }],
    examples: &[
        Example {
            about: "A service that systemd starts at boot",
            line: "tote generate systemd --new --name web > /etc/systemd/system/web.service && systemctl enable --now web",
        },
        Example {
            about: "Containers with --restart always start at boot",
            line: "tote generate systemd --restart > /etc/systemd/system/tote-restart.service && systemctl enable tote-restart",
        },
    ],
    ..Command::new("systemd", "Print a systemd unit that runs a container", |parsed| exit::own(unit::systemd(parsed)))
};

/// `tote generate quadlet`.
pub(crate) static QUADLET: Command = Command {
    usage: "[OPTIONS] DIR [EARLY LATE]\n--dryrun [OPTIONS]",
    details: "\
A generator as systemd.generator(7) describes it: writes to DIR a service for each file that describes a container \
(`.container`), a volume (`.volume`), a network (`.network`) or a pod (`.pod`), in the syntax and with the keys of podman's quadlets. It is this command as well \
when it is called by a link named `tote-system-generator` or `tote-user-generator`.

Files are looked for in `/run/tote/systemd`, `/etc/tote/systemd` and `/usr/share/tote/systemd`; a user's in \
`$XDG_RUNTIME_DIR/tote/systemd`, `~/.config/tote/systemd`, `/etc/tote/systemd/users/UID` and `/etc/tote/systemd/users`; or in \
the directories of `QUADLET_UNIT_DIRS`. An error of one file does not keep the others, and a key without effect is told.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("dryrun", "Print the units and write nothing").aliases(&["dry-run"]),
            Opt::flag("user", "Create units of the user's systemd"),
            Opt::list("unit-dir", "DIR", "Search this directory instead of the usual ones").completes(Completes::Dir),
            Opt::flag("no-kmsg-log", "Accepted for compatibility with podman: nothing is logged to the kernel").short('n'),
        ],
    }],
    positionals: &[
        Positional {
            name: "DIR",
            required: false,
            many: false,
            completes: Completes::Dir,
        },
        word("EARLY", false, false),
        word("LATE", false, false),
    ],
    examples: &[
        Example {
            about: "Let systemd find the files",
            line: "ln -s $(command -v tote) /usr/lib/systemd/system-generators/tote-system-generator && systemctl daemon-reload",
        },
        Example {
            about: "The units of the files in this directory",
            line: "tote generate quadlet --dryrun --unit-dir .",
        },
    ],
    ..Command::new("quadlet", "Create systemd units from quadlet files", unit::quadlet)
};

static SCRIPT: Group = Group {
    title: "",
    options: &[Opt::flag("new", "Create the container again at each start")],
};

/// `tote generate runit`.
pub(crate) static RUNIT: Command = Command {
    usage: "[OPTIONS] CONTAINER",
    details: "\
The container runs in the foreground of the script, and gets its signals. s6 and daemontools take the same script.",
    options: &[&SCRIPT],
    positionals: &[CONTAINER],
    examples: &[Example {
        about: "A runit service",
        line: "mkdir /etc/sv/web && tote generate runit --new web > /etc/sv/web/run && chmod +x /etc/sv/web/run",
    }],
    ..Command::new(
        "runit",
        "Print a run script for runit, s6 and daemontools",
        unit::runit,
    )
};

/// `tote generate openrc`.
pub(crate) static OPENRC: Command = Command {
    usage: "[OPTIONS] CONTAINER",
    details: "The container runs under OpenRC's supervise-daemon, in the foreground, and gets its signals.",
    options: &[&SCRIPT],
    positionals: &[CONTAINER],
    examples: &[Example {
        about: "An OpenRC service",
        line: "tote generate openrc --new web > /etc/init.d/web && chmod +x /etc/init.d/web && rc-update add web",
    }],
    ..Command::new("openrc", "Print a service script for OpenRC", unit::openrc)
};

/// `tote generate`.
pub(crate) static GENERATE: Command = Command {
    usage: "COMMAND",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&SYSTEMD, &QUADLET, &RUNIT, &OPENRC],
    }],
    ..Command::new("generate", "Create units for the host's init", tell::help)
};
