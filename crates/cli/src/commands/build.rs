//! `tote build`.

use super::limits::{CPU_PERIOD, CPU_QUOTA, CPU_SHARES, CPUS, CPUSET_CPUS, CPUSET_MEMS};
use super::repeated::DISK_SIZE;
use crate::seal::sealed;
use crate::{build, exit, image, tell};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

static RESULT: Group = Group {
    title: "",
    options: &[
        Opt::value("file", "FILE", "Path of the Dockerfile (default PATH/Dockerfile); - reads standard input")
            .short('f')
            .completes(Completes::File)
            .details("Without this option, PATH/dockerfile and PATH/Containerfile are tried if PATH/Dockerfile does not exist."),
        Opt::value("ignorefile", "FILE", "Read the patterns of ignored files from this file instead of .dockerignore")
            .completes(Completes::File),
        Opt::list("tag", "NAME[:TAG]", "Give the image this name").short('t'),
        Opt::list("label", "KEY[=VALUE]", "Add a label to the image"),
        DISK_SIZE,
        Opt::list(
            "annotation",
            "[manifest:]KEY=VALUE",
            "Add an annotation to the image's manifest, as push and save write it",
        )
        .details("Annotations are not part of the image's id: images that differ only in annotations are one image."),
        Opt::list("output", "DIR | type=tar,dest=FILE", "Also write the files of the result to this place; - is standard output")
            .short('o')
            .completes(Completes::File)
            .details("\
`type=local,dest=DIR` is the same as DIR: its files belong to the caller. `type=tar,dest=FILE` is an archive of them, \
which keeps owners. `type=docker,dest=FILE` and `type=oci,dest=FILE` are the image, as `save` writes it; `type=docker` \
alone and `type=image` are what there is anyway. `type=image,name=NAME` gives the image that name as well, and \
`type=registry`, short for `type=image,push=true`, pushes it."),
        Opt::value("provenance", "true | mode=max", "Attach an attestation of how the image was made (default false)")
            .details("\
`mode=min`, which true is, names the base images, repositories and downloads with their digests. `mode=max` tells arguments, \
the ids of secrets and the Dockerfile as well. `version=v1`, the default, and `version=v0.2` are forms of SLSA's provenance. The \
image's names stand for an index then, which has the image and what is said about it."),
        Opt::value("sbom", "true", "Attach a list of the image's packages, as an SPDX document (default false)")
            .details("\
Packages are those of dpkg and apk, and of Python and Node. No program of an image looks for them: `generator=` is refused."),
        Opt::list("attest", "type=TYPE[,KEY=VALUE...]", "Attach an attestation, as --provenance or --sbom does; these options win over --attest"),
        Opt::flag("push", "Push the image under each of its names, as `tote push` does"),
        Opt::flag("squash", "Squash the layers that the last stage adds to its base into one"),
        Opt::flag("quiet", "Print only the image's id").short('q'),
        Opt::value("iidfile", "FILE", "Write the image's id to this file").completes(Completes::File),
        Opt::value("metadata-file", "FILE", "Write the image's digests and names to this file, as JSON")
            .completes(Completes::File)
            .details("\
`containerimage.config.digest` is the image's id; `containerimage.digest` is that of the manifest at the registry where the \
image was pushed, and the image's id where it was not; `image.name` has the names."),
        Opt::flag("check", "Check the Dockerfile without building it; the exit code is 1 if there are findings"),
        Opt::value("call", "WHAT", "Action for the Dockerfile: build, or check as --check does")
            .completes(Completes::Words(&["build", "check"]))
            .default("build"),
        Opt::value("progress", "HOW", "Style of the progress output: plain for lines, auto for bars on a terminal, or quiet")
            .completes(Completes::Words(&["auto", "plain", "tty", "quiet"]))
            .default("auto"),
    ],
};

