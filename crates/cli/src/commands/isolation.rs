//! Options about the container's view of the system and its privileges.

use tote_options::{Completes, Group, Opt};

/// Options about mounts.
pub(crate) static FILESYSTEM: Group = Group {
    title: "File system",
    options: &[
        Opt::list("volume", "[SOURCE:]DIR[:OPTIONS]", "Mount a host directory or named volume at this directory")
            .short('v')
            .completes(Completes::File)
            .details(
                "SOURCE is an absolute path of the host, made as a directory where nothing is there, or the name of a volume; \
                 without it the volume is anonymous. `disk:NAME` or `disk:NAME,size=SIZE` is a volume that is a disk of virtual machines \
                 (`--isolation vm`). \
                 OPTIONS are separated by commas: `ro` or `rw`, and `private`, `slave` or `shared`, each also with an \
                 `r` in front for whole trees. With `noexec` programs there cannot be executed, with `nosuid` their \
                 set-user-ID bits have no effect. `U` gives the files to the container's user before each start; with `O` the \
                 container's writes go into a layer that is emptied before each start.",
            ),
        Opt::list("mount", "MOUNT", "Mount by keys: type=bind,source=DIR,target=DIR,readonly").details(
            "`type` is `bind`, `volume`, `tmpfs` or `image`, which shows the files of an image, read-only or with `rw=true`; `src` stands for `source`, `dst` for `target`, `ro` for `readonly`.",
        ),
        Opt::list("volumes-from", "CONTAINER[:ro]", "Mount the volumes and binds of that container, at the same places")
            .completes(Completes::Containers)
            .details(
                "Anonymous volumes are included; they stay when that container is removed. `:ro` makes all of them read-only. A mount that this command names at the same place wins.",
            ),
        Opt::list("secret", "SECRET[,OPTION...]", "Give the container a copy of this secret").details(
            "It is the file `/run/secrets/SECRET`, with mode 0444 and of user 0 in the container, or with `target=PATH`, `mode=OCTAL`, \
             `uid=ID`, `gid=ID` another one. With `type=env` it is a variable of the program, called as the secret or as `target=NAME`.",
        ),
        Opt::list("tmpfs", "DIR[:OPTIONS]", "Mount an empty file system in memory at this directory")
            .details("OPTIONS are those of tmpfs(5), such as `size=64m,mode=1777`."),
        Opt::flag("read-only", "Mount the container's root file system read-only"),
        Opt::flag("slim-fallback", "Give the container of a slim image the whole image's files, and note which ones it opens").details(
            "The image was made by `tote slim`, and IMAGE-fat is here as well. `tote slim --from-misses IMAGE` adds the noted files. \
             Processes of `tote exec` have the files, and none is noted.",
        ),
        Opt::value("driver", "DRIVER", "Storage driver for the writable layer")
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
        Opt::value("disk-size", "SIZE", "Limit the writable layer to this size; the units are b, k, m and g"),
        Opt::list("storage-opt", "size=SIZE", "Same as --disk-size, in docker's words"),
        Opt::value("tmpfs-size", "SIZE", "Limit a writable layer in memory to this size; 0 means no limit")
            .details("A quarter of the machine's memory where nothing is said. Writes are in memory with `--rm` under the overlay, split and erofs drivers, and in pools. `--disk-size` counts there \
before it. Elsewhere it says nothing."),
        Opt::list("writable", "DIR", "Make this path of the image writable with the split driver")
            .details("The path is copied when the container is created. Give the option once for each path."),
        Opt::value("shm-size", "SIZE", "Limit /dev/shm to this size; the units are b, k, m and g")
            .default("64m"),
    ],
};

/// `--isolation` of containers and pods.
pub(super) const ISOLATION: Opt = Opt::value(
    "isolation",
    "TECHNOLOGY",
    "Isolation technology: default, or vm for a virtual machine",
)
.completes(Completes::Words(&["default", "vm"]))
.details(
    "`vm` runs the container in a small virtual machine with a kernel of its own, which `tote vm setup` has made ready; its writes are in \
     the machine's memory. `vm=qemu,accel=tcg,machine=q35,memory=SIZE,cpus=NUMBER` says what the machine has; without `memory` and `cpus` \
     `--memory` and `--cpus` count, or 512m and one processor. `accel` is `kvm` where the processor really executes a guest's kernel, see \
     `tote info`, else `tcg`; `machine` is `microvm`, or `q35` where QEMU has no other. `shares=virtiofs` or `shares=9p` says how \
     directories of this machine get there, and `template=no` boots the machine where a template of `tote vm template` fits. \
     A pod is one machine with several containers: `tote pod create --isolation vm`.",
);

