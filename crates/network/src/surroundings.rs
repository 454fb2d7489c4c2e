//! The links and routes that the host has beside those of networks.

use crate::error::NetworkError;
use crate::forwarding::{Exit, Protocol};
use crate::link_state::{self, LinkState};
use crate::netlink::Socket;
use crate::route::{Route, routes};
use crate::subnet::{Address, Prefix};
use crate::{Subnet, Subnet6};
use std::net::{Ipv4Addr, Ipv6Addr};

/// How the name of every bridge begins.
pub(crate) const PREFIX: &str = "tote-";

/// The MTU where no default route says another.
const USUAL_MTU: u32 = 1500;

/// Kinds of links that lead to other machines, and of hardware, which has none.
const OVER_HARDWARE: [&str; 7] = ["", "vlan", "bond", "team", "wireguard", "tun", "ppp"];

/// The links and routes of the host.
pub(crate) struct Surroundings {
    links: Vec<LinkState>,
    routes: Vec<Route<Ipv4Addr>>,
    /// Not read for networks without IPv6.
    routes6: Vec<Route<Ipv6Addr>>,
}

impl Surroundings {
    pub(crate) fn read(socket: &Socket, ipv6: bool) -> Result<Self, NetworkError> {
        let routes6 = if ipv6 { routes(socket) } else { Ok(Vec::new()) };
        Ok(Self {
            links: link_state::links(socket).map_err(NetworkError::Look)?,
            routes: routes(socket).map_err(NetworkError::Look)?,
            routes6: routes6.map_err(NetworkError::Look)?,
        })
    }

    fn name_of(&self, index: u32) -> Option<&str> {
        let link = self.links.iter().find(|link| link.index == index);
        link.map(|link| link.name.as_str())
    }

    /// Refuses a network whose addresses another route leads to.
    pub(crate) fn leave_room(
        &self,
        bridge: &str,
        subnet: Subnet,
        subnet6: Option<Subnet6>,
    ) -> Result<(), NetworkError> {
        let other = self.in_the_way(&self.routes, subnet, Some(bridge));
        let other = other.map(|other| (subnet.to_string(), other.to_string()));
        let other6 = subnet6.and_then(|subnet| {
            let other = self.in_the_way(&self.routes6, subnet, Some(bridge))?;
            Some((subnet.to_string(), other.to_string()))
        });
        match other.or(other6) {
            Some((subnet, other)) => Err(NetworkError::InTheWay { subnet, other }),
            None => Ok(()),
        }
    }

    /// A route to addresses of a network that leads elsewhere than over `own`.
    fn in_the_way<A: Address>(
        &self,
        routes: &[Route<A>],
        subnet: Prefix<A>,
        own: Option<&str>,
    ) -> Option<Prefix<A>> {
        let is_own = |route: &Route<A>| route.links.iter().any(|index| self.name_of(*index) == own);
        let other = routes.iter().find(|route| {
            route.to.prefix() > 0 && route.to.overlaps(subnet) && !(own.is_some() && is_own(route))
        });
        other.map(|route| route.to)
    }

    /// The shortest of the longest packets of the links that default routes lead out by.
    pub(crate) fn mtu(&self) -> u32 {
        let defaults = self.routes.iter().filter(|route| route.to.prefix() == 0);
        let uplinks: Vec<u32> = defaults.flat_map(|route| route.links.clone()).collect();
        let links = self.links.iter().filter(|link| uplinks.contains(&link.index));
        links.map(|link| link.mtu).min().unwrap_or(USUAL_MTU)
    }

    /// The links that some route leads out by, but for bridges of tote's own.
    pub(crate) fn exits(&self) -> Vec<Exit> {
        // Every link that is up has a route to its own link-local addresses.
        let wide = |route: &&Route<Ipv6Addr>| !route.to.address().is_unicast_link_local();
        let used6 = self.routes6.iter().filter(wide).flat_map(|route| &route.links);
        let used4 = self.routes.iter().flat_map(|route| &route.links);
        let (used4, used6): (Vec<_>, Vec<_>) = (used4.collect(), used6.collect());
        let mut exits = Vec::new();
        for (protocol, used) in [(Protocol::Ipv4, used4), (Protocol::Ipv6, used6)] {
            let leads_out = |link: &&LinkState| {
                let is_own = link.name.starts_with(PREFIX) || link.alias.starts_with(PREFIX);
                used.contains(&&link.index) && !is_own && link.name != "lo"
            };
            let links = self.links.iter().filter(leads_out);
            exits.extend(links.map(|link| Exit {
                protocol,
                link: link.name.clone(),
            }));
        }
        exits
    }

