//! `tote network …`.

use super::look::DESCRIPTION;
use super::repeated::{FORMAT, IS_THERE};
use crate::{exit, life, network, tell};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

const NETWORKS: Positional = Positional {
    name: "NETWORK",
    required: true,
    many: true,
    completes: Completes::Networks,
};

/// `tote network`.
pub(crate) static NETWORK: Command = Command {
    usage: "COMMAND",
    details: "\
A network connects containers with each other and, unless it is internal, with the world outside: '--network NAME' puts a \
container into it. Users other than root have networks where pasta is installed. The network bridge is there without being made. The host's side of a \
network, a bridge and rules of the packet filter, is there while a container is in it.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[
            &CREATE,
            &LS,
            &INSPECT,
            &EXISTS,
            &RM,
            &PRUNE,
            &RELOAD,
            &CONNECT,
            &DISCONNECT,
        ],
    }],
    absent: super::absent::OF_NETWORK,
    ..Command::new("network", "Work with networks", tell::help)
};

static CREATE: Command = Command {
    usage: "[OPTIONS] NETWORK",
    details: "Prints the id of the network. The host is not changed before a container joins.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value("driver", "DRIVER", "The kind of network: bridge, macvlan or ipvlan")
                .short('d')
                .default("bridge")
                .completes(Completes::Words(&["bridge", "macvlan", "ipvlan"]))
                .details(
                    "`macvlan` and `ipvlan` put containers into the network of a link of this machine, which `-o parent=LINK` names: \
                     without address translation and published ports. They take root and a kernel that has them.",
                ),
            Opt::list("subnet", "SUBNET", "Use these addresses, such as 192.168.7.0/24 or fd00:7::/64")
                .details(
                    "One of IPv4 and one of IPv6 may be given. The default is a subnet of IPv4 that no other network and no route of \
                     this machine has.",
                ),
            Opt::list("gateway", "ADDRESS", "Give the host this address in the network")
                .details(
                    "The default is the first address of the subnet of the same protocol. With the drivers macvlan and ipvlan, the \
                     address is that of a router in the parent's network.",
                ),
            Opt::list(
                "ip-range",
                "SUBNET",
                "Give containers addresses of this part of the subnet",
            ),
            Opt::flag("internal", "Let members reach each other and nobody else")
                .details("The host reaches its members, and they do not begin connections to the host."),
            Opt::flag("ipv6", "Give the network IPv6 addresses, too").details(
                "A `--subnet` of IPv6 does so as well. The default subnet is `fdXX:XXXX:XXXX::/64`, with random digits for X (RFC 4193).",
            ),
            Opt::flag(
                "ignore",
                "Do not fail if there is a network of this name, which stays as it is",
            ),
            Opt::flag(
                "attachable",
                "Accepted for compatibility with docker: containers can be connected to every network",
            ),
            Opt::list("label", "KEY=VALUE", "Add a label to the network"),
            Opt::list("opt", "KEY=VALUE", "Give the driver this option")
                .short('o')
                .details(
                    "\
`com.docker.network.driver.mtu`
: The longest packet in bytes (default: that of the link with the default route)
`com.docker.network.bridge.name`
: The name of the bridge, of 15 bytes at most
`com.docker.network.bridge.enable_icc`
: `false` keeps the members apart
`com.docker.network.bridge.enable_ip_masquerade`
: `false` leaves the members' own addresses in what leaves the machine
`com.docker.network.bridge.host_binding_ipv4`
: The address at which ports are published that name none
`com.docker.network.container_iface_prefix`
: The name of the containers' links before the number (default `eth`)
`parent`
: The link of this machine that containers share, with the drivers macvlan and ipvlan
`macvlan_mode`
: `bridge` (default), `private`, `vepa` or `passthru`
`ipvlan_mode`
: `l2` (default), `l3` or `l3s`",
                ),
        ],
    }],
    positionals: &[Positional {
        many: false,
        completes: Completes::None,
        ..NETWORKS
    }],
    examples: &[
        Example {
            about: "Two containers that reach each other and nobody else",
            line: "tote network create --internal --subnet 192.168.7.0/24 lab",
        },
        Example {
            about: "One of them, with an address of its own choice",
            line: "tote run -d --network lab --ip 192.168.7.10 alpine sleep 1h",
        },
        Example {
            about: "A network of IPv4 and IPv6",
            line: "tote network create --ipv6 both",
        },
        Example {
            about: "Containers as machines of their own in the network of eth0",
            line: "tote network create -d macvlan -o parent=eth0 --subnet 192.0.2.0/24 --ip-range 192.0.2.128/26 lan",
        },
    ],
    absent: super::absent::OF_CREATE_NETWORK,
    ..Command::new("create", "Make a network", |parsed| exit::network(network::create(parsed)))
};

