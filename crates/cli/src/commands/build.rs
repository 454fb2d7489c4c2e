//! `tote build`.

use super::limits::{CPU_PERIOD, CPU_QUOTA, CPU_SHARES, CPUS, CPUSET_CPUS, CPUSET_MEMS};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

/// `--disk-size`: limit on the bytes that containers of an image may write.
pub(super) const DISK_SIZE: Opt = Opt::value(
    "disk-size",
    "SIZE",
    "Let each container of the image write this much; b, k, m and g may follow the number",
)
.details("\
As `run --disk-size` does, where nobody says otherwise. It is the label `tote.disk-size`, which images that are made of this \
one have as well.");

static RESULT: Group = Group {
    title: "",
    options: &[
        Opt::value("file", "FILE", "The Dockerfile: PATH/Dockerfile where it is not given, - for standard input")
            .short('f')
            .completes(Completes::File)
            .details("Without it, PATH/dockerfile and PATH/Containerfile are taken where there is no PATH/Dockerfile."),
        Opt::value("ignorefile", "FILE", "Leave out of the context what this file says, not .dockerignore")
            .completes(Completes::File),
        Opt::list("tag", "NAME[:TAG]", "Give the image this name").short('t'),
        Opt::list("label", "KEY[=VALUE]", "Add a label to the image"),
        DISK_SIZE,
        Opt::list(
            "annotation",
            "[manifest:]KEY=VALUE",
            "Add an annotation to the image's manifest, as push and save write it",
        )
        .details("It is no part of the image's id: images that differ in annotations only are one image."),
        Opt::list("output", "DIR | type=tar,dest=FILE", "Write the files of the result there as well, - for standard output")
            .short('o')
            .completes(Completes::File)
            .details("\
`type=local,dest=DIR` is the same as DIR: its files belong to the caller. `type=tar,dest=FILE` is an archive of them, \
which keeps owners. `type=docker,dest=FILE` and `type=oci,dest=FILE` are the image, as `save` writes it; `type=docker` \
alone and `type=image` are what there is anyway. `type=image,name=NAME` gives the image that name as well, and \
`type=registry`, short for `type=image,push=true`, pushes it."),
        Opt::value("provenance", "true | mode=max", "Attest how the image was made; false for nothing, which is the default")
            .details("\
`mode=min`, which true is, names the base images, repositories and downloads with their digests. `mode=max` tells arguments, \
the ids of secrets and the Dockerfile as well. `version=v1`, the default, and `version=v0.2` are forms of SLSA's provenance. The \
image's names stand for an index then, which has the image and what is said about it."),
        Opt::value("sbom", "true", "Attest which packages the image has, as a document of SPDX; false for nothing, which is the default")
            .details("\
Packages are those of dpkg and apk, and of Python and Node. No program of an image looks for them: `generator=` is refused."),
        Opt::list("attest", "type=TYPE[,KEY=VALUE...]", "Attest as --provenance (type=provenance) or --sbom (type=sbom) does; these count more"),
        Opt::flag("push", "Push the image under each of its names, as `push` does"),
        Opt::flag("squash", "Make one layer of those that the last stage adds to its base"),
        Opt::flag("quiet", "Print only the image's id").short('q'),
        Opt::value("iidfile", "FILE", "Write the image's id to this file").completes(Completes::File),
        Opt::value("metadata-file", "FILE", "Write the image's digests and names to this file, as JSON")
            .completes(Completes::File)
            .details("\
`containerimage.config.digest` is the image's id; `containerimage.digest` is that of the manifest at the registry where the \
image was pushed, and the image's id where it was not; `image.name` has the names."),
        Opt::flag("check", "Build nothing, and say what is wrong or unwise in the Dockerfile; 1 if anything is"),
        Opt::value("call", "WHAT", "What to do with the Dockerfile: build it, or check it as --check does")
            .completes(Completes::Words(&["build", "check"]))
            .default("build"),
        Opt::value("progress", "HOW", "How to show progress: plain lines, auto, which draws bars on a terminal, or quiet")
            .completes(Completes::Words(&["auto", "plain", "tty", "quiet"]))
            .default("auto"),
    ],
};

