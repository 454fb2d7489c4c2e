//! A network as the kernel has it: a bridge, and the rules for what passes it.

use crate::clients::CLIENT_MARK;
use crate::error::NetworkError;
use crate::filter::{self, Chain, Hook};
use crate::forwarding::{Exit, Protocol};
use crate::link::{self, BridgeLink};
use crate::link_state;
use crate::netlink::Socket;
use crate::route::routes;
use crate::rule::Expression::{
    self, Accept, Destination, Drop, Established, From, Icmp6, Ipv4, Ipv6, Mark, Masquerade, NotEstablished,
    NotIpv4, NotSource, NotSource6, NotTo, OfOwnSocket, Source, Source6, To, Translated,
};
use crate::subnet::{Address, LOOPBACK, Prefix};
use crate::surroundings::Surroundings;
use crate::{Subnet, Subnet6, arriving, claim, forwarding, guard, kind, onward, parted};
use rustix::net::netdevice::index_to_name;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use tote_sys::Errno;

/// Types of the messages by which hosts find each other's hardware addresses (RFC 4861).
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// A network that is to be up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge<'a> {
    /// The bridge's name, of 15 bytes at most.
    pub name: &'a str,
    /// The bridge's alias, which is its name if no other name was asked for: `tote-` and up to ten bytes.
    pub alias: &'a str,
    /// The host's address on it.
    pub gateway: Ipv4Addr,
    /// The network.
    pub subnet: Subnet,
    /// The IPv6 addresses; `None` for a network without them.
    pub ipv6: Option<Bridge6>,
    /// True if its members reach only each other.
    pub internal: bool,
    /// Whether what leaves the machine gets the machine's own address.
    pub masquerade: bool,
    /// The longest packet, in bytes; `None` for that of the uplink.
    pub mtu: Option<u32>,
    /// Whether this network namespace is for networks alone, so that its settings are theirs.
    pub alone: bool,
}

/// The IPv6 addresses of a network that is to be up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridge6 {
    /// The host's address on the bridge.
    pub gateway: Ipv6Addr,
    /// The network.
    pub subnet: Subnet6,
}

/// A network that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// The bridge's number.
    pub bridge: u32,
    /// The longest packet, in bytes.
    pub mtu: u32,
    /// Whether its rules are new: others of the table may have been lost with the former ones.
    pub fresh: bool,
    /// A line about connections that the kernel ends.
    pub warning: Option<String>,
}

/// Brings a network up: its bridge, its rules, and forwarding on the links that lead out, with a note in the file `note` of
/// what was changed. A network that is up stays as it is, and one whose rules were flushed gets them again.
///
/// # Errors
/// [`NetworkError`].
pub fn bring_up(bridge: &Bridge<'_>, note: &Path) -> Result<Uplink, NetworkError> {
    let socket = Socket::new().map_err(NetworkError::Look)?;
    let forward = chain_name(bridge.name, Hook::Forward);
    // A network that an earlier version has brought up lacks it.
    let newest = match bridge.internal {
        true => forward.clone(),
        false => chain_name(bridge.name, Hook::Last),
    };
    let read = |source| NetworkError::Filter {
        attempt: "read",
        source,
    };
    match link_state::state_of(&socket, bridge.name) {
        Ok(state) if !state.is_bridge_of(bridge.alias) => {
            return Err(NetworkError::Foreign(state.name));
        }
        Ok(state) if filter::has(&newest).map_err(read)? => {
            follow(&socket, bridge, note)?;
            return Ok(Uplink {
                bridge: state.index,
                mtu: state.mtu,
                fresh: false,
                warning: None,
            });
        }
        Ok(_) | Err(Errno::NODEV) => {}
        Err(errno) => return Err(NetworkError::Look(errno)),
    }
    let surroundings = Surroundings::read(&socket, bridge.ipv6.is_some())?;
    surroundings.leave_room(bridge.name, bridge.subnet, bridge.ipv6.map(|ipv6| ipv6.subnet))?;
    let mtu = bridge.mtu.unwrap_or_else(|| surroundings.mtu());
    let change = |source| NetworkError::Forwarding {
        attempt: "change",
        source,
    };
    let is_led = bridge.alone && onward::is_led().map_err(read)?;
    let chains = chains(bridge, is_led);
    // A killed process may have left the rules, which have taken the subnet.
    let has_subnet = filter::has(&forward).map_err(read)?;
    let claim = claim::new(bridge.subnet, !has_subnet);
    if bridge.internal {
        filter::put_with(vec![claim], &chains).map_err(|source| NetworkError::Filter {
            attempt: "make rules in",
            source,
        })
    } else {
        guard::put((&chains, Some(claim)), &surroundings.exits(), note)
    }
    .map_err(|error| claim::refused(error, bridge.subnet))?;
    let about = BridgeLink {
        name: bridge.name,
        alias: bridge.alias,
        address: bridge.gateway,
        subnet: bridge.subnet,
        ipv6: bridge.ipv6.map(|ipv6| (ipv6.gateway, ipv6.subnet)),
        mtu,
    };
    let index = link::make_bridge(&socket, &about)?;
    if bridge.alone {
        forwarding::pass_frames();
    }
    let mut warning = None;
    if !bridge.internal {
        forwarding::allow_own(bridge.name, Protocol::Ipv4).map_err(change)?;
        if bridge.ipv6.is_some() && !forwarding::allow_own(bridge.name, Protocol::Ipv6).map_err(change)? {
            warning = Some(no_router(bridge.name));
        }
    }
    Ok(Uplink {
        bridge: index,
        mtu,
        fresh: true,
        warning,
    })
}

