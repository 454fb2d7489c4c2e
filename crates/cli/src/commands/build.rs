//! `tote build`.

use tote_options::{Command, Completes, Example, Group, Opt, Positional};

const OF_IMAGES: Command = Command {
    usage: "[OPTIONS] PATH | -",
    details: "\
Carries out a Dockerfile, and makes an image of what comes of it. PATH is the directory whose files it may copy; `-` \
reads an archive of them from standard input, or a Dockerfile that needs none.

What an instruction made is found again by the next build, as long as the instruction, what is below it and the files \
that it copies are the same. `tote image prune` removes what only builds go on from.",
    options: &[
        &Group {
            title: "",
            options: &[
                Opt::value("file", "FILE", "The Dockerfile: PATH/Dockerfile where it is not given, - for standard input")
                    .short('f')
                    .completes(Completes::File),
                Opt::list("tag", "NAME[:TAG]", "Give the image this name").short('t'),
                Opt::value("target", "STAGE", "Build only this stage, and what it needs"),
                Opt::list("build-arg", "NAME[=VALUE]", "Set an ARG; without a value, to that of the environment"),
                Opt::list("secret", "id=NAME[,src=FILE|,env=VARIABLE]", "What RUN --mount=type=secret may ask for"),
                Opt::list("label", "KEY[=VALUE]", "Add a label to the image"),
                Opt::value("network", "MODE", "The network of RUN: none or host")
                    .completes(Completes::Words(&["none", "host"]))
                    .default("none"),
                Opt::value("platform", "OS/ARCH", "What base images must be for"),
                Opt::flag("no-cache", "Carry out every instruction again"),
                Opt::flag("quiet", "Print only the image's id").short('q'),
                Opt::value("iidfile", "FILE", "Write the image's id to this file").completes(Completes::File),
                Opt::value("progress", "HOW", "Accepted for docker's sake: it is always plain")
                    .completes(Completes::Words(&["auto", "plain"])),
                Opt::flag("pull", "Accepted for docker's sake: images come by tote load"),
                Opt::flag("rm", "Accepted for docker's sake: nothing of a step stays"),
                Opt::flag("force-rm", "Accepted for docker's sake: nothing of a step stays"),
            ],
        },
    ],
    positionals: &[Positional { name: "PATH", required: true, many: false, completes: Completes::Dir }],
    examples: &[
        Example { about: "The Dockerfile here", line: "tote build -t web ." },
        Example { about: "With a password that no layer holds", line: "tote build --secret id=npm,src=$HOME/.npmrc -t web ." },
    ],
    ..Command::new("build", "Build an image from a Dockerfile")
};

/// `tote build`.
pub(crate) static BUILD: Command = OF_IMAGES;
/// `tote image build`.
pub(crate) static IMAGE_BUILD: Command = OF_IMAGES;
