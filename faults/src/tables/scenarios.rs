//! All commands that change or read state, for the stepper. `{dir}` is the scratch directory.

use crate::step::scenario::Act::{KillMonitor, Remove, Tote};
use crate::step::scenario::Fact::{
    Container, File, Image, Network, NoContainer, NoImage, NoNetwork, NoPod, NoPool, NoVolume, Pod, Pool,
    Says, Volume,
};
use crate::step::scenario::Front::{HangsUp, Leaves, Terminal};
use crate::step::scenario::{Act, PLAIN, Scenario};

/// Container `x` with an anonymous volume; it has not run.
const MADE: &[Act] = &[Tote(&[
    "create", "--name", "x", "-v", "/data", "tiny:1", "sleep", "1000",
])];
/// Container `x` with an anonymous volume; it runs.
const RUNNING: &[Act] = &[Tote(&[
    "run", "-d", "--name", "x", "-v", "/data", "tiny:1", "sleep", "1000",
])];
/// Container `x` that is mounted; it has not run.
const MOUNTED: &[Act] = &[MADE[0], Tote(&["mount", "x"])];
/// Container with a disk of its own in a file, which the first start makes; it has run.
const DISK: &[Act] = &[
    Tote(&[
        "create",
        "--name",
        "x",
        "--driver",
        "loop",
        "--disk-size",
        "16m",
        "tiny:1",
        "sh",
        "-c",
        "echo precious >/mark; sleep 1000",
    ]),
    Tote(&["start", "x"]),
    Tote(&["stop", "-t", "0", "x"]),
];
/// Container with a file of its own, whose monitor was killed.
const UNWATCHED: &[Act] = &[
    Tote(&[
        "create", "--name", "cold", "-v", "db:/db", "tiny:1", "sleep", "1000",
    ]),
    Tote(&["cp", "{dir}/mark", "cold:/mark"]),
    Tote(&["start", "cold"]),
    KillMonitor("cold"),
];
const GONE: &[Act] = &[Tote(&["rm", "-f", "-v", "-i", "x", "cold"])];
const NO_IMAGE: &[Act] = &[
    Tote(&["rmi", "-f", "-i", "t:2"]),
    Tote(&["image", "prune", "-f"]),
    Tote(&["builder", "prune", "-af"]),
];
const NO_SLIM: &[Act] = &[
    Tote(&["rmi", "-f", "-i", "t:2", "t-fat:2"]),
    NO_IMAGE[1],
    NO_IMAGE[2],
];
const SECRET: &[Act] = &[Tote(&["secret", "create", "--replace", "s1", "{dir}/mark"])];
const SECRETS: &[Act] = &[Tote(&["secret", "rm", "-i", "nosuch"])];
const NO_SECRET: &[Act] = &[Tote(&["secret", "rm", "-i", "s1"])];
const GRAPH: &[Act] = &[Tote(&["graph", "gc"]), IMAGES[0], PLAIN.sweep[0]];
const NO_GRAPH: &[Act] = &[
    Tote(&["graph", "profile", "rm", "-f", "p"]),
    Tote(&["graph", "rm", "-f", "tiny:1"]),
    Tote(&["graph", "gc"]),
];
const NO_VOLUME: &[Act] = &[Tote(&["volume", "rm", "-f", "v1"])];
const NO_POD: &[Act] = &[Tote(&["pod", "rm", "-f", "-i", "p"])];
const NO_POOL: &[Act] = &[
    Tote(&["pool", "rm", "-f", "pl"]),
    Tote(&["rm", "-f", "-v", "-i", "x"]),
];
const NETWORK: &[Act] = &[Tote(&["network", "create", "--subnet", "10.78.0.0/24", "n1"])];
const NO_NETWORK: &[Act] = &[
    Tote(&["rm", "-f", "-i", "x"]),
    Tote(&["network", "rm", "-f", "n1"]),
];
/// A container that runs in one network, and another network.
const JOINED: &[Act] = &[
    NETWORK[0],
    Tote(&[
        "run",
        "-d",
        "--name",
        "x",
        "--network",
        "lab",
        "tiny:1",
        "sleep",
        "1000",
    ]),
];
/// Nodes of closures, with their sizes.
const NODES: &[&[&str]] = &[&["graph", "ls"]];
/// Names of an image's files: one that is left out is seen in no other way.
const FILES: &[&[&str]] = &[&[
    "run",
    "--rm",
    "--network",
    "none",
    "t:2",
    "busybox",
    "find",
    "/bin",
    "/etc",
    "/mark",
    "/built",
]];
/// The links that a container really has.
const LINKS: &[&[&str]] = &[&["exec", "x", "busybox", "ls", "/sys/class/net"]];
/// An index of one image.
const INDEX: &[Act] = &[Tote(&["manifest", "create", "t:2", "tiny:1"])];
const POD: &[Act] = &[
    Tote(&["pod", "create", "--name", "p"]),
    Tote(&[
        "run", "-d", "--pod", "p", "--name", "x", "tiny:1", "sleep", "1000",
    ]),
];
const NO_OUTPUT: &[Act] = &[Remove("written")];

