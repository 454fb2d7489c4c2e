//! `tote graph …`.

use super::repeated::{FORMAT, word};
use super::run::RUN_STATUS;
use super::{isolation, life, limits, process};
use crate::{exit, graph, run, tell};
use tote_options::{Command, Completes, Example, Group, Opt, Parsing, Positional, Section};

/// `tote graph`.
pub(crate) static GRAPH: Command = Command {
    usage: "COMMAND",
    details: "\
Closures: what a program needs, and nothing else. An import makes nodes of a root: its packages, and directories for what \
no package has. Each node knows which others it references and why, and is known by the hash of all that. `tote graph run` \
runs a program with exactly its closure as the root file system.

NODE is a name, `NAME=VERSION`, or an id or its beginning. `NODE/PROGRAM`, or `NODE/PROGRAM,PROGRAM`, is a node of only these \
programs of its closure: with what they need, and the data of their packages.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&RUN, &IMPORT, &BUILD, &LS, &TREE, &WHY, &DIFF, &DU, &PROFILE, &RM, &GC],
    }],
    ..Command::new("graph", "Run programs with exactly what they need", tell::help)
};

static RUN: Command = Command {
    usage: "[OPTIONS] PROGRAM|NODE [ARG...]",
    details: "\
Runs a program in a new container that has its closure and nothing else: what is not in it does not exist. The root file system is \
read-only unless `--read-only=false` is given.

`NODE`
: the closure of a node. Where a program in it has the name of the node, or the node has only one, that runs with the ARGs; otherwise \
the first ARG is the program
`NODE/PROGRAM`, `NODE/PROGRAM,PROGRAM`
: of the closure of a node only these programs, what they need, and the data of their packages; the first one runs with the ARGs
`PROGRAM`, `host:PROGRAM`
: a program of this machine, by name or path, with the libraries and files that it needs. Nothing has to be imported. The container \
has copies of its own, which share blocks with the machine's files where the file system can: an upgrade of the machine changes no \
container, and the next start has what is new
`profile:NAME`
: the current generation of a profile",
    options: &[
        &process::IDENTITY,
        &process::PROCESS,
        &process::LIFETIME,
        &process::IMAGE_TOO,
        &process::HEALTH,
        &life::ATTACHING,
        &life::AFTER,
        &isolation::FILESYSTEM,
        &isolation::SECURITY,
        &limits::RESOURCES,
        &isolation::NAMESPACES,
        &isolation::NETWORK,
        &process::OWN,
    ],
    positionals: &[
        Positional { name: "PROGRAM", required: true, many: false, completes: Completes::None },
        word("ARG", false, true),
    ],
    parsing: Parsing::StopAtFirstPositional,
    examples: &[
        Example { about: "A program of this machine with its libraries only", line: "tote graph run --rm python3 -c 'print(1)'" },
        Example {
            about: "A server out of an image, without the rest of the image",
            line: "tote graph import debian-nginx && tote graph run --rm nginx -g 'daemon off;'",
        },
        Example {
            about: "A database server and its client, without the other tools of their packages",
            line: "tote graph profile set db mariadb-server/mariadbd,mariadb-install-db,mariadb && tote graph run -it profile:db bash",
        },
    ],
    exit_status: RUN_STATUS,
    ..Command::new("run", "Run a program with exactly its closure", run::run_closure)
};

static IMPORT: Command = Command {
    usage: "[OPTIONS] SOURCE...",
    details: "\
Makes nodes of a root. SOURCE is an image in the store, a directory (a path that begins with `/` or `.`), one package or several \
that are installed on this machine (`deb:PACKAGE`) with all that they depend on, files of packages or directories of them (`deb:PATH`, with a slash), \
which are unpacked and whose scripts do not run, or all packages of this machine (`host`). Packages are those of dpkg's and apk's databases. Nodes that are there already cost nothing. What was imported is kept under its name until `tote graph rm`.

Of this machine only files that every user may read are taken, all as root's and without set-id bits; what is not below /usr \
comes from the image `host` where that has it.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("quiet", "Print nothing").short('q')],
    }],
    positionals: &[word("SOURCE", true, true)],
    examples: &[
        Example { about: "An image", line: "tote graph import nginx" },
        Example { about: "Two packages of this machine", line: "tote graph import deb:curl deb:ca-certificates" },
        Example { about: "The files of packages in a directory, none of which is installed", line: "tote graph import deb:./packages/" },
    ],
    ..Command::new("import", "Make nodes of an image, of packages or of a directory", |parsed| {
        exit::one(graph::import(parsed))
    })
};

static BUILD: Command = Command {
    usage: "[OPTIONS] [DIR]",
    details: "\
Builds DIR/Totefile (of the current directory): an environment of nodes, files and settings. The same file and the same nodes give \
the same ids, on every machine. The result is a node, and an image as any other. The keys, all of which may be left out:

`name`
: name of the image
`packages`
: list of nodes
`[files]`
: files inside, each with its source below DIR; executable if its owner may execute the source
`command`, `user`, `workdir`, `[env]`
: as in an image
`writable`
: list of directories that are volumes of each container",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value("file", "FILE", "Totefile (DIR/Totefile)").short('f').completes(Completes::File),
            Opt::value("tag", "NAME[:TAG]", "Name of the image").short('t'),
            Opt::flag("quiet", "Print only the id of the image").short('q'),
        ],
    }],
    positionals: &[Positional { name: "DIR", required: false, many: false, completes: Completes::Dir }],
    ..Command::new("build", "Build a Totefile", |parsed| exit::one(graph::build(parsed)))
};

