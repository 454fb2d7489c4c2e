//! A network as the kernel has it: a bridge, and the rules for what passes it.

use crate::filter::{self, Chain, Hook};
use crate::link::{self, BridgeLink, LinkError, LinkState, Route};
use crate::netlink::Socket;
use crate::rule::Expression::{
    Accept, Destination, Drop, Established, From, Ipv4, Masquerade, NotEstablished, NotIpv4, NotSource,
    NotTo, NotToPrefix, NotTranslated, Source, To, Translated,
};
use crate::subnet::LOOPBACK;
use crate::{Subnet, forwarding, published};
use std::net::Ipv4Addr;
use std::path::Path;
use tote_sys::Errno;

/// How the name of every bridge begins.
const PREFIX: &str = "tote-";

/// The chain that keeps the links from becoming a router's which were switched to forwarding.
const GUARD: &str = "guard";

/// The MTU where no default route says another.
const USUAL_MTU: u32 = 1500;

/// Why a network is not up, or not down.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Another network has addresses of this one.
    #[error("the subnet {subnet} overlaps with {other}, to which this machine has a route already")]
    InTheWay {
        /// The network's.
        subnet: Subnet,
        /// Subnet of the route.
        other: Subnet,
    },
    /// A link of the host's.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The links and routes of the host.
    #[error("failed to read the links and routes of this machine")]
    Look(#[source] Errno),
    /// The packet filter.
    #[error("failed to {attempt} the packet filter (nf_tables)")]
    Filter {
        /// The attempt, as an infinitive and a preposition.
        attempt: &'static str,
        /// The kernel's reason.
        #[source]
        source: Errno,
    },
    /// A setting in `/proc/sys/net`.
    #[error("failed to {attempt} the forwarding of packets in /proc/sys/net/ipv4/conf")]
    Forwarding {
        /// The attempt, as an infinitive.
        attempt: &'static str,
        /// The kernel's reason.
        #[source]
        source: std::io::Error,
    },
    /// The setting by which the host's own programs reach containers by its loopback addresses.
    #[error("failed to let packets of the loopback device pass to a bridge, in /proc/sys/net/ipv4/conf")]
    Loopback(#[source] std::io::Error),
}

/// A network that is to be up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge<'a> {
    /// The bridge's name: `tote-` and up to ten bytes.
    pub name: &'a str,
    /// The host's address on it.
    pub gateway: Ipv4Addr,
    /// The network.
    pub subnet: Subnet,
    /// True if its members reach only each other.
    pub internal: bool,
    /// The longest packet, in bytes; `None` for that of the uplink.
    pub mtu: Option<u32>,
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
    /// A line about connections that rules of another program end.
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
    let read = |source| NetworkError::Filter {
        attempt: "read",
        source,
    };
    match link::state_of(&socket, bridge.name) {
        Ok(state) if filter::has(&forward).map_err(read)? => {
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
    let surroundings = Surroundings::read(&socket)?;
    if let Some(other) = surroundings.in_the_way(bridge.subnet, Some(bridge.name)) {
        let subnet = bridge.subnet;
        return Err(NetworkError::InTheWay { subnet, other });
    }
    let mtu = bridge.mtu.unwrap_or_else(|| surroundings.mtu());
    let change = |source| NetworkError::Forwarding {
        attempt: "change",
        source,
    };
    let mut chains = chains(bridge);
    if !bridge.internal {
        // Before any link lets packets pass, the rules are there that say which.
        let exits = surroundings.exits();
        let guarded = forwarding::to_allow(&exits, note).map_err(change)?;
        if !guarded.is_empty() {
            chains.push(guard(&guarded));
        }
    }
    let put = |source| NetworkError::Filter {
        attempt: "make rules in",
        source,
    };
    filter::put(&chains).map_err(put)?;
    let about = BridgeLink {
        name: bridge.name,
        address: bridge.gateway,
        subnet: bridge.subnet,
        mtu,
    };
    let index = link::make_bridge(&socket, &about)?;
    let mut warning = None;
    if !bridge.internal {
        forwarding::allow_own(bridge.name).map_err(change)?;
        forwarding::allow(&surroundings.exits(), note).map_err(change)?;
        warning = filter::foreign_drop()
            .map_err(read)?
            .map(|chain| blocked(bridge.name, &chain));
    }
    Ok(Uplink {
        bridge: index,
        mtu,
        fresh: true,
        warning,
    })
}

/// Takes a network down: its bridge and its rules, and with the last network's the table and the settings that the note
/// names. Doing it twice does no harm.
///
/// # Errors
/// [`NetworkError`].
pub fn take_down(name: &str, note: &Path) -> Result<(), NetworkError> {
    let socket = Socket::new().map_err(NetworkError::Look)?;
    link::remove_link(&socket, name)?;
    let hooks = [Hook::Raw, Hook::Input, Hook::Forward, Hook::Postrouting];
    let names = hooks.map(|hook| chain_name(name, hook));
    let remove = |source| NetworkError::Filter {
        attempt: "remove rules from",
        source,
    };
    let [coming, own] = published::CHAINS;
    if filter::remove(&names, &[GUARD, coming, own], published::without).map_err(remove)? {
        let put_back = |source| NetworkError::Forwarding {
            attempt: "put back",
            source,
        };
        forwarding::put_back(note).map_err(put_back)?;
    }
    Ok(())
}

/// The networks to which the host has routes, but for the default route.
///
/// # Errors
/// [`NetworkError::Look`].
pub fn routes_in_the_way() -> Result<Vec<Subnet>, NetworkError> {
    let socket = Socket::new().map_err(NetworkError::Look)?;
    let routes = link::routes(&socket).map_err(NetworkError::Look)?;
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
    };
    format!("{bridge}-{hook}")
}

/// The rules of one network. A connection begins inside, or its destination was translated on purpose, as it
/// happens for published ports; the chain of each network sees to its own bridge, so
/// that two networks are apart without knowing of each other.
fn chains(bridge: &Bridge<'_>) -> Vec<Chain> {
    let name = || bridge.name.to_owned();
    let chain = |hook, rules| Chain {
        name: chain_name(bridge.name, hook),
        hook,
        rules,
    };
    let within = vec![From(name()), To(name()), Accept];
    if bridge.internal {
        return vec![
            chain(
                Hook::Forward,
                vec![within, vec![From(name()), Drop], vec![To(name()), Drop]],
            ),
            // The host may ask its members something, and they do not ask the host.
            chain(
                Hook::Input,
                vec![vec![From(name()), Established, Accept], vec![From(name()), Drop]],
            ),
        ];
    }
    vec![
        chain(
            Hook::Forward,
            vec![
                within,
                vec![From(name()), NotIpv4, Drop],
                // A source outside of the network would leave the host without being translated.
                vec![From(name()), Ipv4, NotSource(bridge.subnet), Drop],
                vec![To(name()), Established, Accept],
                vec![To(name()), Translated, Accept],
                vec![To(name()), Drop],
            ],
        ),
        chain(
            Hook::Postrouting,
            vec![
                vec![Ipv4, Source(bridge.subnet), NotTo(name()), Masquerade],
                // A member that comes to another by a port of the host: the answer has to pass the host again.
                vec![To(name()), Ipv4, Source(bridge.subnet), Translated, Masquerade],
                // The host's own programs, by a loopback address that means the container itself inside.
                vec![To(name()), Ipv4, Source(LOOPBACK), Masquerade],
            ],
        ),
        // What published ports need of a bridge (`allow_loopback`) is not for those on it.
        chain(
            Hook::Raw,
            vec![
                vec![From(name()), Ipv4, Destination(LOOPBACK), Drop],
                vec![From(name()), Ipv4, Source(LOOPBACK), Drop],
            ],
        ),
    ]
}

/// A link that was switched to forwarding lets nothing pass but what networks of tote's are for, and what others have
/// translated on purpose.
fn guard(links: &[String]) -> Chain {
    let rule = |link: &String| {
        vec![
            From(link.clone()),
            NotToPrefix(PREFIX),
            NotEstablished,
            NotTranslated,
            Drop,
        ]
    };
    Chain {
        name: GUARD.to_owned(),
        hook: Hook::Forward,
        rules: links.iter().map(rule).collect(),
    }
}

fn blocked(bridge: &str, chain: &str) -> String {
    format!(
        "this machine's firewall (chain {chain}) drops what it does not know, so containers of {bridge} may reach nothing \
         outside, and nobody their ports: let them pass with 'nft insert rule {chain} iifname {bridge} accept' and 'nft insert rule {chain} oifname \
         {bridge} accept'"
    )
}

/// The links and routes of the host.
struct Surroundings {
    links: Vec<LinkState>,
    routes: Vec<Route>,
}

impl Surroundings {
    fn read(socket: &Socket) -> Result<Self, NetworkError> {
        Ok(Self {
            links: link::links(socket).map_err(NetworkError::Look)?,
            routes: link::routes(socket).map_err(NetworkError::Look)?,
        })
    }

    fn name_of(&self, index: u32) -> Option<&str> {
        let link = self.links.iter().find(|link| link.index == index);
        link.map(|link| link.name.as_str())
    }

    /// A route to addresses of a network that leads elsewhere than over `own`.
    fn in_the_way(&self, subnet: Subnet, own: Option<&str>) -> Option<Subnet> {
        let is_own = |route: &Route| route.links.iter().any(|index| self.name_of(*index) == own);
        let other = self.routes.iter().find(|route| {
            route.to.prefix() > 0 && route.to.overlaps(subnet) && !(own.is_some() && is_own(route))
        });
        other.map(|route| route.to)
    }

    /// The shortest of the longest packets of the links that default routes lead out by.
    fn mtu(&self) -> u32 {
        let defaults = self.routes.iter().filter(|route| route.to.prefix() == 0);
        let uplinks: Vec<u32> = defaults.flat_map(|route| route.links.clone()).collect();
        let links = self.links.iter().filter(|link| uplinks.contains(&link.index));
        links.map(|link| link.mtu).min().unwrap_or(USUAL_MTU)
    }

    /// The links that some route leads out by, but for bridges of tote's own.
    fn exits(&self) -> Vec<String> {
        let leads_out = |link: &&LinkState| {
            let is_used = self.routes.iter().any(|route| route.links.contains(&link.index));
            is_used && !link.name.starts_with(PREFIX) && link.name != "lo"
        };
        let exits = self.links.iter().filter(leads_out);
        exits.map(|link| link.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings() -> Surroundings {
        let link = |index, name: &str, mtu| LinkState {
            index,
            name: name.to_owned(),
            mtu,
        };
        let route = |to: &str, links: &[u32]| Route {
            to: to.parse().unwrap(),
            links: links.to_vec(),
        };
        Surroundings {
            links: vec![
                link(1, "lo", 65536),
                link(2, "eth0", 1460),
                link(3, "tote-one", 1500),
                link(4, "wg0", 1420),
                link(5, "idle", 9000),
            ],
            routes: vec![
                route("0.0.0.0/0", &[2]),
                route("10.1.0.0/16", &[2]),
                route("10.210.0.0/16", &[3]),
                route("10.9.0.0/16", &[4]),
            ],
        }
    }

    #[test]
    fn links_that_routes_lead_out_by_are_exits() {
        assert_eq!(surroundings().exits(), ["eth0", "wg0"]);
        assert_eq!(surroundings().mtu(), 1460);
    }

    #[test]
    fn a_route_elsewhere_is_in_the_way() {
        let hosts = surroundings();
        let subnet = |text: &str| text.parse().unwrap();
        assert_eq!(
            hosts.in_the_way(subnet("10.1.7.0/24"), None),
            Some(subnet("10.1.0.0/16"))
        );
        assert_eq!(hosts.in_the_way(subnet("10.210.0.0/16"), Some("tote-one")), None);
        assert_eq!(
            hosts.in_the_way(subnet("10.210.0.0/16"), Some("tote-two")),
            Some(subnet("10.210.0.0/16"))
        );
        assert_eq!(hosts.in_the_way(subnet("172.30.0.0/16"), None), None);
    }

    #[test]
    fn an_internal_network_has_no_translation() {
        let bridge = |internal| Bridge {
            name: "tote-one",
            gateway: Ipv4Addr::new(10, 210, 0, 1),
            subnet: "10.210.0.0/16".parse().unwrap(),
            internal,
            mtu: None,
        };
        let hooks = |internal| {
            chains(&bridge(internal))
                .iter()
                .map(|chain| chain.hook)
                .collect::<Vec<_>>()
        };
        assert_eq!(hooks(true), [Hook::Forward, Hook::Input]);
        assert_eq!(hooks(false), [Hook::Forward, Hook::Postrouting, Hook::Raw]);
    }
}