    /// The exits that lead away from the machine: links of default routes, hardware, and links over it. Bridges and links of other engines lead to
    /// their containers and machines.
    pub(crate) fn outward(&self) -> Vec<Exit> {
        let mut exits = self.exits();
        exits.retain(|exit| {
            let link = self.links.iter().find(|link| link.name == exit.link);
            link.is_some_and(|link| {
                OVER_HARDWARE.contains(&link.kind.as_str())
                    || match exit.protocol {
                        Protocol::Ipv4 => is_default(&self.routes, link.index),
                        Protocol::Ipv6 => is_default(&self.routes6, link.index),
                    }
            })
        });
        exits
    }
}

fn is_default<A: Address>(routes: &[Route<A>], link: u32) -> bool {
    let mut defaults = routes.iter().filter(|route| route.to.prefix() == 0);
    defaults.any(|route| route.links.contains(&link))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings() -> Surroundings {
        let link = |index, name: &str, mtu| LinkState {
            index,
            name: name.to_owned(),
            mtu,
            is_up: true,
            mac: crate::Mac([0; 6]),
            alias: if name == "own" { "tote-two" } else { "" }.to_owned(),
            kind: if name == "docker0" { "bridge" } else { "" }.to_owned(),
        };
        let route = |to: &str, links: &[u32]| Route {
            to: to.parse().unwrap(),
            links: links.to_vec(),
        };
        let route6 = |to: &str, links: &[u32]| Route {
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
                link(6, "own", 1500),
                link(7, "docker0", 1500),
            ],
            routes: vec![
                route("0.0.0.0/0", &[2]),
                route("10.1.0.0/16", &[2]),
                route("10.210.0.0/16", &[3]),
                route("10.9.0.0/16", &[4]),
                route("10.211.0.0/16", &[6]),
                route("172.17.0.0/16", &[7]),
            ],
            routes6: vec![
                route6("fe80::/64", &[2]),
                route6("fe80::/64", &[5]),
                route6("2001:db8::/64", &[4]),
            ],
        }
    }

    #[test]
    fn links_that_routes_lead_out_by_are_exits() {
        let exit = |protocol, link: &str| Exit {
            protocol,
            link: link.to_owned(),
        };
        let exits = [
            exit(Protocol::Ipv4, "eth0"),
            exit(Protocol::Ipv4, "wg0"),
            exit(Protocol::Ipv6, "wg0"),
        ];
        assert_eq!(surroundings().outward(), exits);
        let mut with_bridges = surroundings().exits();
        with_bridges.retain(|exit| !exits.contains(exit));
        assert_eq!(with_bridges, [exit(Protocol::Ipv4, "docker0")]);
        let mut hosts = surroundings();
        hosts.routes.push(Route {
            to: "0.0.0.0/0".parse().unwrap(),
            links: vec![7],
        });
        assert!(hosts.outward().contains(&exit(Protocol::Ipv4, "docker0")));
        assert_eq!(surroundings().mtu(), 1460);
    }

    #[test]
    fn a_route_elsewhere_is_in_the_way() {
        let hosts = surroundings();
        let subnet = |text: &str| text.parse::<Subnet>().unwrap();
        let found = |text: &str, own| hosts.in_the_way(&hosts.routes, subnet(text), own);
        assert_eq!(found("10.1.7.0/24", None), Some(subnet("10.1.0.0/16")));
        assert_eq!(found("10.210.0.0/16", Some("tote-one")), None);
        assert_eq!(
            found("10.210.0.0/16", Some("tote-two")),
            Some(subnet("10.210.0.0/16"))
        );
        assert_eq!(found("172.30.0.0/16", None), None);
        let subnet: Subnet6 = "2001:db8::/48".parse().unwrap();
        assert!(hosts.in_the_way(&hosts.routes6, subnet, None).is_some());
    }
}