static LS: Command = Command {
    usage: "[OPTIONS]",
    aliases: &["list"],
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("roots", "List what was imported instead"),
            FORMAT,
            Opt::flag("quiet", "Print only ids").short('q'),
        ],
    }],
    ..Command::new("ls", "List nodes", |parsed| exit::one(graph::list(parsed)))
};

static TREE: Command = Command {
    usage: "NODE",
    details: "Prints the closure of a node: below each node what it references, with the reason. What stands elsewhere in the tree is \
              marked with (*).",
    positionals: &[word("NODE", true, false)],
    ..Command::new("tree", "Show what a node references", |parsed| {
        exit::one(graph::tree(parsed))
    })
};

static WHY: Command = Command {
    usage: "NODE OTHER",
    details: "Prints a shortest way of references from NODE to OTHER. Ends with 1 if there is none.",
    positionals: &[word("NODE", true, false), word("OTHER", true, false)],
    examples: &[Example {
        about: "Why a web server needs Perl",
        line: "tote graph why nginx perl-base",
    }],
    ..Command::new("why", "Tell why a node needs another one", |parsed| {
        exit::one(graph::why(parsed))
    })
};

static DIFF: Command = Command {
    usage: "NODE OTHER",
    details: "Lists what the closure of OTHER lacks (-), what only it has (+), and what it has in another version or form (~).",
    positionals: &[word("NODE", true, false), word("OTHER", true, false)],
    ..Command::new("diff", "List the differences of two closures", |parsed| {
        exit::one(graph::diff(parsed))
    })
};

static DU: Command = Command {
    usage: "[OPTIONS] NODE|PROGRAM|IMAGE...",
    details: "\
Prints what closures and images take: all files; of images, their lowest layer (BASE); contents that nothing else in the list has \
(UNIQUE), that this machine does not have at the same paths (NOT ON HOST), and that neither has (OWN). Percentages are of the total.",
    options: &[&Group {
        title: "",
        options: &[FORMAT],
    }],
    positionals: &[word("NODE", true, true)],
    ..Command::new("du", "Show what closures take and share", |parsed| {
        exit::one(graph::usage(parsed))
    })
};

static RM: Command = Command {
    usage: "[OPTIONS] NAME...",
    options: FORCE,
    details: "Forgets what was imported under these names. Nodes that nothing else keeps go with `tote graph gc`.",
    positionals: &[word("NAME", true, true)],
    ..Command::new("rm", "Forget what was imported", |parsed| {
        exit::one(graph::remove(parsed))
    })
};

const FORCE: &[&Group] = &[&Group {
    title: "",
    options: &[Opt::flag("force", "Accept names that nothing has").short('f')],
}];

static GC: Command = Command {
    usage: "",
    details: "Removes nodes that neither an import nor a profile keeps, and images of closures that are not used.",
    ..Command::new("gc", "Remove what nothing keeps", |parsed| {
        exit::one(graph::collect(parsed))
    })
};

static PROFILE: Command = Command {
    usage: "COMMAND",
    details: "\
A profile is a name for a closure that changes: each `set` makes a generation and switches to it as a whole, and `rollback` goes \
back. `tote graph run profile:NAME` runs the current one. Containers that run keep what they have.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&SET, &ROLLBACK, &SWITCH, &PROFILE_LS, &PROFILE_RM],
    }],
    ..Command::new("profile", "Work with profiles", tell::help)
};

static SET: Command = Command {
    usage: "NAME NODE...",
    positionals: &[word("NAME", true, false), word("NODE", true, true)],
    ..Command::new("set", "Make a new generation and switch to it", |parsed| {
        exit::one(graph::profile_set(parsed))
    })
};

static ROLLBACK: Command = Command {
    usage: "NAME",
    positionals: &[word("NAME", true, false)],
    ..Command::new("rollback", "Switch to the generation before", |parsed| {
        exit::one(graph::profile_switch(parsed))
    })
};

static SWITCH: Command = Command {
    usage: "NAME GENERATION",
    positionals: &[word("NAME", true, false), word("GENERATION", true, false)],
    ..Command::new("switch", "Switch to a generation", |parsed| {
        exit::one(graph::profile_switch(parsed))
    })
};

static PROFILE_LS: Command = Command {
    usage: "[OPTIONS]",
    aliases: &["list"],
    options: &[&Group {
        title: "",
        options: &[FORMAT],
    }],
    ..Command::new("ls", "List profiles and their generations", |parsed| {
        exit::one(graph::profile_list(parsed))
    })
};

static PROFILE_RM: Command = Command {
    usage: "[OPTIONS] NAME...",
    options: FORCE,
    positionals: &[word("NAME", true, true)],
    ..Command::new("rm", "Remove profiles", |parsed| {
        exit::one(graph::profile_remove(parsed))
    })
};

/// `tote store report`.
pub(crate) static STORE_REPORT: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Tells of each image with a name: libraries that nothing in it links against, what other images have in layers that are not the same, \
what this machine has at the same paths, and what the image's command does not refer to, which is about what `tote slim` would leave out.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("libraries", "Also list the libraries"), FORMAT],
    }],
    ..Command::new("report", "Show what images have in vain or twice", |parsed| {
        exit::one(graph::store_report(parsed))
    })
};