static STEPS: Group = Group {
    title: "Step",
    options: &[
        Opt::value("target", "STAGE", "Build only this stage and the stages that it needs"),
        Opt::list(
            "build-arg",
            "NAME[=VALUE]",
            "Set an ARG; without a value it comes from the environment",
        ),
        Opt::list(
            "build-context",
            "NAME=DIR | NAME=URL | NAME=docker-image://IMAGE | NAME=oci-layout://DIR[:TAG|@DIGEST]",
            "Add a named context or an image for FROM, COPY --from and RUN --mount=from",
        )
        .details("\
It comes before stages and images of that name, so that it can take their place. An image of an OCI layout is loaded from \
it; without TAG and DIGEST the layout must have one image only."),
        Opt::list(
            "secret",
            "id=NAME[,src=FILE|,env=VARIABLE]",
            "Expose a secret to RUN --mount=type=secret",
        ),
        Opt::list(
            "ssh",
            "default|ID[=SOCKET]",
            "Expose an SSH agent to RUN --mount=type=ssh",
        )
        .details("The default socket is that of `SSH_AUTH_SOCK`."),
        Opt::value(
            "jobs",
            "N",
            "Build this many stages at once; 0 for no limit (default: the number of processors)",
        )
        .details("\
Stages that do not need one another are built at once. Lines of their output begin with the stage then: `[stage 2/3 NAME]`. Limits \
such as --memory are for each RUN, so this many together may use as often as much. With 1, stages are built one after another, and a \
command writes straight to the output of the build."),
        Opt::flag("no-cache", "Do not use the build cache"),
        Opt::list(
            "no-cache-filter",
            "STAGE[,STAGE...]",
            "Do not use the build cache for these stages",
        ),
        Opt::list(
            "cache-from",
            "IMAGE | type=local,src=DIR",
            "Also read results of instructions from this cache",
        )
        .details("\
`type=registry,ref=IMAGE`, which IMAGE alone is short for: what `--cache-to` left there, or an image that brings its cache. \
`type=local,src=DIR`: what it left in this directory. One that cannot be read is warned of, no more. Its author can make \
anything of the image, as the author of a base image can."),
        Opt::list(
            "cache-to",
            "IMAGE | type=local,dest=DIR | type=inline",
            "Write the results of instructions to this cache, for --cache-from",
        )
        .details("\
`type=registry,ref=IMAGE` pushes it to this name; IMAGE alone is short for that; without a tag it gets \
`buildcache`, and it is `mode=max` then. `type=local,dest=DIR` writes it to a directory, an OCI layout. `type=inline` puts it into the manifest of the image, \
which `push` takes along. `mode=max` leaves also what stages made that the result only copies from; `ignore-error=true` makes \
a failure a warning."),
        Opt::list(
            "platform",
            "OS/ARCH[/VARIANT][,...]",
            "Build one image for each of these platforms, under one name",
        )
        .details("\
Base images are those for the platform, or for what `FROM --platform` says, for example `$BUILDPLATFORM`, this machine. \
Several platforms make an index: `run` takes the image for this machine, `--platform` another one, and `push` pushes all. \
A RUN of a foreign image needs an interpreter for it in `/proc/sys/fs/binfmt_misc`."),
        Opt::optional_value(
            "pull",
            "WHEN",
            "always",
            "Pull base images: always, missing or never (default missing)",
        )
        .completes(Completes::Words(&["always", "missing", "never"])),
        Opt::flag("pull-never", "Pull no base image, as --pull=never"),
        Opt::value("logfile", "FILE", "Write all output of the build to this file, podman's").completes(Completes::File),
        super::remote::AUTHFILE,
        super::remote::CERT_DIR,
        super::remote::CREDS,
        super::remote::TLS_VERIFY,
    ],
};

