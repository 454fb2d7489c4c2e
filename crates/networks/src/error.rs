//! Why something cannot be done with a network.

use std::net::{IpAddr, SocketAddr};
use tote_bundle::NetworkModeError;
use tote_network::{LeaseError, NetworkError, SubnetError};
use tote_sys::Errno;

/// Why something cannot be done with a network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkFault {
    /// docker's words.
    #[error("network {0} not found")]
    NotFound(String),
    /// docker's words.
    #[error("network with name {0} already exists")]
    Exists(String),
    /// docker's words.
    #[error("operation is not permitted on predefined {0} network")]
    Predefined(String),
    /// A name that no network can have.
    #[error("invalid network name {0:?}: only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")]
    Name(String),
    /// Several networks whose ids begin so.
    #[error("network {0} is ambiguous: the ids of several networks begin with it")]
    Ambiguous(String),
    /// docker's words.
    #[error("network {name} has active endpoints: {containers}")]
    Used {
        /// The network.
        name: String,
        /// The containers that are in it.
        containers: String,
    },
    /// A network of a user other than root.
    #[error(transparent)]
    Rootless(#[from] RootlessFault),
    /// A driver that there is not, or that cannot do what is asked of it.
    #[error(transparent)]
    Driver(#[from] DriverFault),
    /// The subnets and addresses of a network.
    #[error(transparent)]
    Address(#[from] AddressFault),
    /// A container that is to be in a network, or no longer.
    #[error(transparent)]
    Connect(#[from] ConnectFault),
    /// Published ports.
    #[error(transparent)]
    Publish(#[from] PublishFault),
    /// The limits of a container's traffic.
    #[error(transparent)]
    Traffic(#[from] TrafficFault),
    /// A filter that there is not; docker's words.
    #[error("invalid filter '{0}'")]
    Filter(String),
    /// Options about addresses that do not go together.
    #[error(transparent)]
    Mode(NetworkModeError),
    /// An address.
    #[error("cannot connect the container to network {network}")]
    Lease {
        /// The network.
        network: String,
        /// The reason.
        #[source]
        source: LeaseError,
    },
    /// Bringing a network up.
    #[error("cannot bring network {network} up")]
    Up {
        /// The network.
        network: String,
        /// The reason.
        #[source]
        source: NetworkError,
    },
    /// Taking a network down.
    #[error("cannot take network {network} down")]
    Down {
        /// The network.
        network: String,
        /// The reason.
        #[source]
        source: NetworkError,
    },
}

/// Error of the subnets and addresses of a network.
#[derive(Debug, thiserror::Error)]
pub enum AddressFault {
    /// More than one range.
    #[error("cannot make a network with several of --{0} of {1}: a network has one range of each protocol")]
    Several(&'static str, &'static str),
    /// `--gateway` or `--ip-range` without `--subnet`; docker's words.
    #[error("every ip-range or gateway must have a corresponding subnet")]
    NoSubnet,
    /// A subnet that is too small.
    #[error("cannot make a network of subnet {0}: containers and the gateway need at least four addresses")]
    Small(String),
    /// A gateway that cannot be a host of the subnet.
    #[error("cannot make a network with gateway {gateway}: no host of {subnet} can have the address")]
    Gateway {
        /// The gateway as written.
        gateway: String,
        /// The subnet.
        subnet: String,
    },
    /// A range that is not in the subnet.
    #[error("cannot make a network with range {range}: it is not within {subnet}")]
    Range {
        /// The range.
        range: String,
        /// The subnet.
        subnet: String,
    },
    /// docker's words.
    #[error("Pool overlaps with other one on this address space: {subnet} with {other}")]
    Overlaps {
        /// The subnet that is asked for.
        subnet: String,
        /// Subnet of another network, or of a route of the host.
        other: String,
    },
    /// docker's words.
    #[error("all predefined address pools have been fully subnetted: give the network one with --subnet")]
    NoPool,
    /// The host's routes.
    #[error("cannot look for a free subnet")]
    Look(#[source] NetworkError),
    /// An invalid subnet.
    #[error(transparent)]
    Subnet(#[from] SubnetError),
    /// The address that a container asks for is its network's gateway or the like.
    #[error("no configured subnet contains IP address {0}")]
    NoSuchAddress(IpAddr),
}

/// Error of a container that is to be in a network, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFault {
    /// docker's words.
    #[error("endpoint with name {container} already exists in network {network}")]
    Connected {
        /// The container's name.
        container: String,
        /// The network.
        network: String,
    },
    /// A virtual machine that runs.
    #[error(
        "cannot change the networks of container {0} while it runs: its virtual machine has its network devices from the start"
    )]
    OfMachine(String),
    /// docker's words.
    #[error("container {container} is not connected to network {network}")]
    NotConnected {
        /// The container's id.
        container: String,
        /// The network.
        network: String,
    },
    /// docker's words.
    #[error("container cannot be disconnected from host network or connected to host network")]
    Host,
    /// docker's words.
    #[error(
        "container cannot be connected to multiple networks with one of the networks in private (none) mode"
    )]
    Private,
    /// docker's words.
    #[error(
        "container sharing network namespace with another container or host cannot be connected to any other network"
    )]
    Shared,
    /// Two links of a container with one name.
    #[error(
        "cannot call two links of a container {0}: give one of them another name with driver-opt=com.docker.network.endpoint.ifname=NAME"
    )]
    SameName(String),
    /// A link of a container that runs.
    #[error("cannot change the container's link to network {0}")]
    Link(String, #[source] tote_network::LinkError),
    /// An alias that no DNS question could ask for.
    #[error(
        "cannot give a container the alias {0:?}: a name has letters, digits, '-' and '_', and single dots between them"
    )]
    Alias(String),
    /// docker's words.
    #[error("network-scoped alias is supported only for containers in user defined networks")]
    AliasElsewhere,
    /// Links in a network without names.
    #[error(
        "cannot link to containers in network bridge, which has no names: give --link to run, or connect the container with a network \
         that you have made"
    )]
    LinkElsewhere,
    /// More names than one record holds.
    #[error(
        "cannot give a container so many aliases and links in network {0}: all of them together have 4000 letters at most"
    )]
    TooManyAliases(String),
}