static STEPS: Group = Group {
    title: "Step",
    options: &[
        Opt::value("target", "STAGE", "Build only this stage, and what it needs"),
        Opt::list(
            "build-arg",
            "NAME[=VALUE]",
            "Set an ARG; without a value, to that of the environment",
        ),
        Opt::list(
            "build-context",
            "NAME=DIR | NAME=URL | NAME=docker-image://IMAGE | NAME=oci-layout://DIR[:TAG|@DIGEST]",
            "Another context, or an image, for FROM, COPY --from and RUN --mount=from",
        )
        .details("\
It comes before stages and images of that name, so that it can take their place. An image of an OCI layout is loaded from \
it; without TAG and DIGEST the layout must have one image only."),
        Opt::list(
            "secret",
            "id=NAME[,src=FILE|,env=VARIABLE]",
            "What RUN --mount=type=secret may ask for",
        ),
        Opt::list(
            "ssh",
            "default|ID[=SOCKET]",
            "The agent that RUN --mount=type=ssh may ask for",
        )
        .details("Without a socket it is that of `SSH_AUTH_SOCK`."),
        Opt::flag("no-cache", "Carry out every instruction again"),
        Opt::list(
            "no-cache-filter",
            "STAGE[,STAGE...]",
            "Carry out every instruction of these stages again",
        ),
        Opt::list(
            "cache-from",
            "IMAGE | type=local,src=DIR",
            "Where to look for what an instruction made, if it is not here",
        )
        .details("\
`type=registry,ref=IMAGE`, which IMAGE alone is short for: what `--cache-to` left there, or an image that brings its cache. \
`type=local,src=DIR`: what it left in this directory. One that cannot be read is warned of, no more. Its author can make \
anything of the image, as the author of a base image can."),
        Opt::list(
            "cache-to",
            "IMAGE | type=local,dest=DIR | type=inline",
            "Leave there what instructions made, for --cache-from",
        )
        .details("\
`type=registry,ref=IMAGE` pushes it to this name; IMAGE alone is short for that; without a tag it gets \
`buildcache`, and it is `mode=max` then. `type=local,dest=DIR` writes it to a directory, an OCI layout. `type=inline` puts it into the manifest of the image, \
which `push` takes along. `mode=max` leaves also what stages made that the result only copies from; `ignore-error=true` makes \
a failure a warning."),
        Opt::list(
            "platform",
            "OS/ARCH[/VARIANT][,...]",
            "Build for these machines; an image for each, under one name",
        )
        .details("\
Base images are those for the platform, or for what `FROM --platform` says, for example `$BUILDPLATFORM`, this machine. \
Several platforms make an index: `run` takes the image for this machine, `--platform` another one, and `push` pushes all. \
A RUN of a foreign image needs an interpreter for it in `/proc/sys/fs/binfmt_misc`."),
        Opt::optional_value(
            "pull",
            "WHEN",
            "always",
            "Pull base images: always, missing or never; missing where it is not given",
        )
        .completes(Completes::Words(&["always", "missing", "never"])),
        super::remote::AUTHFILE,
        super::remote::CERT_DIR,
        super::remote::TLS_VERIFY,
    ],
};

/// Options for the container of every RUN, named as for `run`.
pub(crate) const OF_CONTAINERS: [&str; 20] = [
    "isolation",
    "network",
    "add-host",
    "dns",
    "volume",
    "device",
    "cap-add",
    "cap-drop",
    "security-opt",
    "shm-size",
    "ulimit",
    "memory",
    "memory-swap",
    "cpus",
    "cpu-shares",
    "cpu-period",
    "cpu-quota",
    "cpuset-cpus",
    "cpuset-mems",
    "cgroup-parent",
];

static CONTAINERS: Group = Group {
    title: "Container",
    options: &[
        Opt::value("network", "MODE", "The network of RUN: none or host")
            .completes(Completes::Words(&["none", "host"]))
            .default("none"),
        Opt::list(
            "add-host",
            "NAME:ADDRESS",
            "Add this line to /etc/hosts while a RUN goes on",
        ),
        Opt::list("dns", "ADDRESS", "Resolve names with this server"),
        Opt::list(
            "volume",
            "SOURCE:TARGET[:OPTIONS]",
            "Mount this directory of the host while a RUN goes on",
        )
        .short('v'),
        Opt::list("device", "PATH[:DIR][:rwm]", "Give RUN this device of the host")
            .completes(Completes::File),
        Opt::list("cap-add", "CAPABILITY", "Add this capability, or ALL").completes(Completes::Capabilities),
        Opt::list("cap-drop", "CAPABILITY", "Drop this capability, or ALL")
            .completes(Completes::Capabilities),
        Opt::list(
            "security-opt",
            "OPTION",
            "Change the confinement, such as no-new-privileges or seccomp=FILE",
        ),
        Opt::value(
            "shm-size",
            "SIZE",
            "The size of /dev/shm; 64m where it is not given",
        ),
        Opt::list(
            "ulimit",
            "NAME=SOFT[:HARD]",
            "Set this limit of setrlimit(2), such as nofile=1024:4096",
        ),
        Opt::value("memory", "SIZE", "Limit the memory of each RUN").short('m'),
        Opt::value(
            "memory-swap",
            "SIZE",
            "Limit memory and swap together; -1 for any amount of swap",
        ),
        CPUS,
        CPU_SHARES,
        CPU_PERIOD,
        CPU_QUOTA,
        CPUSET_CPUS,
        CPUSET_MEMS,
        Opt::value(
            "cgroup-parent",
            "PATH",
            "Make the control group of each RUN below this one: a path, or a slice's name",
        ),
    ],
};

