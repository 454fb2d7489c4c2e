//! Words of docker's and podman's command lines that tote does not have, with advice what to do instead.

use tote_options::Absent;

const fn absent(words: &'static [&'static str], advice: &'static str) -> Absent {
    Absent { words, advice }
}

/// Advice for those who look for a daemon of another machine.
const ELSEWHERE: &str = "there is no daemon that could be elsewhere: log in to the other machine and run tote there; --root DIR \
                         chooses between states here.";

/// Commands of `tote` itself, and options before a command.
pub(super) static OF_TOTE: &[Absent] = &[
    absent(
        &["compose", "up", "down"],
        "there is no compose here: 'tote pod create' makes containers that share a network, and 'tote generate quadlet' units of \
         systemd.",
    ),
    absent(&["-H", "--host"], ELSEWHERE),
    absent(
        &["machine", "connection", "--connection", "--remote", "--url"],
        "tote runs containers on this machine, without a service: log in to another one and run tote there.",
    ),
    absent(
        &["config"],
        "tote keeps no files of a swarm: mount a file read-only, -v FILE:/NAME:ro.",
    ),
    absent(
        &["swarm", "stack", "service", "node"],
        "tote runs containers on one machine; 'tote generate systemd' and --restart keep them running there.",
    ),
    absent(
        &["kube", "play"],
        "tote does not read Kubernetes' files: make the pod with 'tote pod create' and 'tote run --pod'.",
    ),
    absent(
        &["plugin", "trust", "checkpoint"],
        "tote is one executable without plugins, signatures of Notary or checkpoints.",
    ),
    absent(
        &["auto-update"],
        "pull the image and start the container anew: 'tote run --pull always --replace --name NAME'.",
    ),
];

/// Commands of `context`.
pub(super) static OF_CONTEXT: &[Absent] =
    &[absent(&["create", "export", "import", "rm", "update"], ELSEWHERE)];

/// Options of `run` and `create`.
pub(super) static OF_RUN: &[Absent] = &[
    absent(
        &["--link-local-ip"],
        "--ip and --ip6 give the container an address of its network.",
    ),
    absent(
        &["--subuidname", "--subgidname"],
        "a user's ranges are those of its own name; --uidmap and --gidmap choose among them.",
    ),
    absent(
        &["--systemd"],
        "systemd as the command needs --cgroupns private, --tmpfs /run and --tmpfs /run/lock, which may be given here.",
    ),
    absent(
        &["--arch", "--os", "--variant"],
        "--platform OS/ARCH[/VARIANT] names all three.",
    ),
    absent(
        &["--image-volume", "--mount-image"],
        "volumes of the image are volumes; --tmpfs at the same place keeps them in memory.",
    ),
    absent(
        &["--http-proxy"],
        "variables of the caller's proxies do not come into containers: give those that you want with -e NAME.",
    ),
    absent(
        &["--passwd", "--passwd-entry", "--group-entry", "--hostuser"],
        "--userns keep-id adds the caller to the container's /etc/passwd; other lines are the image's.",
    ),
    absent(
        &["--read-only-tmpfs"],
        "what is to be writable beside --read-only is given with --tmpfs: --tmpfs /run --tmpfs /tmp.",
    ),
    absent(
        &["--no-hostname"],
        "--hostname gives the container the name that it is to have.",
    ),
    absent(
        &["--cgroup-conf"],
        "limits have options of their own, such as --memory, --cpus, --pids-limit and --device-read-bps.",
    ),
    absent(
        &["--env-merge"],
        "-e gives the whole value; 'tote image inspect -f {{.Config.Env}} IMAGE' shows the image's own.",
    ),
    absent(&["--init-path"], "--init has an init of tote's own."),
    absent(
        &["--init-ctr"],
        "run the first container to its end, and then the others: 'tote wait' waits for it.",
    ),
    absent(
        &["--retry", "--retry-delay"],
        "a request that fails on the way is tried again without it.",
    ),
    absent(
        &["--decryption-key"],
        "encrypted layers are not read: decrypt the image with another tool, and load it.",
    ),
    absent(
        &["--personality", "--rdt-class", "--seccomp-policy", "--chrootdirs"],
        "tote has no such setting; an OCI bundle may have its own: 'tote oci run'.",
    ),
    absent(
        &[
            "--health-startup-cmd",
            "--health-startup-retries",
            "--health-startup-success",
            "--health-startup-timeout",
        ],
        "--health-start-period is a time in which checks that fail do not count.",
    ),
    absent(
        &[
            "--health-log-destination",
            "--health-max-log-count",
            "--health-max-log-size",
        ],
        "the last results of checks are in 'tote inspect', under .State.Health.",
    ),
    absent(
        &["--use-api-socket"],
        "there is no daemon whose socket a container could get.",
    ),
];