static LS: Command = Command {
    aliases: &["list"],
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list("filter", "KEY=VALUE", "Show only networks that match this filter").short('f').details(
                "`dangling=true` or `false` (no container names it), `driver`, `id`, `label=KEY` or `KEY=VALUE`, `name` (a \
                 pattern), `scope`, `type=custom` or `builtin`.",
            ),
            FORMAT,
            Opt::flag("no-trunc", "Do not shorten ids"),
            super::look::NOHEADING.short('n'),
            Opt::flag("quiet", "Print only ids").short('q'),
        ],
    }],
    ..Command::new("ls", "List networks", |parsed| exit::network(network::list(parsed)))
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] NETWORK [NETWORK...]",
    options: &[&Group {
        title: "",
        options: &[
            DESCRIPTION,
            Opt::flag("verbose", "Without effect: everything is shown").short('v'),
        ],
    }],
    positionals: &[NETWORKS],
    ..Command::new("inspect", "Print details of networks, as JSON", |parsed| {
        exit::network(network::inspect(parsed))
    })
};

/// `tote network exists`, podman's.
static EXISTS: Command = Command {
    usage: "NETWORK",
    positionals: &[Positional {
        many: false,
        ..NETWORKS
    }],
    exit_status: IS_THERE,
    ..Command::new(
        "exists",
        "Tell by the exit code whether a network exists",
        |parsed| exit::network(network::exists(parsed)),
    )
};

static RM: Command = Command {
    aliases: &["remove"],
    usage: "[OPTIONS] NETWORK [NETWORK...]",
    details: "A network with running containers is refused.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("force", "Do not fail if a network does not exist").short('f')],
    }],
    positionals: &[NETWORKS],
    ..Command::new("rm", "Remove networks", |parsed| {
        exit::network(network::remove(parsed))
    })
};

static PRUNE: Command = Command {
    usage: "[OPTIONS]",
    details: "Removes the networks that no container uses, whether it runs or not.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list(
                "filter",
                "KEY=VALUE",
                "Remove only networks that match: until=, label=, label!=",
            ),
            Opt::flag("force", "Do not ask for confirmation").short('f'),
        ],
    }],
    ..Command::new("prune", "Remove networks without containers", |parsed| {
        exit::network(network::prune(parsed))
    })
};

/// `tote network reload`, podman's.
static RELOAD: Command = Command {
    usage: "[OPTIONS] CONTAINER [CONTAINER...]",
    details: "\
Makes the rules of the packet filter again that a program has flushed: those of the networks that are up, published ports, and exceptions in \
the rules of firewalls. Most other commands do the same once such rules have changed.",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("all", "Select all containers that run").short('a')],
    }],
    positionals: &[super::repeated::ANY_CONTAINERS],
    ..Command::new(
        "reload",
        "Make rules of networks again that were flushed",
        |parsed| life::execute(parsed, life::reload),
    )
};

/// The network and the container that is to come into it or to leave it.
const PAIR: &[Positional] = &[
    Positional {
        many: false,
        ..NETWORKS
    },
    Positional {
        name: "CONTAINER",
        required: true,
        many: false,
        completes: Completes::Containers,
    },
];

static CONNECT: Command = Command {
    usage: "[OPTIONS] NETWORK CONTAINER",
    details: "\
A container that runs gets a link at once, and one that does not run at its next start. A container that was started without a network \
of a user's finds names from its next start on.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::list(
                "alias",
                "NAME",
                "Let members of the network find the container by this name, too",
            ),
            Opt::list(
                "link",
                "CONTAINER[:ALIAS]",
                "Let the container find another one of the network by this alias",
            )
            .details("The other container need not be there yet. The network bridge has no names, so no links."),
            Opt::value("ip", "ADDRESS", "Give the container this IPv4 address"),
            Opt::value("ip6", "ADDRESS", "Give the container this IPv6 address"),
            Opt::value(
                "gw-priority",
                "NUMBER",
                "Lead the container's way out through this network if no other has a higher number",
            )
            .details("Without the option the number is 0; of several networks with the highest one it is the first that leads out."),
            Opt::list("driver-opt", "KEY=VALUE", "Set an option of the container's link").details(
                "`com.docker.network.endpoint.ifname=NAME` names the link in the container. `com.docker.network.endpoint.sysctls=SETTINGS` sets the \
                 kernel's settings of the link, such as `net.ipv4.conf.IFNAME.log_martians=1`, where `IFNAME` stands for its name. Several are \
                 written with commas between them, and then the whole value stands in double quotes, which the shell must not take away.",
            ),
        ],
    }],
    positionals: PAIR,
    absent: super::absent::OF_CONNECT,
    ..Command::new("connect", "Connect a container with a network", |parsed| {
        exit::network(network::connect(parsed))
    })
};

static DISCONNECT: Command = Command {
    usage: "[OPTIONS] NETWORK CONTAINER",
    options: &[&Group {
        title: "",
        options: &[Opt::flag("force", "Do not fail if the container is not in the network").short('f')],
    }],
    positionals: PAIR,
    ..Command::new("disconnect", "Disconnect a container from a network", |parsed| {
        exit::network(network::disconnect(parsed))
    })
};