static FOR_DOCKERS_SAKE: Group = Group {
    title: "Accepted",
    options: &[
        Opt::flag("rm", "Accepted for docker's sake: nothing of a step stays"),
        Opt::flag("force-rm", "Accepted for docker's sake: nothing of a step stays"),
        Opt::flag("load", "Accepted for docker's sake: the image is always kept"),
        Opt::flag(
            "compress",
            "Accepted for docker's sake: the context is not sent anywhere",
        ),
        Opt::value(
            "builder",
            "NAME",
            "Accepted for docker's sake: there is one builder",
        ),
        Opt::list(
            "allow",
            "ENTITLEMENT",
            "Accepted for docker's sake: a RUN that asks for the host's network has it anyway",
        ),
        super::remote::CONTENT_TRUST,
        super::isolation::TECHNOLOGY,
    ],
};

/// `tote __build-guard DIR`, which clears up after a build that was killed.
pub(crate) static BUILD_GUARD: Command = Command {
    usage: "DIR",
    positionals: &[Positional {
        name: "DIR",
        required: true,
        many: false,
        completes: Completes::Dir,
    }],
    hidden: true,
    ..Command::new("__build-guard", "Clear up after a build that was killed")
};

const OF_IMAGES: Command = Command {
    usage: "[OPTIONS] PATH | URL | ARCHIVE | -",
    details: "\
Carries out a Dockerfile, and makes an image of what comes of it. PATH is the directory whose files it may copy, and \
ARCHIVE has them in it; `-` reads such an archive from standard input, or a Dockerfile that needs none. An ARCHIVE without a \
Dockerfile is a root file system, as `export` writes it, and all of the image. URL is a repository of git, such as \
`https://HOST/NAME.git#BRANCH:DIRECTORY`, or the address of an archive or of a Dockerfile that needs no files. git(1) fetches \
repositories; a token for them is `--secret id=GIT_AUTH_TOKEN,src=FILE`, and keys are those of an agent.

What an instruction made is found again by the next build, as long as the instruction, what is below it and the files \
that it copies are the same. `tote builder prune` removes what only builds go on from.

Images that the build begins with are pulled where they are missing.",
    options: &[&RESULT, &STEPS, &CONTAINERS, &FOR_DOCKERS_SAKE],
    positionals: &[Positional { name: "PATH", required: true, many: false, completes: Completes::File }],
    examples: &[
        Example { about: "The Dockerfile here", line: "tote build -t web ." },
        Example { about: "A root file system, whose containers have disks of 20 GiB", line: "tote build -t web --disk-size 20g rootfs.tar" },
        Example { about: "With a password that no layer holds", line: "tote build --secret id=npm,src=$HOME/.npmrc -t web ." },
    ],
    ..Command::new("build", "Build an image from a Dockerfile")
};

/// `tote build`.
pub(crate) static BUILD: Command = OF_IMAGES;
/// `tote image build`.
pub(crate) static IMAGE_BUILD: Command = OF_IMAGES;
/// `tote builder build`.
static BUILDER_BUILD: Command = OF_IMAGES;

/// Options that all commands for pruning the build cache share.
pub(super) static PRUNING: Group = Group {
    title: "",
    options: &[
        Opt::flag("all", "Also what images with a name are made of").short('a'),
        Opt::flag("force", "Do not ask").short('f'),
        Opt::list(
            "filter",
            "until=DURATION",
            "Only what was not used for so long, such as until=24h",
        ),
    ],
};

/// Options that limit how much is kept.
static KEEPING: Group = Group {
    title: "What stays",
    options: &[
        Opt::value(
            "max-used-space",
            "SIZE",
            "Remove, what was not used for the longest time first, only until no more than this is left",
        ),
        Opt::value(
            "min-free-space",
            "SIZE",
            "Remove only until so much is free on the disk",
        ),
        Opt::value("reserved-space", "SIZE", "Keep so much in any case"),
        Opt::value("keep-storage", "SIZE", "As --reserved-space, by its old name"),
    ],
};

/// `tote builder prune`.
static BUILDER_PRUNE: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Removes what only builds go on from: images of stages, results of instructions whose layers are gone, and the directories \
of `RUN --mount=type=cache`, unless a build uses them just now. With `--all` the next build carries out every instruction \
again, unless something is said of what stays: results of instructions take next to no room.",
    options: &[&PRUNING, &KEEPING],
    ..Command::new("prune", "Remove what is kept for builds")
};

/// `tote builder`.
pub(crate) static BUILDER: Command = Command {
    usage: "COMMAND",
    details: "\
There is one builder, this program: none is made, chosen or started, and commands that would do so say that. Files of \
several builds (`buildx bake`) are not known here: give `build` each Dockerfile by itself.",
    aliases: &["buildx"],
    subcommands: &[
        Section {
            title: "Commands",
            commands: &[&BUILDER_BUILD, &BUILDER_PRUNE],
        },
        Section {
            title: "Commands of docker's buildx",
            commands: super::builder::COMMANDS,
        },
    ],
    ..Command::new("builder", "Build images, and look after what builds keep")
};