/// Options of `start`.
pub(super) static OF_START: &[Absent] = &[absent(
    &["--checkpoint", "--checkpoint-dir", "--restore"],
    "processes cannot be written to disk and back: 'tote pause' and 'tote commit' are the nearest.",
)];

/// Options of `network create`.
pub(super) static OF_CREATE_NETWORK: &[Absent] = &[
    absent(
        &["--scope", "--ingress", "--config-only", "--config-from"],
        "networks of swarms have this, and tote runs on one machine: every network here is of scope local.",
    ),
    absent(
        &["--aux-address"],
        "--ip-range keeps the addresses that tote gives out in a part of the subnet; --ip and --network name=NETWORK,ip=ADDRESS \
         take others.",
    ),
];

/// Options of `network connect`.
pub(super) static OF_CONNECT: &[Absent] = &[absent(
    &["--link-local-ip"],
    "a container has the addresses that --ip and --ip6 give it, or the network chooses.",
)];

/// Commands of `volume`.
pub(super) static OF_VOLUME: &[Absent] = &[
    absent(
        &["update"],
        "volumes of swarms alone can be changed, and tote runs on one machine.",
    ),
    absent(
        &["mount", "unmount", "umount"],
        "a volume is a directory: 'tote volume inspect -f {{.Mountpoint}} VOLUME' says which.",
    ),
];

/// Commands of `image`.
pub(super) static OF_IMAGE: &[Absent] = &[absent(
    &["mount", "unmount", "umount"],
    "'tote mount' mounts the root of a container of the image, and run --mount type=image,source=IMAGE,target=DIR shows its files in \
     another one.",
)];

/// Commands of `secret`.
pub(super) static OF_SECRET: &[Absent] = &[absent(
    &["update", "rotate"],
    "'tote secret create --replace SECRET FILE' puts other bytes under the same name.",
)];

/// Commands of `network`.
pub(super) static OF_NETWORK: &[Absent] = &[absent(
    &["update"],
    "a network stays as it was made: make another one, and move containers with 'tote network connect' and 'disconnect'.",
)];

/// Commands of `container`.
pub(super) static OF_CONTAINER: &[Absent] = &[
    absent(
        &["checkpoint", "restore"],
        "processes cannot be written to disk and back: 'tote pause' and 'tote commit' are the nearest.",
    ),
    absent(
        &["clone"],
        "create another with the same options: 'tote inspect' shows them.",
    ),
    absent(
        &["cleanup"],
        "nothing has to be cleaned up: every command sweeps what killed ones have left.",
    ),
];

/// Commands of `system`.
pub(super) static OF_SYSTEM: &[Absent] = &[
    absent(
        &["connection", "service", "dial-stdio"],
        "there is no service: log in to the other machine and run tote there.",
    ),
    absent(
        &["reset"],
        "'tote rm -fa' and 'tote system prune -a --volumes' remove what is kept.",
    ),
    absent(
        &["migrate", "renumber"],
        "nothing has to be migrated: every tote reads what former ones have written.",
    ),
];