/// Error of the ports that a container publishes.
#[derive(Debug, thiserror::Error)]
pub enum PublishFault {
    /// `--publish` with `--network none`.
    #[error("cannot publish ports: a container with --network none has no address that they could lead to")]
    Nowhere,
    /// `--publish` where every network is internal.
    #[error(
        "cannot publish ports: none of the container's networks has the driver bridge and is not internal, which a port needs"
    )]
    Within,
    /// More ports of a container whose network namespace is not its own.
    #[error(
        "cannot publish ports of container {0}: it has the network of another container or of this machine; publish them at that \
         container"
    )]
    Elsewhere(String),
    /// A port of the host that is in use.
    #[error("cannot publish {host}: port {}/{protocol} is already used by {holder}", host.port())]
    Taken {
        /// The address and port.
        host: SocketAddr,
        /// `tcp` or its like.
        protocol: &'static str,
        /// A container or a process, in words.
        holder: String,
    },
    /// A range of the host's ports of which none is free.
    #[error("cannot publish a port: none of {first}-{last}/{protocol} is free")]
    NoPort {
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
        /// `tcp` or its like.
        protocol: &'static str,
    },
    /// An address of a protocol that the container does not have.
    #[error(
        "cannot publish a port at {0}: the container has no IPv6 address, which networks with --ipv6 give"
    )]
    NoIpv6(IpAddr),
    /// An address that the host does not have.
    #[error("cannot publish a port at {address}: this machine has no such address")]
    NoSuchHost {
        /// The address.
        address: IpAddr,
        /// The kernel's reason.
        #[source]
        source: Errno,
    },
    /// The process that listens at ports of root's.
    #[error("cannot ask the process that listens at published ports")]
    Listener(#[source] Errno),
    /// A protocol for which no process of the host listens.
    #[error(
        "cannot publish a port of {0} so that it passes this machine's rules for its own programs: that is for tcp and udp; publish it \
         with TOTE_PUBLISH=forward"
    )]
    NoListener(&'static str),
    /// The rules that make published ports.
    #[error("cannot change which ports are published")]
    Rules(#[source] NetworkError),
}

/// Error of the limits of a container's traffic: the egress policy and the rate.
#[derive(Debug, thiserror::Error)]
pub enum TrafficFault {
    /// `logs --egress` of a container without a policy.
    #[error("container {0} has no egress policy: nothing was refused to it")]
    NoEgress(String),
    /// `--egress` where there is nothing that it could be held by.
    #[error("cannot hold the container to an egress policy: {0}")]
    Egress(&'static str),
    /// `--net-rate` of a container without links.
    #[error("cannot limit the rate of a network: --net-rate needs --network bridge or a network of its own")]
    RateNowhere,
    /// An invalid limit.
    #[error(transparent)]
    Rate(#[from] tote_bundle::RateError),
}

/// Error of a network's driver, or of its options.
#[derive(Debug, thiserror::Error)]
pub enum DriverFault {
    /// A driver that there is not.
    #[error("cannot make a network with driver {0}: there are bridge, macvlan and ipvlan")]
    Unknown(String),
    /// A driver that takes a link of the machine's, which users other than root cannot share.
    #[error("cannot make a network with driver {0}: it shares a link of this machine, which takes root")]
    OfRoot(&'static str),
    /// A driver for which this machine has no kernel, or no link.
    #[error("cannot make a network with driver {driver}")]
    Unavailable {
        /// The driver.
        driver: &'static str,
        /// The reason.
        #[source]
        source: NetworkError,
    },
    /// A driver without the link that it shares.
    #[error(
        "cannot make a network with driver {0} without -o parent=LINK, the link of this machine that its containers share, such as eth0"
    )]
    NoParent(&'static str),
    /// `--internal` of a network that is part of the parent's network.
    #[error(
        "cannot make an internal network with driver {0}: its containers are in the network of the parent; the driver bridge has \
         internal networks"
    )]
    Internal(&'static str),
    /// A machine without the device by which a virtual machine has a network.
    #[error(
        "cannot give a virtual machine a network: this machine has no /dev/net/tun; as root, 'modprobe tun' helps, and '--network none' \
         does without"
    )]
    NoTap,
    /// An option that takes the host's end of a container's link.
    #[error(
        "cannot start the container with {option} in network {network}: the driver {driver} gives the container a link without an end on \
         this machine, where tote could do that; give it a network with driver bridge"
    )]
    NoBridge {
        /// The option.
        option: &'static str,
        /// The network.
        network: String,
        /// Its driver.
        driver: &'static str,
    },
    /// `--mac-address` where links have the parent's.
    #[error("cannot give the container a MAC address in network {0}: its containers have that of the parent")]
    SharedMac(String),
    /// An option that the driver does not have.
    #[error(
        "cannot make a network with option {0}: the driver {1} has com.docker.network.driver.mtu, com.docker.network.container_iface_prefix{2}"
    )]
    Option(String, &'static str, &'static str),
    /// An option with a value that it cannot have.
    #[error("cannot make a network with option {key}={value}: {value:?} is an invalid value")]
    OptionValue {
        /// Name of the option.
        key: String,
        /// The value.
        value: String,
    },
    /// A name for two bridges.
    #[error("cannot make a network with bridge {bridge}: network {network} has that name for its own")]
    BridgeTaken {
        /// Name of the bridge.
        bridge: String,
        /// The other network.
        network: String,
    },
}

