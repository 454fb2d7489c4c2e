//! Options about what the container sees and what it may do.

use tote_options::{Completes, Group, Opt};

/// What is mounted where.
pub(crate) static FILESYSTEM: Group = Group {
    title: "File system",
    options: &[
        Opt::list("volume", "[SOURCE:]DIR[:OPTIONS]", "Mount a host directory or named volume at this directory")
            .short('v')
            .completes(Completes::File)
            .details(
                "SOURCE is an absolute path of the host, made as a directory where nothing is there, or the name of a volume; \
                 without it the volume is anonymous. \
                 OPTIONS are separated by commas: `ro` or `rw`, and `private`, `slave` or `shared`, each also with an \
                 `r` in front for whole trees.",
            ),
        Opt::list("mount", "MOUNT", "Mount as spelled out: type=bind,source=DIR,target=DIR,readonly").details(
            "`type` is `bind`, `volume` or `tmpfs`; `src` stands for `source`, `dst` for `target`, `ro` for `readonly`.",
        ),
        Opt::list("volumes-from", "CONTAINER[:ro]", "Mount what that container has mounted, at the same places")
            .completes(Completes::Containers)
            .details(
                "That is its binds and its volumes, also those that nobody named; they stay when that container is removed. With `:ro` none can be written. A mount of one's own at the same place comes before.",
            ),
        Opt::list("tmpfs", "DIR[:OPTIONS]", "Mount an empty file system in memory at this directory")
            .details("OPTIONS are those of tmpfs(5), such as `size=64m,mode=1777`."),
        Opt::flag("read-only", "Mount the container's root file system read-only"),
        Opt::value("driver", "DRIVER", "Keep writes apart from the image by this storage driver")
            .env("TOTE_DRIVER")
            .completes(Completes::Words(&["overlay", "split", "reflink", "btrfs", "copy", "loop", "loop-xfs", "erofs"]))
            .details(
                "\
`overlay`
: a file is copied when it is first written to; the default
`split`
: the image itself, read-only, with copies of /tmp, /run, /home and a few more: reads are as fast as on the host
`reflink`
: a copy of the whole image whose files share their content with it until they are written to (btrfs, xfs)
`copy`
: a copy of the whole image; also called vfs and dir
`btrfs`
: a snapshot of the image; root's alone, with the state root on btrfs, and quotas enabled there for `--disk-size`
`loop`
: as overlay, with writes on a disk of its own of the size that `--disk-size` says (10g); root's alone
`loop-xfs`
: the same with XFS on that disk, of 300m at least; root's alone
`erofs`
: as overlay, with the image in one read-only file; root's alone

See `tote info` for those that this machine has. `/etc/tote/storage.json` and `~/.config/tote/storage.json` can name \
another default.",
            ),
        Opt::value("disk-size", "SIZE", "Let the container write this much; b, k, m and g may follow the number"),
        Opt::list("storage-opt", "size=SIZE", "The same as --disk-size, in docker's words"),
        Opt::value("tmpfs-size", "SIZE", "Let the container write this much where writes are in memory; 0 is no limit")
            .details("A quarter of the machine's memory where nothing is said. Writes are in memory with `--rm` under the overlay, split and erofs drivers, and in pools. `--disk-size` counts there \
before it. Elsewhere it says nothing."),
        Opt::list("writable", "DIR", "Let the container write to this path of the image under the split driver")
            .details("It is copied when the container is made. Several are needed for several paths."),
        Opt::value("shm-size", "SIZE", "Limit /dev/shm to this size; b, k, m and g may follow the number")
            .default("64m"),
    ],
};

/// docker's choice, of which Linux has one.
pub(super) const TECHNOLOGY: Opt =
    Opt::value("isolation", "TECHNOLOGY", "Isolate by default").completes(Completes::Words(&["default"]));

/// Privileges, given and taken.
pub(crate) static SECURITY: Group = Group {
    title: "Security",
    options: &[
        Opt::list("cap-add", "CAPABILITY", "Add this capability, or ALL").completes(Completes::Capabilities),
        Opt::list("cap-drop", "CAPABILITY", "Drop this capability, or ALL")
            .completes(Completes::Capabilities)
            .details("`ALL` is applied first: `--cap-drop ALL --cap-add CHOWN` leaves one capability."),
        Opt::flag("privileged", "Give every capability and device, and lift the confinement").details(
            "The process can then do to the host whatever the user who started it can: never for code that is not trusted.",
        ),
        Opt::list("security-opt", "OPTION", "Change the confinement, such as no-new-privileges or seccomp=FILE")
            .completes(Completes::Words(&[
                "no-new-privileges",
                "seccomp=unconfined",
                "apparmor=unconfined",
                "label=disable",
                "systempaths=unconfined",
            ]))
            .details(
                "\
`no-new-privileges`
: programs cannot gain privileges by set-user-id bits or file capabilities
`seccomp=FILE`
: filter system calls by this profile; `unconfined` for no filter
`apparmor=PROFILE`
: run under this AppArmor profile; `unconfined` for none
`label=disable`
: do not set SELinux labels
`systempaths=unconfined`
: leave the paths below /proc and /sys visible and writable that are hidden otherwise",
            ),
        Opt::list("device", "PATH[:DIR][:rwm]", "Give the container this device of the host")
            .completes(Completes::File)
            .details(
                "The second part is its path inside, the third what is allowed: read, write, mknod. \
                 Absent, they are the same path and `rwm`. Root's container gets a node of its own for the device, and \
                 the device rules of a cgroup keep it to what is allowed. A user's container gets the host's node: what the \
                 node's mode allows that user is allowed there, whatever is said here.",
            ),
        Opt::list("device-cgroup-rule", "RULE", "Allow these devices, such as 'c 189:* rmw'").details(
            "What they are: `a`, `b` or `c`; their major and minor numbers, `*` for all; what is allowed: read, write, mknod.",
        ),
        Opt::list("sysctl", "KEY=VALUE", "Set this kernel parameter of the container's namespaces"),
    ],
};

