//! `tote slim`.

use super::repeated::FORMAT;
use super::{isolation, limits, process, remote};
use crate::seal::sealed;
use crate::{exit, slim};
use tote_options::{Command, Completes, Example, ExitStatus, Group, Opt, Positional, Section};

/// Options that the command handles itself; all others are those of its runs.
pub(crate) static OWN: [&Group; 3] = [&RESULT, &RUNS, &FILES];

/// `tote slim`.
pub(crate) static SLIM: Command = Command {
    usage: "[OPTIONS] IMAGE [-- COMMAND [ARG...]]\ndiff IMAGE OTHER",
    details: "\
Makes a smaller image, of only the files that the image's programs need. The image runs with its own command, or with \
COMMAND, while the kernel reports which files it opens (to root by fanotify, to others by seccomp); nothing is put into it. Analysis adds what no run shows: \
interpreters, libraries, links, and files that belong together, such as certificates, locales or the modules of Python. \
Then the smaller image runs with the same commands and probes. Only if these pass there as well it gets its name; \
otherwise the command fails, and says what failed.

The smaller image shares every file with the image: it takes no space for them. Owners, modes, attributes, links and the \
configuration stay as they are, but for a label. Directories, links and empty files stay as well. The files that are left out \
are one more layer of the image NAME-fat, which has everything: `tote debug --tools NAME-fat` shows it beside a container of the \
smaller image, `tote run --slim-fallback` behind one.

A run ends when its command ends, or when all probes have passed, or after 10 seconds where there is no probe. Probes are \
repeated until they pass. The image's health check is always one.",
    options: &[
        &RESULT,
        &RUNS,
        &FILES,
        &process::PROGRAM,
        &isolation::FILESYSTEM,
        &isolation::SECURITY,
        &limits::RESOURCES,
        &isolation::NETWORK,
        &remote::PULLING,
    ],
    positionals: &[
        Positional { name: "IMAGE", required: true, many: false, completes: Completes::Images },
        Positional { name: "COMMAND", required: false, many: true, completes: Completes::None },
    ],
    subcommands: &[Section { title: "Commands", commands: &[&DIFF] }],
    examples: &[
        Example {
            about: "A web server that answers, and shows its error page",
            line: "tote slim --http-probe http://localhost/ --http-probe 404=http://localhost/no nginx",
        },
        Example {
            about: "A database, asked by its own client",
            line: "tote slim --exec 'redis-cli set a b && redis-cli get a' -t redis:small redis",
        },
        Example {
            about: "A smaller image that learns from a test run, in which it has everything",
            line: "tote run --rm --slim-fallback app.slim self-test; tote slim --from-misses app.slim",
        },
        Example {
            about: "A program that ends by itself, twice, and why a file stays",
            line: "tote slim app --also 'app --version' --explain /etc/ssl/openssl.cnf -- app --self-test",
        },
    ],
    exit_status: &[
        ExitStatus { status: "0", about: "The smaller image has its name" },
        ExitStatus { status: "1", about: "A run or a probe failed, in the image or in the smaller one: no name has changed" },
        ExitStatus { status: "125", about: "The command line is wrong, or a container could not be run" },
    ],
    ..Command::new("slim", "Make a smaller image of the files that its programs need", |parsed| {
        sealed(parsed, |parsed| exit::own(slim::slim(parsed)))
    })
};

static DIFF: Command = Command {
    usage: "IMAGE OTHER",
    details: "\
Lists what OTHER lacks of IMAGE (D), what it has in another form (C) and what only it has (A). Of a directory that is not \
there, only its own path is listed.",
    positionals: &[
        Positional {
            name: "IMAGE",
            required: true,
            many: false,
            completes: Completes::Images,
        },
        Positional {
            name: "OTHER",
            required: true,
            many: false,
            completes: Completes::Images,
        },
    ],
    examples: &[Example {
        about: "Files that are gone",
        line: "tote slim diff nginx nginx.slim",
    }],
    ..Command::new("diff", "List the differences of two images", |parsed| {
        exit::image(slim::diff(parsed))
    })
};

static RESULT: Group = Group {
    title: "Result",
    options: &[
        Opt::value(
            "tag",
            "NAME[:TAG]",
            "Name of the smaller image (IMAGE.slim, with the image's tag)",
        )
        .short('t'),
        Opt::list("explain", "PATH", "Say why this path stays, or that it does not")
            .completes(Completes::File),
        Opt::value(
            "html",
            "FILE",
            "Write the report to this file as a page with a map of the image",
        )
        .completes(Completes::File),
        Opt::flag("no-fat", "Do not keep the files that are left out as an image NAME-fat"),
        Opt::value("seccomp-profile", "FILE", "Write a seccomp profile of the calls that the runs made to this file")
            .completes(Completes::File)
            .details(
                "It is the default profile without the calls that no run made. The smaller image has to pass under it and \
                 with only the capabilities that were used; the report names them, and the ports.",
            ),
        FORMAT,
        Opt::flag("quiet", "Print only the id of the smaller image").short('q'),
    ],
};

static RUNS: Group = Group {
    title: "Run",
    options: &[
        Opt::list("http-probe", "[CODE=]URL", "Ask the container by HTTP, from inside its network").details(
            "`http://localhost:8080/path`, `8080/path` or `/path`. A status below 400 passes, or the one that is given. A name \
             in the URL is that of the container itself, which it hears as `Host`.",
        ),
        Opt::list("exec", "LINE", "Run this line in the container's shell; it has to end with exit code 0").details(
            "What it uses stays in the image, the shell included.",
        ),
        Opt::list("probe", "LINE", "Run this line in the shell of this machine, in the container's network").details(
            "It has to end with exit code 0. The programs are this machine's, so they do not stay in the image. \
             `TOTE_CONTAINER` is the id of the container.",
        ),
        Opt::value("run-for", "TIME", "Let each run last this long at least, unless it ends by itself (10s without probes)"),
        Opt::value("probe-timeout", "TIME", "Time in which each probe has to pass").default("30s"),
        Opt::list("also", "COMMAND", "Run the image once more with this command, without probes").details(
            "Words are separated by spaces; a list in JSON, `[\"sh\", \"-c\", \"a b\"]`, has words with spaces.",
        ),
        Opt::flag("from-misses", "IMAGE is a slim image: add the files that its containers have missed").details(
            "Containers of `tote run --slim-fallback` note them. The result takes the name of IMAGE.",
        ),
        Opt::flag("show-clogs", "Show the output of the containers"),
    ],
};

static FILES: Group = Group {
    title: "File",
    options: &[
        Opt::list("include-path", "PATH", "Keep this file, or directory with everything below"),
        Opt::list("include-bin", "FILE", "Keep this program and what it needs"),
        Opt::flag("include-shell", "Keep the shell"),
        Opt::list("include-from", "FILE", "Keep the paths that this file of this machine lists, one a line")
            .completes(Completes::File),
        Opt::list("exclude-pattern", "PATTERN", "Remove paths like /usr/share/doc/**, whatever needs them").details(
            "`*` is any text without a slash, `**` any text, `?` one character. Paths of the options above stay.",
        ),
        Opt::flag("keep-metadata", "Keep the databases of dpkg, apk and rpm, which scanners read"),
    ],
};