/// `--isolation` of docker's builds, which has a single value on Linux.
pub(super) const TECHNOLOGY: Opt = Opt::value(
    "isolation",
    "TECHNOLOGY",
    "Isolation technology; only default is supported",
)
.completes(Completes::Words(&["default"]));

/// Options about privileges.
pub(crate) static SECURITY: Group = Group {
    title: "Security",
    options: &[
        Opt::list("cap-add", "CAPABILITY", "Add this capability, or ALL").completes(Completes::Capabilities),
        Opt::list("cap-drop", "CAPABILITY", "Drop this capability, or ALL")
            .completes(Completes::Capabilities)
            .details("`ALL` is applied first: `--cap-drop ALL --cap-add CHOWN` leaves one capability."),
        Opt::flag("privileged", "Give all capabilities and devices, and disable the confinement").details(
            "The process can then do to the host whatever the caller can: do not use it for untrusted code.",
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
            "A rule is a type (`a`, `b` or `c`), the major and minor numbers (`*` for all), and the access: read, write, mknod.",
        ),
        Opt::list("sysctl", "KEY=VALUE", "Set this kernel parameter of the container's namespaces"),
    ],
};

/// Options about namespaces.
pub(crate) static NAMESPACES: Group = Group {
    title: "Namespace",
    options: &[
        Opt::value("pod", "POD", "Add the container to this pod; new:NAME creates the pod")
            .completes(Completes::Pods)
            .details(
                "The pod decides which namespaces its members share: see `tote pod create --help`. With `new:NAME` the options of the \
                 network, published ports among them, are the pod's.",
            ),
        Opt::value("pod-id-file", "FILE", "Add the container to the pod whose id is in this file")
            .completes(Completes::File),
        Opt::value("pid", "MODE", "PID namespace: private, host or container:NAME")
            .completes(Completes::Words(&["private", "host", "container:"])),
        Opt::value(
            "ipc",
            "MODE",
            "IPC namespace and /dev/shm: private, none, host or container:NAME",
        )
        .completes(Completes::Words(&[
            "private",
            "shareable",
            "none",
            "host",
            "container:",
        ])),
        Opt::value("uts", "MODE", "UTS namespace, which has the host name: private, host or container:NAME")
            .completes(Completes::Words(&["private", "host", "container:"])),
        Opt::value(
            "userns",
            "MODE",
            "User namespace: host, keep-id, remap or auto",
        )
        .completes(Completes::Words(&["host", "keep-id", "remap", "auto"]))
        .details(
            "\
By default root's containers have no user namespace, and root in another user's container is that user outside.
`host`
: no user namespace for root; for others as by default
`keep-id`
: the same id inside as outside, or with `keep-id:uid=ID,gid=ID` these, and root's files of an image are root's; for root as by default
`remap`
: root inside is an unprivileged user outside, always the same
`auto`
: as `remap`",
        ),
        Opt::list("uidmap", "INSIDE:OUTSIDE[:NUMBER]", "Map these user ids of the container to ids of the caller").details(
            "As podman's for users other than root: OUTSIDE counts among the caller's ids, of which 0 is the caller itself, and 1 and those \
             above are the ranges of subuid(5). One line has to map 0. Without `--gidmap`, groups are mapped alike.",
        ),
        Opt::list("gidmap", "INSIDE:OUTSIDE[:NUMBER]", "Map these group ids of the container to ids of the caller"),
        Opt::value("cgroupns", "MODE", "Cgroup namespace: private or host")
            .completes(Completes::Words(&["private", "host"])),
        Opt::value("cgroups", "MODE", "Cgroup handling: enabled, disabled, no-conmon or split")
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
        Opt::value("cgroup-parent", "PATH", "Create the cgroup below this one: a path, or the name of a slice"),
    ],
};