/// Namespaces that may be shared.
pub(crate) static NAMESPACES: Group = Group {
    title: "Namespace",
    options: &[
        Opt::value("pod", "POD", "Make it a member of this pod; new:NAME makes the pod as well")
            .completes(Completes::Pods)
            .details("It shares with the others what the pod says: see `tote pod create --help`."),
        Opt::value("pod-id-file", "FILE", "Make it a member of the pod whose id is in this file")
            .completes(Completes::File),
        Opt::value("pid", "MODE", "See processes of: private, host, container:NAME")
            .completes(Completes::Words(&["private", "host", "container:"])),
        Opt::value(
            "ipc",
            "MODE",
            "Use System V IPC and /dev/shm of: private, none, host, container:NAME",
        )
        .completes(Completes::Words(&[
            "private",
            "shareable",
            "none",
            "host",
            "container:",
        ])),
        Opt::value("uts", "MODE", "Use the host name of: private, host, container:NAME")
            .completes(Completes::Words(&["private", "host", "container:"])),
        Opt::value(
            "userns",
            "MODE",
            "Map user ids as: host, keep-id, remap, auto",
        )
        .completes(Completes::Words(&["host", "keep-id", "remap", "auto"]))
        .details(
            "\
By default root's containers have no user namespace, and root in another user's container is that user outside.
`host`
: no user namespace for root; for others as by default
`keep-id`
: the same id inside as outside; for root as by default
`remap`
: root inside is an unprivileged user outside, always the same
`auto`
: as `remap`",
        ),
        Opt::value("cgroupns", "MODE", "See control groups of: private, host")
            .completes(Completes::Words(&["private", "host"])),
        Opt::value("cgroups", "MODE", "Make a control group: enabled, disabled, no-conmon, split")
            .default("enabled")
            .completes(Completes::Words(&["enabled", "disabled", "no-conmon", "split"]))
            .details(
                "\
`enabled`, `no-conmon`
: below that of the caller; on v2 near it, where controllers can be had
`split`
: within that of the caller, who is alone there: on v2 it moves down into one of its own named `supervisor`. For units of \
systemd with `Delegate=yes`
`disabled`
: none, and no limits",
            ),
        Opt::value("cgroup-parent", "PATH", "Make the control group below this one: a path, or a slice's name"),
    ],
};

/// The network, and the names known in it.
pub(crate) static NETWORK: Group = Group {
    title: "Network",
    options: &[
        Opt::list("network", "NETWORK", "Use this network: none, host, container:NAME, bridge or another's name")
            .aliases(&["net"])
            .completes(Completes::Networks)
            .default("none")
            .details(
                "`none` is a network namespace with a loopback device and nothing else, `container:NAME` that of another \
                 container, which must run. `bridge` and networks made by `tote network create` need root; several may be \
                 given, and `name=NETWORK,ip=ADDRESS,mac-address=ADDRESS` says what the container is to have there.",
            ),
        Opt::list("add-host", "NAME:ADDRESS", "Add this line to /etc/hosts"),
        Opt::flag("no-hosts", "Leave /etc/hosts as the image has it"),
        Opt::list("dns", "ADDRESS", "Resolve names with this server"),
        Opt::list("dns-search", "DOMAIN", "Look for names in this domain, too; . for in none")
            .details("What `--dns` and these two do not say is in /etc/resolv.conf as the host has it, on the host's network and in bridge \
                      and its like."),
        Opt::list("dns-option", "OPTION", "Give the resolver this option, such as ndots:2").aliases(&["dns-opt"]),
        Opt::list("expose", "PORT[-PORT][/PROTOCOL]", "Note that the container listens on these ports")
            .details("Nothing is published by it but with `--publish-all`: `tote inspect` shows it."),
        Opt::list("publish", "[[ADDRESS:][PORT]:]PORT[/PROTOCOL]", "Let this port of the machine lead to one of the container's")
            .short('p')
            .details(
                "Without a port of the machine's a free one is taken, which `tote port` tells, and without an address it is reached \
                 at each IPv4 address of the machine, 127.0.0.1 included. Ranges are possible, `8000-8010:8000-8010`; of several ports \
                 for one of the container's the first free one is taken. The protocol is tcp, udp or sctp. Without `--network` the \
                 container is in `bridge`.",
            ),
        Opt::flag("publish-all", "Let a free port of the machine lead to each exposed port").short('P'),
    ],
};

/// Options of docker's for which there is one choice here.
pub(crate) static DOCKERS: Group = Group {
    title: "Of docker's, with one choice",
    options: &[
        Opt::value(
            "runtime",
            "NAME",
            "Run by this OCI runtime: tote itself, which runc and crun stand for",
        )
        .completes(Completes::Words(&["tote", "runc", "crun"])),
        TECHNOLOGY,
        Opt::value("volume-driver", "DRIVER", "Keep volumes by the driver local")
            .completes(Completes::Words(&["local"])),
        Opt::list(
            "link",
            "CONTAINER",
            "Refused: there is no network that a link could lead through",
        ),
        Opt::list(
            "gpus",
            "DEVICES",
            "Refused: give the nodes of the devices with --device",
        ),
        Opt::value(
            "kernel-memory",
            "SIZE",
            "Taken without effect: Linux has no such limit any more",
        ),
        super::remote::CONTENT_TRUST,
    ],
};
