//! `tote attach` and `tote logs`.

use super::repeated::{CONTAINER, CONTAINERS, LATEST};
use crate::{attach, exit};
use tote_options::{Command, Example, ExitStatus, Group, Opt};

/// `--detach-keys`.
pub(super) const DETACH_KEYS: Opt = Opt::value(
    "detach-keys",
    "KEYS",
    "Detach from the container when these keys are typed",
)
.default("ctrl-p,ctrl-q")
.details(
    "Keys are single characters, or `ctrl-` and a letter or one of `@[\\\\]^_`, separated by commas. An empty text turns detaching off.",
);

/// `--sig-proxy`.
pub(super) const SIG_PROXY: Opt = Opt::flag(
    "sig-proxy",
    "Pass signals on to the container; --sig-proxy=false turns this off",
);

/// `tote attach`.
pub(crate) static ATTACH: Command = Command {
    usage: "[OPTIONS] CONTAINER",
    details: "\
Shows what the container writes from now on, and passes on what is typed where it was started with `-i`. Several may be \
attached to one container. The exit status is the container's.

A container with a terminal (`-t`) is left alone when the detach keys are typed. Who takes the output too slowly keeps the \
container waiting for ten seconds at most, and is cut off then.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("no-stdin", "Do not attach standard input"),
            SIG_PROXY,
            DETACH_KEYS,
            LATEST,
        ],
    }],
    positionals: &[CONTAINER],
    examples: &[Example {
        about: "Watch the output without sending input",
        line: "tote attach --no-stdin --sig-proxy=false web",
    }],
    exit_status: &[
        ExitStatus { status: "1", about: "The detach keys were typed, or tote cannot attach to the container" },
        ExitStatus { status: "N", about: "In all other cases the exit code of the container" },
    ],
    ..Command::new("attach", "Attach standard input, output and error to a running container", |parsed| exit::own(attach::attach(parsed)))
};

/// `tote logs`.
pub(crate) static LOGS: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "\
Prints what the container has written, its standard output to standard output and its standard error to standard error. Of \
several containers each line has the container's id in front; they are in the order of time, or come as they are followed. \
Nothing is kept of a container of `tote run --rm` without `-d`, nor with `--log-driver none`.

TIME is a duration before now such as `10m` or `1h30m`, a date of RFC 3339 such as `2026-11-21T16:42:02Z` (local time \
without a zone; parts from the end may be left out), or seconds since 1970.",
    options: &[&Group {
        title: "",
        options: &[
            super::accepted::COLOR,
            Opt::flag("follow", "Follow the log, through restarts, until the container has ended").short('f'),
            Opt::value("since", "TIME", "Show log lines since TIME"),
            Opt::value("until", "TIME", "Show log lines until TIME"),
            Opt::value("tail", "NUMBER", "Show this many lines from the end of the log, or all").short('n').default("all"),
            Opt::flag("timestamps", "Show the time of each line").short('t'),
            LATEST,
            Opt::flag("names", "Prefix lines of several containers with their names instead of their ids"),
            Opt::flag("egress", "Show the destinations that the egress policy has refused, or would have to allow")
                .details("Each line has a time, a protocol (`dns` for a name), a destination and a number of packets. With `--egress log` it is \
                          the list that the container would need."),
            Opt::flag("details", "Prefix each line with the labels and variables that --log-opt labels and env name"),
        ],
    }],
    positionals: &[CONTAINERS],
    examples: &[
        Example { about: "The last ten lines, and new ones as they come", line: "tote logs -f -n 10 web" },
        Example { about: "Log lines of the last quarter of an hour", line: "tote logs --since 15m -t web" },
    ],
    ..Command::new("logs", "Print the log of a container", |parsed| exit::own(attach::logs(parsed)))
};