/// Options about the network, and about names in it.
pub(crate) static NETWORK: Group = Group {
    title: "Network",
    options: &[
        Opt::list("network", "NETWORK", "Use this network: none, host, container:NAME, pod, bridge or another's name")
            .aliases(&["net"])
            .completes(Completes::Networks)
            .details(
                "Without this option the network is that of $TOTE_NETWORK, else of `container` in `network.json`, else `default`: `bridge` where \
                 this machine and the user can have it, else `none`, and a line says why. The `host` image has `none`, and with \
                 published ports or an egress policy `bridge`. `none` is a network namespace with a loopback device and nothing else, `container:NAME` that of another \
                 container, which must run, and `pod` that of the pod, which a member has without this option as well. `bridge` and networks made by `tote network create` are root's, and other users' where pasta is installed; several may be \
                 given, and `name=NETWORK,ip=ADDRESS,ip6=ADDRESS,mac-address=ADDRESS,alias=NAME,driver-opt=KEY=VALUE,gw-priority=NUMBER` says what the container is to have there.",
            ),
        Opt::value("ip", "ADDRESS", "Give the container this IPv4 address in its network").details("Of several networks it is the first."),
        Opt::value("ip6", "ADDRESS", "Give the container this IPv6 address in its network"),
        Opt::value("mac-address", "ADDRESS", "Give the container's link this hardware address"),
        Opt::list("network-alias", "NAME", "Let members of the network find the container by this name, too")
            .aliases(&["net-alias"])
            .details("Of several networks it is the first. The network bridge has no names."),
        Opt::value("net-rate", "RATE", "Limit what the container sends, and what it gets, to this rate")
            .details(
                "The rate is in bytes per second as 512k or 2mb (of 1024), or in bits as 10mbit (of 1000), and counts for each of the \
                 container's networks and each direction. A container with the capability NET_ADMIN can lift the limit of what it sends.",
            ),
        Opt::value("net-burst", "SIZE", "Let this many bytes pass at once after a pause, whatever the rate")
            .details("The default is what passes in 50 ms, and at least 32k."),
        Opt::list("add-host", "NAME:ADDRESS", "Add this line to /etc/hosts"),
        Opt::list(
            "link",
            "CONTAINER[:ALIAS]",
            "Give a running container of the same network this name in /etc/hosts",
        )
        .details("docker's links. In a network that you make, containers find each other by name without them."),
        Opt::flag("no-hosts", "Keep the image's /etc/hosts"),
        Opt::list("dns", "ADDRESS", "Resolve names with this server")
            .details("In a network that a user has made, the container's resolver asks it for all names that are no containers'."),
        Opt::list("dns-search", "DOMAIN", "Search domain for names; . for none")
            .details("What `--dns` and these two do not say is in /etc/resolv.conf as the host has it, on the host's network and in bridge \
                      and its like."),
        Opt::list("dns-option", "OPTION", "Give the resolver this option, such as ndots:2").aliases(&["dns-opt"]),
        Opt::list("egress", "allow:DESTINATION,...|@FILE|none|log", "Let the container connect to these destinations only")
            .details(
                "A destination is a name (`example.org`, `*.example.org`), an address or a network, with `:PORT` behind it and `tcp:`, \
                 `udp:` or `sctp:` before it if need be. `@FILE` has a list, with comments behind `#`; `log` refuses nothing, and `tote logs --egress` \
                 prints the list. Addresses are open as long as the \
                 answers for their name last, and for `--egress-keep` behind that; private addresses, metadata and this machine are closed unless they are given as \
                 addresses. `alias:NAME` lets a name be an alias of any other. Without `--network` the container is in `bridge`.",
            ),
        Opt::value("egress-keep", "TIME", "Leave addresses of names open for this long after the answer and the last packet")
            .default("10m")
            .details(
                "Programs keep addresses for longer than the answers last: give as long as one keeps them without a connection. \
                 A connection keeps its address open while the other side speaks. With 0 an address is closed when its answer ends.",
            ),
        Opt::list("expose", "PORT[-PORT][/PROTOCOL]", "Document that the container listens on these ports")
            .details("The port is published only with `--publish-all`; `tote inspect` shows it."),
        Opt::list("publish", "[[ADDRESS:][PORT]:]PORT[/PROTOCOL]", "Publish a port of the container at this port of the host")
            .short('p')
            .details(
                "Without a port of the machine's a free one is taken, which `tote port` tells, and without an address it is reached \
                 at each IPv4 address of the machine, 127.0.0.1 included. Ranges are possible, `8000-8010:8000-8010`; of several ports \
                 for one of the container's the first free one is taken. The protocol is tcp, udp or sctp. Without `--network` the \
                 container is in `bridge`.",
            ),
        Opt::flag("publish-all", "Publish every exposed port at a free port of the host").short('P'),
    ],
};

/// Options of docker's that have a single value in tote.
pub(crate) static DOCKERS: Group = Group {
    title: "Compatibility",
    options: &[
        Opt::value(
            "runtime",
            "NAME",
            "Accepted for compatibility: tote is always the runtime",
        )
        .completes(Completes::Words(&["tote", "runc", "crun"])),
        ISOLATION,
        Opt::value(
            "volume-driver",
            "DRIVER",
            "Volume driver; only local is supported",
        )
        .completes(Completes::Words(&["local"])),
        Opt::list(
            "gpus",
            "DEVICES",
            "Not supported: give the device nodes with --device",
        ),
        Opt::value(
            "kernel-memory",
            "SIZE",
            "Accepted without effect: Linux no longer has this limit",
        ),
        super::remote::CONTENT_TRUST,
    ],
};