/// Whether a default route leads out by a link that lets nothing pass: the machine has got another way out since the network was
/// brought up, as when a cable is plugged in. The usual answer takes few system calls.
fn leads_elsewhere(socket: &Socket, ipv6: bool) -> Result<bool, NetworkError> {
    let mut exits = default_exits::<Ipv4Addr>(socket, Protocol::Ipv4)?;
    if ipv6 {
        exits.extend(default_exits::<Ipv6Addr>(socket, Protocol::Ipv6)?);
    }
    let change = |source| NetworkError::Forwarding {
        attempt: "read",
        source,
    };
    for exit in exits {
        if !forwarding::passes(&exit).map_err(change)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn default_exits<A: Address>(socket: &Socket, protocol: Protocol) -> Result<Vec<Exit>, NetworkError> {
    let routes = routes::<A>(socket).map_err(NetworkError::Look)?;
    let defaults = routes.into_iter().filter(|route| route.to.prefix() == 0);
    // A link that is gone by now has no name.
    let names = defaults
        .flat_map(|route| route.links)
        .filter_map(|index| index_to_name(socket, index).ok());
    Ok(names.map(|link| Exit { protocol, link }).collect())
}

/// The links that default routes of IPv4 lead out by.
pub(crate) fn default_links(socket: &Socket) -> Result<Vec<String>, NetworkError> {
    let exits = default_exits::<Ipv4Addr>(socket, Protocol::Ipv4)?;
    Ok(exits.into_iter().map(|exit| exit.link).collect())
}

/// Lets packets of a network that is up pass by the links that lead out of the machine by now.
fn follow(socket: &Socket, bridge: &Bridge<'_>, note: &Path) -> Result<(), NetworkError> {
    let has_ipv6 = bridge.ipv6.is_some();
    if bridge.internal || !leads_elsewhere(socket, has_ipv6)? {
        return Ok(());
    }
    guard::put((&[], None), &Surroundings::read(socket, has_ipv6)?.exits(), note)
}

/// Whether this caller, on this machine, can make bridges; asks the kernel, and makes nothing.
///
/// # Errors
/// [`NetworkError::NoBridges`].
pub fn check_bridges() -> Result<(), NetworkError> {
    kind::probe("bridge").map_err(NetworkError::NoBridges)
}

/// Takes a network with that bridge and subnet down: its bridge and its rules, and with those of the last network of all state roots the table, and the settings
/// of links as they were. `is_last` says that it is the last one of this state root, which needs no `note` then. Doing it twice does no harm. A link of
/// that name and another alias stays.
///
/// # Errors
/// [`NetworkError`].
pub fn take_down(
    (name, alias, subnet): (&str, &str, Subnet),
    note: &Path,
    is_last: bool,
) -> Result<(), NetworkError> {
    let socket = Socket::new().map_err(NetworkError::Look)?;
    match link_state::state_of(&socket, name) {
        Ok(state) if state.is_bridge_of(alias) => link::remove_link(&socket, name)?,
        Ok(_) | Err(Errno::NODEV) => {}
        Err(errno) => return Err(NetworkError::Look(errno)),
    }
    parted::remove_marked(&socket)?;
    let hooks = [
        Hook::Raw,
        Hook::Input,
        Hook::Forward,
        Hook::Postrouting,
        Hook::Last,
    ];
    let mut names = hooks.map(|hook| chain_name(name, hook)).to_vec();
    let read = |source| NetworkError::Filter {
        attempt: "read",
        source,
    };
    // Both come and go in one transaction; without the rules another state root has the subnet.
    if filter::has(&chain_name(name, Hook::Forward)).map_err(read)? {
        names.push(claim::name(subnet));
    }
    guard::remove(&names, note, is_last)
}

/// The IPv4 networks to which the host has routes, but for the default route.
///
/// # Errors
/// [`NetworkError::Look`].
pub fn routes_in_the_way() -> Result<Vec<Subnet>, NetworkError> {
    networks_of_routes()
}

/// The IPv6 networks to which the host has routes, but for the default route.
///
/// # Errors
/// [`NetworkError::Look`].
pub fn routes6_in_the_way() -> Result<Vec<Subnet6>, NetworkError> {
    networks_of_routes()
}

fn networks_of_routes<A: Address>() -> Result<Vec<Prefix<A>>, NetworkError> {
    let socket = Socket::new().map_err(NetworkError::Look)?;
    let routes = routes(&socket).map_err(NetworkError::Look)?;
    let networks = routes.into_iter().map(|route| route.to);
    Ok(networks.filter(|network| network.prefix() > 0).collect())
}

fn chain_name(bridge: &str, hook: Hook) -> String {
    let hook = match hook {
        Hook::Input => "input",
        Hook::Forward => "forward",
        Hook::Postrouting => "postrouting",
        Hook::Raw => "raw",
        Hook::Prerouting => "prerouting",
        Hook::Output => "output",
        Hook::RawOutput => "raw-output",
        Hook::Last => "explained",
    };
    format!("{bridge}-{hook}")
}

/// The rules of one network. A connection begins inside, or its destination was translated on purpose, as it
/// happens for published ports; the chain of each network sees to its own bridge, so
/// that two networks are apart without knowing of each other. A process leads connections of members on if `is_led` says so.
fn chains(bridge: &Bridge<'_>, is_led: bool) -> Vec<Chain> {
    let name = || bridge.name.to_owned();
    let chain = |hook, rules| Chain {
        name: chain_name(bridge.name, hook),
        hook: Some(hook),
        rules,
    };
    let within = vec![To(name()), From(name()), Accept];
    if bridge.internal {
        let mut input = arriving::here(bridge);
        input.push(vec![From(name()), Established, Accept]);
        if bridge.ipv6.is_some() {
            // The host finds its members, and they find it, by messages that belong to no connection.
            let find = [NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT];
            input.extend(find.map(|kind| vec![From(name()), Ipv6, Icmp6(kind), Accept]));
        }
        input.push(vec![From(name()), Drop]);
        return vec![
            chain(
                Hook::Forward,
                vec![within, vec![From(name()), Drop], vec![To(name()), Drop]],
            ),
            // The host may ask its members something, and they do not ask the host.
            chain(Hook::Input, input),
        ];
    }
    let mut postrouting = vec![
        // A member that comes to another by a port of the host: the answer has to pass the host again.
        vec![To(name()), Ipv4, Source(bridge.subnet), Translated, Masquerade],
        // The host's own programs, by a loopback address that means the container itself inside.
        vec![To(name()), Ipv4, Source(LOOPBACK), Masquerade],
    ];
    if bridge.masquerade {
        postrouting.insert(0, vec![Ipv4, Source(bridge.subnet), NotTo(name()), Masquerade]);
    }
    let foreign = match bridge.ipv6 {
        None => vec![NotIpv4, From(name()), Drop],
        Some(ipv6) => {
            if bridge.masquerade {
                postrouting.push(vec![Ipv6, Source6(ipv6.subnet), NotTo(name()), Masquerade]);
            }
            postrouting.push(vec![
                To(name()),
                Ipv6,
                Source6(ipv6.subnet),
                Translated,
                Masquerade,
            ]);
            vec![Ipv6, NotSource6(ipv6.subnet), From(name()), Drop]
        }
    };
    // What published ports need of a bridge (`allow_loopback`) is not for those on it.
    let mut raw = vec![
        vec![Ipv4, Destination(LOOPBACK), From(name()), Drop],
        vec![Ipv4, Source(LOOPBACK), From(name()), Drop],
    ];
    if is_led {
        raw.extend(onward::of_bridge(bridge));
    }
    let mut forward = vec![
        vec![To(name()), Established, Accept],
        within,
        // A source outside of the network would leave the host without being translated.
        foreign,
        vec![Ipv4, NotSource(bridge.subnet), From(name()), Drop],
    ];
    forward.extend(arriving::onward(bridge));
    forward.extend([vec![To(name()), Translated, Accept], vec![To(name()), Drop]]);
    vec![
        chain(Hook::Forward, forward),
        chain(Hook::Input, arriving::here(bridge)),
        chain(Hook::Postrouting, postrouting),
        chain(Hook::Raw, raw),
        chain(Hook::Last, explained(bridge)),
    ]
}

/// The rules by which a container with an egress policy tells who may begin to speak to it: clients of published ports, and programs of the
/// host. Of all others, frames have the source of another host as easily as their own, those that come back by the bridge among them.
fn explained(bridge: &Bridge<'_>) -> Vec<Vec<Expression>> {
    let to = || To(bridge.name.to_owned());
    let from = || From(bridge.name.to_owned());
    let begins = |what| vec![to(), NotEstablished, what, Mark(CLIENT_MARK)];
    let mut rules = vec![vec![Ipv4, NotSource(bridge.subnet), to(), from(), Accept]];
    if let Some(ipv6) = bridge.ipv6 {
        rules.push(vec![Ipv6, NotSource6(ipv6.subnet), to(), from(), Accept]);
    }
    rules.extend([begins(Translated), begins(OfOwnSocket)]);
    rules
}

fn no_router(bridge: &str) -> String {
    format!(
        "this kernel forwards IPv6 for the whole machine only (a link alone since Linux 6.17), so containers of {bridge} reach nothing \
         outside by IPv6: switch it on with 'sysctl -w net.ipv6.conf.all.forwarding=1'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridge(name: &'static str, internal: bool) -> Bridge<'static> {
        Bridge {
            name,
            alias: name,
            gateway: Ipv4Addr::new(10, 210, 0, 1),
            subnet: "10.210.0.0/16".parse().unwrap(),
            ipv6: None,
            internal,
            masquerade: true,
            mtu: None,
            alone: false,
        }
    }

    #[test]
    fn two_networks_that_come_up_at_once_do_not_have_one_subnet() {
        let Ok(network) = tote_sys::network_namespace(None) else {
            println!("skipped: needs root, for a network namespace");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let note = dir.path().join("note");
        // The namespace is that of a thread, which ends.
        std::thread::spawn(move || {
            let network = rustix::fd::AsFd::as_fd(&network);
            rustix::thread::move_into_link_name_space(network, None).unwrap();
            // Another state root has made its rules, and not yet its bridge.
            let other = bridge("tote-other", false);
            let taken = claim::new(other.subnet, true);
            guard::put((&chains(&other, false), Some(taken)), &[], &note).unwrap();
            assert_eq!(claim::claimed(), [other.subnet]);
            for internal in [false, true] {
                let error = bring_up(&bridge("tote-one", internal), &note).unwrap_err();
                assert!(matches!(error, NetworkError::InTheWay { .. }), "{error}");
            }
            let place = |name| (name, name, other.subnet);
            take_down(place("tote-one"), &note, false).unwrap();
            assert_eq!(claim::claimed(), [other.subnet]);
            // Rules that a killed process has left do not stop its own network.
            assert!(bring_up(&other, &note).unwrap().fresh);
            take_down(place("tote-other"), &note, true).unwrap();
            assert_eq!(claim::claimed(), []);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_internal_network_has_no_translation() {
        let hooks = |internal| {
            chains(&bridge("tote-one", internal), false)
                .iter()
                .filter_map(|chain| chain.hook)
                .collect::<Vec<_>>()
        };
        assert_eq!(hooks(true), [Hook::Forward, Hook::Input]);
        let outward = [
            Hook::Forward,
            Hook::Input,
            Hook::Postrouting,
            Hook::Raw,
            Hook::Last,
        ];
        assert_eq!(hooks(false), outward);
    }
}
