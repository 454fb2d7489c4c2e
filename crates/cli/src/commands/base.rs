//! Commands that prepare images: making base images, and finding the directories that their programs write to.

use super::process;
use crate::{exit, image};
use tote_options::{Command, Completes, Example, Group, Opt, Positional};

/// `tote image trace`.
pub(crate) static TRACE: Command = Command {
    usage: "IMAGE [OPTIONS] -- COMMAND [ARG...]",
    details: "\
Runs the command in a container that is thrown away, and notes with the image below which directories it wrote. From \
then on containers of the image with `--driver split` have copies of these directories to write to, besides those that \
the driver copies always. Prints each directory with the paths that it is needed for.

Where the command fails, or writes to the root directory itself, nothing is noted.",
    options: &[
        &process::PROCESS,
        &Group {
            title: "Mount",
            options: &[Opt::list("volume", "SOURCE:DIR[:OPTIONS]", "Mount this directory or volume while the command runs")
                .short('v')],
        },
    ],
    positionals: &[
        Positional { name: "IMAGE", required: true, many: false, completes: Completes::Images },
        Positional { name: "COMMAND", required: false, many: true, completes: Completes::None },
    ],
    examples: &[Example {
        about: "A web server that needs no list of paths",
        line: "tote image trace nginx -- timeout 5 nginx && tote run --driver split nginx",
    }],
    ..Command::new("trace", "Find out where a command writes", |parsed| exit::own(image::trace(parsed)))
};

/// `tote image bootstrap`.
pub(crate) static BOOTSTRAP: Command = Command {
    usage: "[OPTIONS] DISTRIBUTION:SUITE",
    details: "\
Makes a base image of a distribution's packages, by mmdebstrap(1), which must be installed. For a user that takes a \
range of ids. The image's command is bash.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list("packages", "NAME[,NAME...]", "Install these packages as well"),
            Opt::value(
                "variant",
                "VARIANT",
                "Install this set: essential, minbase, standard and others of mmdebstrap's",
            )
            .default("minbase")
            .completes(Completes::Words(&[
                "apt",
                "buildd",
                "custom",
                "essential",
                "extract",
                "important",
                "minbase",
                "standard",
            ])),
            Opt::value(
                "mirror",
                "URL",
                "Use this package mirror; the default is the mirror that this machine's apt uses for the suite",
            ),
            Opt::value(
                "tag",
                "NAME[:TAG]",
                "Give the image this name (DISTRIBUTION:SUITE)",
            )
            .short('t'),
            Opt::flag("quiet", "Do not show the output of mmdebstrap").short('q'),
        ],
    }],
    positionals: &[Positional {
        name: "DISTRIBUTION:SUITE",
        required: true,
        many: false,
        completes: Completes::None,
    }],
    examples: &[Example {
        about: "A Debian with git",
        line: "tote image bootstrap --packages git,ca-certificates -t debian-git debian:bookworm",
    }],
    ..Command::new(
        "bootstrap",
        "Make a base image of a distribution's packages",
        |parsed| exit::image(image::bootstrap(parsed)),
    )
};