const IMAGES: &[Act] = &[Tote(&["image", "prune", "-f"])];
const VOLUMES: &[Act] = &[Tote(&["volume", "prune", "-f"])];
const PODS: &[Act] = &[Tote(&["pod", "rm", "-i", "nosuch"]), PLAIN.sweep[0]];

const POOLS: &[Act] = &[Tote(&["pool", "rm", "-f", "nosuch"]), PLAIN.sweep[0]];

const IMAGE: Scenario = Scenario {
    sweep: IMAGES,
    undo: NO_IMAGE,
    ..PLAIN
};

/// Scenarios in the order in which they are tried.
#[rustfmt::skip]
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "run-rm", command: &["run", "--rm", "--name", "x", "tiny:1", "echo", "said"], done: &[Says("said"), NoContainer("x")], same: true, ..PLAIN },
    Scenario { name: "run-rm-volume", command: &["run", "--rm", "-v", "/data", "tiny:1", "echo", "said"], done: &[Says("said")], ..PLAIN },
    Scenario { name: "run-rm-host", command: &["run", "--rm", "--name", "x", "host", "true"], done: &[NoContainer("x")], ..PLAIN },
    Scenario { name: "run", command: &["run", "--name", "x", "tiny:1", "echo", "said"], done: &[Says("said"), Container("x", "exited")], ..PLAIN },
    Scenario { name: "run-d", command: &["run", "-d", "--name", "x", "-v", "db:/db", "tiny:1", "sleep", "1000"], lingers: true, done: &[Container("x", "running")], ..PLAIN },
    Scenario { name: "run-d-short", command: &["run", "-d", "--name", "x", "tiny:1", "true"], done: &[Container("x", "exited")], ..PLAIN },
    Scenario { name: "run-d-rm", command: &["run", "-d", "--rm", "--name", "x", "-v", "/data", "tiny:1", "true"], done: &[NoContainer("x")], ..PLAIN },
    Scenario { name: "run-rm-terminal", command: &["run", "--rm", "-i", "-t", "--name", "x", "tiny:1", "echo", "said"], front: Terminal, done: &[Says("said"), NoContainer("x")], ..PLAIN },
    Scenario { name: "run-terminal", command: &["run", "-i", "-t", "--name", "x", "tiny:1", "echo", "said"], front: Terminal, done: &[Says("said"), Container("x", "exited")], ..PLAIN },
    Scenario { name: "run-rm-leave", command: &["run", "--rm", "-i", "-t", "--detach-keys", "a,b", "--name", "x", "tiny:1", "sh", "-c", "echo said; sleep 4"], front: Leaves("ab"), lingers: true, done: &[Says("said")], ..PLAIN },
    Scenario { name: "run-hang-up", command: &["run", "-i", "-t", "--name", "x", "tiny:1", "sh", "-c", "echo said; sleep 4"], front: HangsUp, lingers: true, refused: true, ..PLAIN },
    Scenario { name: "create", command: &["create", "--name", "x", "tiny:1", "true"], done: &[Container("x", "created")], ..PLAIN },
    Scenario { name: "create-volume", command: &["create", "--name", "x", "-v", "/data", "tiny:1", "true"], done: &[Container("x", "created")], ..PLAIN },
    Scenario { name: "create-taken", command: &["create", "--name", "keep", "tiny:1", "true"], refused: true, done: &[Container("keep", "running")], ..PLAIN },
    Scenario { name: "start", before: MADE, command: &["start", "x"], lingers: true, done: &[Container("x", "running")], ..PLAIN },
    Scenario { name: "loop-create", command: &["create", "--name", "x", "--driver", "loop", "--disk-size", "16m", "tiny:1", "true"], done: &[Container("x", "created")], ..PLAIN },
    Scenario { name: "loop-run", command: &["run", "--name", "x", "--driver", "loop", "--disk-size", "16m", "tiny:1", "echo", "said"], done: &[Says("said"), Container("x", "exited")], ..PLAIN },
    Scenario { name: "loop-run-rm", command: &["run", "--rm", "--name", "x", "--driver", "loop", "--disk-size", "16m", "tiny:1", "echo", "said"], done: &[Says("said"), NoContainer("x")], ..PLAIN },
    Scenario { name: "loop-start", before: &[DISK[0]], command: &["start", "x"], lingers: true, done: &[Container("x", "running")], ..PLAIN },
    Scenario { name: "loop-start-again", before: DISK, command: &["start", "x"], lingers: true, done: &[Container("x", "running")], ..PLAIN },
    Scenario { name: "loop-rm", before: DISK, command: &["rm", "x"], done: &[NoContainer("x")], ..PLAIN },
    Scenario { name: "loop-rm-f", before: &[DISK[0], DISK[1]], command: &["rm", "-f", "x"], done: &[NoContainer("x")], ..PLAIN },
    Scenario { name: "loop-commit", before: DISK, command: &["commit", "x", "t:2"], done: &[Image("t:2")], undo: &[PLAIN.undo[0], NO_IMAGE[0], NO_IMAGE[1], NO_IMAGE[2]], shows: FILES, ..IMAGE },
    Scenario { name: "stop", before: RUNNING, command: &["stop", "-t", "0", "x"], done: &[Container("x", "exited")], ..PLAIN },
    Scenario { name: "kill", before: RUNNING, command: &["kill", "x"], ..PLAIN },
    Scenario { name: "restart", before: RUNNING, command: &["restart", "-t", "0", "x"], lingers: true, done: &[Container("x", "running")], ..PLAIN },
    Scenario { name: "pause", before: RUNNING, command: &["pause", "x"], done: &[Container("x", "paused")], ..PLAIN },
    Scenario { name: "unpause", before: &[RUNNING[0], Tote(&["pause", "x"])], command: &["unpause", "x"], done: &[Container("x", "running")], ..PLAIN },
    Scenario { name: "update", before: RUNNING, command: &["update", "--pids-limit", "50", "--restart", "no", "x"], done: &[Container("x", "running")], ..PLAIN },
    Scenario { name: "exec", before: RUNNING, command: &["exec", "x", "echo", "said"], done: &[Says("said"), Container("x", "running")], same: true, ..PLAIN },
    Scenario { name: "rename", before: MADE, command: &["rename", "x", "y"], done: &[Container("y", "created"), NoContainer("x")], undo: &[Tote(&["rm", "-f", "-v", "-i", "x", "y"])], same: true, ..PLAIN },
    Scenario { name: "mount", before: MADE, command: &["mount", "x"], done: &[Says("/mounts/"), Container("x", "created")], ..PLAIN },
    Scenario { name: "mount-running", before: RUNNING, command: &["mount", "x"], done: &[Says("/mounts/"), Container("x", "running")], ..PLAIN },
    Scenario { name: "umount", before: MOUNTED, command: &["umount", "x"], done: &[Says("x"), Container("x", "created")], ..PLAIN },
    Scenario { name: "start-mounted", before: MOUNTED, command: &["start", "x"], lingers: true, done: &[Container("x", "running")], ..PLAIN },
    Scenario { name: "rm-mounted", before: MOUNTED, command: &["rm", "-v", "x"], done: &[NoContainer("x")], ..PLAIN },
    Scenario { name: "rm", before: MADE, command: &["rm", "x"], done: &[NoContainer("x")], undo: &[Tote(&["rm", "-f", "-v", "-i", "x"]), Tote(&["volume", "prune", "-f"])], ..PLAIN },
    Scenario { name: "rm-v", before: MADE, command: &["rm", "-v", "x"], done: &[NoContainer("x")], ..PLAIN },
    Scenario { name: "rm-f", before: RUNNING, command: &["rm", "-f", "-v", "x"], done: &[NoContainer("x")], ..PLAIN },
    Scenario { name: "sweep", before: UNWATCHED, command: &["rm", "-i", "nosuch"], keeps: &["cold"], undo: GONE, ..PLAIN },
    Scenario { name: "run-rm-sweep", before: UNWATCHED, command: &["run", "--rm", "tiny:1", "true"], keeps: &["cold"], undo: GONE, ..PLAIN },
    Scenario { name: "start-unwatched", before: UNWATCHED, command: &["start", "cold"], lingers: true, done: &[Container("cold", "running")], keeps: &["cold"], undo: GONE, ..PLAIN },
    Scenario { name: "rm-f-unwatched", before: UNWATCHED, command: &["rm", "-f", "cold"], done: &[NoContainer("cold")], undo: GONE, ..PLAIN },
    Scenario { name: "ps", before: UNWATCHED, command: &["ps", "-a"], keeps: &["cold"], undo: GONE, ..PLAIN },
    Scenario { name: "inspect", command: &["inspect", "keep", "kept"], done: &[Says("precious")], ..PLAIN },
    Scenario { name: "cp-in", before: MADE, command: &["cp", "{dir}/mark", "x:/mark"], ..PLAIN },
    Scenario { name: "cp-out", command: &["cp", "kept:/mark", "{dir}/written"], done: &[File("written")], undo: NO_OUTPUT, ..PLAIN },
    Scenario { name: "cp-in-running", before: RUNNING, command: &["cp", "{dir}/mark", "x:/mark"], ..PLAIN },
    Scenario { name: "cp-out-running", command: &["cp", "keep:/mark", "{dir}/written"], done: &[File("written")], undo: NO_OUTPUT, ..PLAIN },
    Scenario { name: "export", command: &["export", "-o", "{dir}/written", "kept"], done: &[File("written")], undo: NO_OUTPUT, ..PLAIN },
    Scenario { name: "commit", command: &["commit", "kept", "t:2"], done: &[Image("t:2")], shows: FILES, ..IMAGE },
    Scenario { name: "slim", command: &["slim", "--network", "none", "-t", "t:2", "tiny:1", "--", "sh", "-c", "true"], done: &[Image("t:2"), Image("t-fat:2")], sweep: &[IMAGES[0], PLAIN.sweep[0]], undo: NO_SLIM, shows: FILES, ..IMAGE },
    Scenario { name: "slim-fallback", before: &[Tote(&["slim", "-q", "--network", "none", "-t", "t:2", "tiny:1", "--", "sh", "-c", "true"])], command: &["run", "--rm", "--slim-fallback", "--name", "x", "--network", "none", "t:2", "sh", "-c", "echo said"], done: &[Says("said"), NoContainer("x")], sweep: &[IMAGES[0], PLAIN.sweep[0]], undo: NO_SLIM, same: true, ..IMAGE },
    Scenario { name: "graph-import", command: &["graph", "import", "tiny:1"], done: &[Says("nodes"), Image("tiny:1")], sweep: GRAPH, undo: NO_GRAPH, same: true, shows: NODES, ..IMAGE },
    Scenario { name: "graph-gc", before: &[Tote(&["graph", "import", "tiny:1"]), Tote(&["graph", "rm", "tiny:1"])], command: &["graph", "gc"], done: &[Says("removed"), Image("tiny:1")], sweep: GRAPH, undo: NO_GRAPH, ..IMAGE },
    Scenario { name: "graph-build", before: &[Tote(&["graph", "import", "tiny:1"])], command: &["graph", "build", "-t", "t:2", "{dir}/context"], done: &[Image("t:2"), Image("tiny:1")], sweep: GRAPH, undo: &[Tote(&["rmi", "-f", "-i", "t:2"]), Tote(&["graph", "rm", "-f", "totefile:t:2"]), NO_GRAPH[1], NO_GRAPH[2]], same: true, shows: NODES, ..IMAGE },
    Scenario { name: "graph-set", before: &[Tote(&["graph", "import", "tiny:1"])], command: &["graph", "profile", "set", "p", "dir:/bin/sh"], done: &[Says("1"), Image("tiny:1")], sweep: GRAPH, undo: NO_GRAPH, same: true, shows: NODES, ..IMAGE },
    Scenario { name: "graph-run", before: &[Tote(&["graph", "import", "tiny:1"])], command: &["graph", "run", "--rm", "--name", "x", "--network", "none", "dir:/bin/sh", "-c", "echo said"], done: &[Says("said"), NoContainer("x"), Image("tiny:1")], sweep: GRAPH, undo: NO_GRAPH, same: true, ..IMAGE },
    Scenario { name: "graph-switch", before: &[Tote(&["graph", "import", "tiny:1"]), Tote(&["graph", "profile", "set", "p", "base"]), Tote(&["graph", "profile", "set", "p", "dir:/bin"])], command: &["graph", "profile", "rollback", "p"], done: &[Image("tiny:1")], sweep: GRAPH, undo: NO_GRAPH, ..IMAGE },
    Scenario { name: "build", command: &["build", "-t", "t:2", "{dir}/context"], done: &[Image("t:2")], sweep: &[PLAIN.sweep[0], Tote(&["builder", "prune", "-f"])], shows: FILES, ..IMAGE },
    Scenario { name: "build-at-once", command: &["build", "--jobs", "2", "-t", "t:2", "-f", "{dir}/context/Two", "{dir}/context"], done: &[Image("t:2")], sweep: &[PLAIN.sweep[0], Tote(&["builder", "prune", "-f"])], shows: FILES, ..IMAGE },
    Scenario { name: "load", command: &["load", "-i", "{dir}/saved.tar"], done: &[Image("t:2")], shows: FILES, ..IMAGE },
    Scenario { name: "import", command: &["import", "{dir}/other.tar", "t:2"], done: &[Image("t:2")], shows: FILES, ..IMAGE },
    Scenario { name: "save", command: &["save", "-o", "{dir}/written", "tiny:1"], done: &[File("written")], undo: NO_OUTPUT, ..IMAGE },
    Scenario { name: "tag", command: &["tag", "tiny:1", "t:2"], done: &[Image("t:2")], same: true, ..IMAGE },
    Scenario { name: "manifest-create", command: &["manifest", "create", "t:2", "tiny:1"], done: &[Image("t:2")], ..IMAGE },
    Scenario { name: "rmi", before: &[Tote(&["import", "{dir}/other.tar", "t:2"])], command: &["rmi", "t:2"], done: &[NoImage("t:2"), Image("tiny:1")], ..IMAGE },
    Scenario { name: "image-prune", before: &[Tote(&["import", "{dir}/other.tar", "t:2"]), UNWATCHED[0], UNWATCHED[1], UNWATCHED[2], UNWATCHED[3]], command: &["image", "prune", "-af"], done: &[NoImage("t:2"), Image("tiny:1")], keeps: &["cold"], sweep: &[IMAGES[0], PLAIN.sweep[0]], undo: &[GONE[0], NO_IMAGE[0], NO_IMAGE[1]], ..IMAGE },
    Scenario { name: "secret-create", command: &["secret", "create", "--replace", "s1", "{dir}/mark"], sweep: SECRETS, undo: NO_SECRET, same: true, ..PLAIN },
    Scenario { name: "secret-rm", before: SECRET, command: &["secret", "rm", "s1"], sweep: SECRETS, undo: NO_SECRET, ..PLAIN },
    Scenario { name: "run-rm-secret", before: SECRET, command: &["run", "--rm", "--secret", "s1,mode=0400", "-v", "db:/db:O", "--name", "x", "tiny:1", "sh", "-c", "cat /run/secrets/s1 >/db/s1 && echo said"], done: &[Says("said"), NoContainer("x"), Volume("db")], sweep: &[SECRETS[0], PLAIN.sweep[0]], undo: &[PLAIN.undo[0], NO_SECRET[0]], same: true, ..PLAIN },
    Scenario { name: "volume-create", command: &["volume", "create", "--label", "a=b", "v1"], done: &[Volume("v1")], sweep: VOLUMES, undo: NO_VOLUME, same: true, ..PLAIN },
    Scenario { name: "volume-import", before: &[Tote(&["volume", "create", "v1"])], command: &["volume", "import", "v1", "{dir}/other.tar"], done: &[Volume("v1"), Volume("db")], sweep: VOLUMES, undo: NO_VOLUME, ..PLAIN },
    Scenario { name: "volume-rm", before: &[Tote(&["volume", "create", "v1"])], command: &["volume", "rm", "v1"], done: &[NoVolume("v1"), Volume("db")], sweep: VOLUMES, undo: NO_VOLUME, ..PLAIN },
    Scenario { name: "volume-rm-used", before: UNWATCHED, command: &["volume", "rm", "db"], refused: true, done: &[Volume("db")], keeps: &["cold"], undo: GONE, ..PLAIN },
    Scenario { name: "volume-prune", before: &[Tote(&["volume", "create", "v1"]), UNWATCHED[0], UNWATCHED[1], UNWATCHED[2], UNWATCHED[3]], command: &["volume", "prune", "-af"], done: &[NoVolume("v1"), Volume("db")], keeps: &["cold"], sweep: &[VOLUMES[0], PLAIN.sweep[0]], undo: &[NO_VOLUME[0], GONE[0]], ..PLAIN },
    Scenario { name: "pod-create", before: UNWATCHED, command: &["pod", "create", "--name", "p"], done: &[Pod("p"), Pod("group")], keeps: &["cold"], sweep: PODS, undo: &[NO_POD[0], GONE[0]], ..PLAIN },
    Scenario { name: "pod-run", before: &[Tote(&["pod", "create", "--name", "p"])], command: &["run", "-d", "--pod", "p", "--name", "x", "tiny:1", "sleep", "1000"], lingers: true, done: &[Pod("p"), Container("x", "running")], sweep: PODS, undo: NO_POD, ..PLAIN },
    Scenario { name: "pod-rm", before: &[Tote(&["pod", "create", "--name", "p"]), Tote(&["run", "-d", "--pod", "p", "--name", "x", "tiny:1", "sleep", "1000"])], command: &["pod", "rm", "-f", "p"], done: &[NoPod("p"), Pod("group")], sweep: PODS, undo: NO_POD, ..PLAIN },
    Scenario { name: "network-create", command: &["network", "create", "--subnet", "10.78.0.0/24", "n1"], done: &[Network("n1"), Network("lab")], undo: NO_NETWORK, same: true, ..PLAIN },
    Scenario { name: "network-rm", before: NETWORK, command: &["network", "rm", "n1"], done: &[NoNetwork("n1"), Network("lab")], undo: NO_NETWORK, ..PLAIN },
    Scenario { name: "network-run-rm", command: &["run", "--rm", "--name", "x", "--network", "lab", "tiny:1", "echo", "said"], lingers: true, done: &[Says("said"), NoContainer("x")], undo: NO_NETWORK, same: true, ..PLAIN },
    Scenario { name: "network-run", before: NETWORK, command: &["run", "-d", "--name", "x", "--network", "lab", "--network", "n1", "-p", "8080:80", "tiny:1", "sleep", "1000"], lingers: true, done: &[Container("x", "running")], undo: NO_NETWORK, shows: LINKS, ..PLAIN },
    Scenario { name: "network-connect", before: JOINED, command: &["network", "connect", "--alias", "www", "n1", "x"], done: &[Container("x", "running")], undo: NO_NETWORK, shows: LINKS, ..PLAIN },
    Scenario { name: "network-disconnect", before: &[JOINED[0], JOINED[1], Tote(&["network", "connect", "n1", "x"])], command: &["network", "disconnect", "n1", "x"], done: &[Container("x", "running")], undo: NO_NETWORK, shows: LINKS, ..PLAIN },
    Scenario { name: "network-rm-f", before: JOINED, command: &["rm", "-f", "x"], done: &[NoContainer("x")], undo: NO_NETWORK, ..PLAIN },
    Scenario { name: "pool-fill", command: &["pool", "fill", "pl", "-n", "1", "tiny:1", "--", "true"], lingers: true, done: &[Pool("pl")], sweep: &[Tote(&["pool", "fill", "pl", "-n", "1", "tiny:1", "--", "true"]), PLAIN.sweep[0]], undo: NO_POOL, ..PLAIN },
    Scenario { name: "pool-run", before: &[Tote(&["pool", "fill", "pl", "-n", "1", "tiny:1", "--", "true"])], command: &["run", "--pool", "pl", "echo", "said"], lingers: true, done: &[Says("said")], sweep: &[Tote(&["pool", "fill", "pl", "-n", "1"]), PLAIN.sweep[0]], undo: NO_POOL, ..PLAIN },
    Scenario { name: "pool-rm", before: &[Tote(&["pool", "fill", "pl", "-n", "1", "tiny:1", "--", "true"])], command: &["pool", "rm", "pl"], done: &[NoPool("pl")], sweep: POOLS, undo: NO_POOL, ..PLAIN },
    Scenario { name: "prune", bare: true, before: &[Tote(&["import", "{dir}/other.tar", "t:2"]), MADE[0]], command: &["prune", "-af"], done: &[NoImage("t:2"), NoContainer("x"), Image("tiny:1"), Volume("db"), Container("keep", "running")], undo: &[PLAIN.undo[0], Tote(&["volume", "prune", "-f"]), NO_IMAGE[0], NO_IMAGE[1], NO_IMAGE[2]], sweep: &[PLAIN.sweep[0], IMAGES[0]], ..IMAGE },
    Scenario { name: "wait", command: &["wait", "kept"], done: &[Says("0")], same: true, ..PLAIN },
    Scenario { name: "logs", before: &[Tote(&["run", "--name", "x", "tiny:1", "echo", "said"])], command: &["logs", "x"], done: &[Says("said")], same: true, ..PLAIN },
    Scenario { name: "diff", command: &["diff", "kept"], done: &[Says("A /mark")], same: true, ..PLAIN },
    Scenario { name: "images", command: &["images", "--format", "{{.Repository}}:{{.Tag}}"], done: &[Says("tiny:1")], same: true, ..PLAIN },
    Scenario { name: "history", command: &["history", "-q", "tiny:1"], same: true, ..PLAIN },
    Scenario { name: "image-inspect", command: &["image", "inspect", "tiny:1"], done: &[Says("tiny:1")], same: true, ..PLAIN },
    Scenario { name: "image-tree", command: &["image", "tree", "tiny:1"], same: true, ..PLAIN },
    Scenario { name: "manifest-add", before: INDEX, command: &["manifest", "annotate", "--annotation", "a=b", "t:2", "tiny:1"], done: &[Image("t:2")], shows: &[&["manifest", "inspect", "t:2"]], ..IMAGE },
    Scenario { name: "manifest-inspect", before: INDEX, command: &["manifest", "inspect", "t:2"], done: &[Says("manifests")], same: true, ..IMAGE },
    Scenario { name: "manifest-rm", before: INDEX, command: &["manifest", "rm", "t:2"], done: &[NoImage("t:2"), Image("tiny:1")], ..IMAGE },
    Scenario { name: "volume-ls", command: &["volume", "ls", "-q"], done: &[Says("db")], same: true, ..PLAIN },
    Scenario { name: "volume-export", command: &["volume", "export", "-o", "{dir}/written", "db"], done: &[File("written")], undo: NO_OUTPUT, ..PLAIN },
    Scenario { name: "secret-ls", before: SECRET, command: &["secret", "ls", "--format", "{{.Name}}"], done: &[Says("s1")], same: true, undo: NO_SECRET, ..PLAIN },
    Scenario { name: "network-inspect", command: &["network", "inspect", "lab"], done: &[Says("10.77.0")], same: true, ..PLAIN },
    Scenario { name: "network-prune", before: NETWORK, command: &["network", "prune", "-f"], done: &[NoNetwork("n1")], bare: true, undo: NO_NETWORK, ..PLAIN },
    Scenario { name: "pool-ls", before: &[Tote(&["pool", "fill", "pl", "-n", "1", "tiny:1", "--", "true"])], command: &["pool", "ls"], done: &[Says("pl")], same: true, sweep: POOLS, undo: NO_POOL, ..PLAIN },
    Scenario { name: "pod-ps", command: &["pod", "ps", "--format", "{{.Name}} {{.Status}}"], done: &[Says("group")], same: true, ..PLAIN },
    Scenario { name: "pod-stop", before: POD, command: &["pod", "stop", "-t", "0", "p"], done: &[Container("x", "exited"), Pod("p")], sweep: PODS, undo: NO_POD, ..PLAIN },
    Scenario { name: "pod-start", before: &[POD[0], POD[1], Tote(&["pod", "stop", "-t", "0", "p"])], command: &["pod", "start", "p"], lingers: true, done: &[Container("x", "running"), Pod("p")], sweep: PODS, undo: NO_POD, ..PLAIN },
    Scenario { name: "graph-ls", before: &[Tote(&["graph", "import", "tiny:1"])], command: &["graph", "ls"], same: true, sweep: GRAPH, undo: NO_GRAPH, ..IMAGE },
    Scenario { name: "graph-tree", before: &[Tote(&["graph", "import", "tiny:1"])], command: &["graph", "tree", "base"], same: true, sweep: GRAPH, undo: NO_GRAPH, ..IMAGE },
    Scenario { name: "debug", command: &["debug", "keep", "echo", "said"], done: &[Says("said")], same: true, ..PLAIN },
    Scenario { name: "generate-systemd", command: &["generate", "systemd", "keep"], same: true, ..PLAIN },
    Scenario { name: "builder-prune", before: &[Tote(&["build", "-t", "t:2", "{dir}/context"]), NO_IMAGE[0]], command: &["builder", "prune", "-af"], sweep: &[PLAIN.sweep[0]], ..IMAGE },
    Scenario { name: "store-verify", command: &["store", "verify"], same: true, ..PLAIN },
];