/// Error of a network that a user other than root has.
#[derive(Debug, thiserror::Error)]
pub enum RootlessFault {
    /// The program that connects networks of users with the machine's.
    #[error(
        "cannot use a network: pasta is not installed, by which the containers of users other than root reach other machines; install \
         the package passt, or give --network none or host"
    )]
    NoPasta,
    /// The device that pasta needs.
    #[error(
        "cannot use a network: this user may not open /dev/net/tun, which pasta needs; as root, 'modprobe tun' and 'chmod 666 \
         /dev/net/tun' help"
    )]
    NoTunnel(#[source] Errno),
    /// The namespaces of a user's networks.
    #[error("cannot enter the namespaces of this user's networks")]
    Enter(#[source] Errno),
    /// A process that keeps them, or listens at ports of root's, and does not answer.
    #[error(
        "cannot ask the process that keeps networks or listens at published ports: {process} has not answered for {seconds} s"
    )]
    Silent {
        /// The process, in words.
        process: String,
        /// Duration of the wait.
        seconds: u64,
    },
    /// The process that keeps them, or listens at ports of root's.
    #[error("cannot start the process that keeps a user's networks or listens at published ports: {0}")]
    Holder(String),
    /// A port that the kernel gives to root only.
    #[error(
        "cannot publish port {0}: ports below net.ipv4.ip_unprivileged_port_start are root's; as root, 'sysctl -w \
         net.ipv4.ip_unprivileged_port_start={0}' gives it to every user"
    )]
    LowPort(u16),
    /// A protocol that has no way in for users other than root.
    #[error("cannot publish a port of {0}: users other than root publish those of tcp and udp")]
    NoForward(&'static str),
}

impl NetworkFault {
    /// Whether it says that the machine or the user cannot have the network, whatever container is to be in it.
    pub fn is_of_the_machine(&self) -> bool {
        matches!(
            self,
            Self::Rootless(
                RootlessFault::NoPasta
                    | RootlessFault::NoTunnel(_)
                    | RootlessFault::Enter(_)
                    | RootlessFault::Holder(_)
            ) | Self::Up { .. }
                | Self::Driver(DriverFault::NoTap)
                | Self::Address(AddressFault::NoPool | AddressFault::Look(_))
        )
    }

    /// Whether it says that there is no such network.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}

/// The fault of a running container's link in that network.
pub(crate) fn fault_of_link(network: &str, source: tote_network::LinkError) -> ConnectFault {
    ConnectFault::Link(network.to_owned(), source)
}

/// The fault of a lease, or of a name, in that network.
pub(crate) fn fault_of(network: &str, source: LeaseError) -> NetworkFault {
    let network = network.to_owned();
    NetworkFault::Lease { network, source }
}

tote_records::part!(
    NetworkFault,
    AddressFault,
    ConnectFault,
    DriverFault,
    PublishFault,
    RootlessFault,
    TrafficFault,
);
impl tote_records::PartError for NetworkFault {}
