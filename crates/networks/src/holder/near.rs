//! Network namespaces of containers, in which connections by published ports begin: so they pass neither bridge nor link.
//!
//! A container that the link does something for is reached by it: one whose rate is limited, a virtual machine, and one that may have
//! rules and routes of its own.

use super::super::inside;
use crate::container::{Container, ProcessId, State};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tote_bundle::ContainerId;
use tote_forward::{Place, Places};

/// Number of CAP_NET_ADMIN.
const NET_ADMIN: u32 = 12;

/// Containers with published ports of a user.
#[derive(Debug)]
pub(crate) struct Near {
    home: Home,
    /// Containers by their addresses at published ports.
    holders: BTreeMap<IpAddr, ContainerId>,
    known: BTreeMap<IpAddr, Known>,
}

/// Knowledge of a container, for as long as its first process exists.
#[derive(Debug)]
struct Known {
    process: ProcessId,
    /// Its network namespace, with the gateway of the address; `None` if it is reached by its link.
    place: Option<(OwnedFd, IpAddr)>,
}

impl Near {
    pub(crate) fn new(home: Home) -> Self {
        Self {
            home,
            holders: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// Takes note of the containers that publish ports now, and lets go of the namespaces of others.
    pub(crate) fn lead(&mut self, holders: BTreeMap<IpAddr, ContainerId>) {
        self.known
            .retain(|address, known| holders.contains_key(address) && known.process.exists());
        self.holders = holders;
    }

    /// Looks at the container with an address; `None` if it does not run yet.
    fn look(&self, to: IpAddr) -> Result<Option<Known>, EngineError> {
        let Some(id) = self.holders.get(&to) else {
            return Ok(None);
        };
        let state = State::read(&self.home, id)?;
        let Some(process) = state.process else {
            return Ok(None);
        };
        let gateway = state.networks.iter().find_map(|endpoint| match endpoint.ipv6 {
            _ if to == IpAddr::V4(endpoint.address) => endpoint.gateway.map(IpAddr::V4),
            Some(ipv6) if to == IpAddr::V6(ipv6.address) => ipv6.gateway.map(IpAddr::V6),
            _ => None,
        });
        let container = Container::read(&self.home, id)?;
        let is_limited = match &container {
            Some(container) => container.run_options()?.net_limit.rate.is_some(),
            None => true,
        };
        let by_link = state.kernel.is_some() || is_limited || may_have_rules(process.pid);
        let network = inside::of(&state)?.filter(|_| !by_link);
        let network = network.filter(|network| tote_network::keep_marked(network.as_fd()).is_ok());
        Ok(Some(Known {
            process,
            place: network.zip(gateway),
        }))
    }
}

impl Places for Near {
    fn place(&mut self, to: IpAddr) -> Option<Place<'_>> {
        if !self.known.get(&to).is_some_and(|known| known.process.exists()) {
            self.known.remove(&to);
            let known = self.look(to).ok()??;
            self.known.insert(to, known);
        }
        let (network, gateway) = self.known.get(&to)?.place.as_ref()?;
        Some(Place {
            network: network.as_fd(),
            mark: Some(tote_network::STAY_MARK),
            gateway: Some(*gateway),
        })
    }
}

/// Whether programs of the container may change how packets go there, as far as can be told.
fn may_have_rules(pid: u32) -> bool {
    // absence: a container without a known set may have rules
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let bounding = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    let bounding = bounding.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    bounding.is_none_or(|set| set & 1 << NET_ADMIN != 0)
}