/// Options for the container of every RUN, named as for `run`.
pub(crate) const OF_CONTAINERS: [&str; 22] = [
    "isolation",
    "network",
    "add-host",
    "dns",
    "egress",
    "egress-keep",
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
        Opt::value("network", "MODE", "The network of RUN: default, none or host")
            .completes(Completes::Words(&["default", "none", "host"]))
            .details(
                "`default` is `bridge` where this machine and the user can have it, else `none`, and a line says why. Without this \
                 option the network is that of $TOTE_BUILD_NETWORK, else of `build` in `network.json`, else `default`.",
            ),
        Opt::list(
            "add-host",
            "NAME:ADDRESS",
            "Add this line to /etc/hosts of each RUN",
        ),
        Opt::list("dns", "ADDRESS", "Resolve names with this server"),
        Opt::list("egress", "allow:DESTINATION,...|@FILE|none|log", "Let each RUN connect to these destinations only")
            .details(
                "The lists are those of `tote run --egress`. A RUN with a network of its own line, `--network=none` or `=host`, has no \
                 policy or is refused. Images and files that the build itself fetches are not concerned.",
            ),
        Opt::value("egress-keep", "TIME", "Leave addresses of names open for this long after the answer and the last packet").default("10m"),
        Opt::list(
            "volume",
            "SOURCE:TARGET[:OPTIONS]",
            "Mount this directory of the host in each RUN",
        )
        .short('v'),
        Opt::list(
            "device",
            "PATH[:DIR][:rwm]",
            "Give each RUN this device of the host",
        )
        .completes(Completes::File),
        Opt::list("cap-add", "CAPABILITY", "Add this capability, or ALL").completes(Completes::Capabilities),
        Opt::list("cap-drop", "CAPABILITY", "Drop this capability, or ALL")
            .completes(Completes::Capabilities),
        Opt::list(
            "security-opt",
            "OPTION",
            "Change the confinement, such as no-new-privileges or seccomp=FILE",
        ),
        Opt::value("shm-size", "SIZE", "Size of /dev/shm (default 64m)"),
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
            "Create the cgroup of each RUN below this one: a path, or the name of a slice",
        ),
    ],
};

static FOR_DOCKERS_SAKE: Group = Group {
    title: "Accepted",
    options: &[
        Opt::flag(
            "rm",
            "Accepted for compatibility with docker: no container of a step is kept",
        ),
        Opt::flag(
            "force-rm",
            "Accepted for compatibility with docker: no container of a step is kept",
        ),
        Opt::flag(
            "load",
            "Accepted for compatibility with docker: the image is always stored",
        ),
        Opt::flag(
            "compress",
            "Accepted for compatibility with docker: the context is not sent anywhere",
        ),
        Opt::value(
            "builder",
            "NAME",
            "Accepted for compatibility with docker: there is only one builder",
        ),
        Opt::list(
            "allow",
            "ENTITLEMENT",
            "Accepted for compatibility with docker: the host's network needs no entitlement",
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
    ..Command::new(
        "__build-guard",
        "Remove the leftovers of a build that was killed",
        build::guard_build,
    )
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
    options: &[&RESULT, &STEPS, &CONTAINERS, &FOR_DOCKERS_SAKE, &super::accepted::OF_BUILD],
    positionals: &[Positional { name: "PATH", required: true, many: false, completes: Completes::File }],
    examples: &[
        Example { about: "The Dockerfile of the current directory", line: "tote build -t web ." },
        Example { about: "An image from a root file system, whose containers have disks of 20 GiB", line: "tote build -t web --disk-size 20g rootfs.tar" },
        Example { about: "A build with a password that no layer holds", line: "tote build --secret id=npm,src=$HOME/.npmrc -t web ." },
    ],
    ..Command::new("build", "Build an image from a Dockerfile", |parsed| sealed(parsed, build::build))
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
        Opt::flag("all", "Also remove cache entries that named images use").short('a'),
        Opt::flag("force", "Do not ask for confirmation").short('f'),
        Opt::list(
            "filter",
            "until=DURATION",
            "Only remove entries that match, such as until=24h for those unused for a day",
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
            "Prune the least recently used entries until the cache is at most SIZE",
        ),
        Opt::value(
            "min-free-space",
            "SIZE",
            "Prune only until this much of the disk is free",
        ),
        Opt::value("reserved-space", "SIZE", "Keep at least this much of the cache"),
        Opt::value("keep-storage", "SIZE", "Old name of --reserved-space"),
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
    ..Command::new("prune", "Remove the build cache", |parsed| {
        exit::image(image::builder::prune(parsed))
    })
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
            title: "Commands of docker buildx",
            commands: super::builder::COMMANDS,
        },
    ],
    ..Command::new("builder", "Build images and manage the build cache", tell::help)
};
