//! The answers to a container's questions for names, given by the process that watches it.

use super::egress::{Gate, Keeper};
use super::endpoint::Endpoint;
use super::names::{self, called, networks_of};
use super::record::Network;
use super::{inside, rootless};
use crate::container::{Container, State};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, BorrowedFd};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use tote_bundle::{ContainerId, DEFAULT_NETWORK, RunOptions};
use tote_network::{RESOLVER, guest_resolver_sockets, resolver_sockets};
use tote_resolver::{Heard, Hearing, MOST_ADDRESSES, Names, Resolver, Server};
use tote_runtime::Aside;

/// The port of DNS.
const PORT: u16 = 53;

/// The resolver of a container in a network that a user has made, or with an egress policy.
#[derive(Debug)]
pub struct Answers {
    names: NetworkNames,
    resolver: Option<Resolver<NetworkNames>>,
    /// Keeper of the rules of an egress policy.
    keeper: Option<Keeper>,
}

impl Answers {
    /// The resolver of a container with these addresses, which hears nothing yet; `None` of one that has none.
    pub fn of(home: &Home, id: &ContainerId, options: &RunOptions, endpoints: &[Endpoint]) -> Option<Self> {
        let policy = super::egress::policy_of(options).filter(|_| !endpoints.is_empty());
        let has_names = names::are_named(endpoints) || policy.is_some();
        let forwards = !has_names && !endpoints.is_empty() && crate::etc::is_forwarded(options, home.caller);
        (has_names || forwards).then(|| Self {
            names: NetworkNames {
                forwards,
                home: home.clone(),
                id: id.clone(),
                dns: options.host.dns.clone(),
                gate: policy.map(|policy| Rc::new(Gate::of(home, id, policy, endpoints))),
                is_guest: options.vm.is_some(),
            },
            resolver: None,
            keeper: None,
        })
    }

    /// The resolver of a container that has come into a network while it runs; `None` of one without names, or that has ended.
    ///
    /// # Errors
    /// [`EngineError::State`]; a resolver that cannot listen.
    pub fn late(home: &Home, id: &ContainerId) -> Result<Option<Self>, EngineError> {
        let state = State::read(home, id)?;
        let Some(container) = Container::read(home, id)? else {
            return Ok(None);
        };
        let made = Self::of(home, id, &container.run_options()?, &state.networks);
        let (Some(mut answers), Some(network)) = (made, inside::of(&state)?) else {
            return Ok(None);
        };
        answers.open(network.as_fd()).map_err(EngineError::Usage)?;
        Ok(Some(answers))
    }

    /// Hears what is asked in the container's network namespace from now on.
    ///
    /// # Errors
    /// A warning for people.
    pub fn open(&mut self, network: BorrowedFd<'_>) -> Result<(), String> {
        let opened = self.try_open(network);
        if let (Err(_), Some(gate)) = (&opened, &self.names.gate) {
            // Nothing would keep the policy's rules.
            gate.shut();
        }
        opened
    }

    fn try_open(&mut self, network: BorrowedFd<'_>) -> Result<(), String> {
        let failed = |reason: String| format!("the container finds nobody by name: {reason}");
        let sockets = if self.names.is_guest {
            guest_resolver_sockets(network)
        } else {
            resolver_sockets(network)
        };
        let sockets = sockets.map_err(|error| failed(format!("{error}: {}", error.source)))?;
        let resolver = network
            .try_clone_to_owned()
            .map_err(|error| failed(error.to_string()))
            .and_then(|network| {
                let made = Resolver::new(sockets, network, self.names.clone());
                made.map_err(|errno| failed(errno.to_string()))
            })?;
        if let Some(gate) = &self.names.gate {
            gate.look_into(network);
            self.keeper = Some(gate.keeper(resolver.as_fd())?);
        }
        self.resolver = Some(resolver);
        Ok(())
    }

    /// Prepares what a program would wait for otherwise. The container's program runs.
    pub fn prepare(&self) {
        self.names.gate.iter().for_each(|gate| gate.prepare());
    }

    /// Descriptor and events to wait for.
    pub fn from(&self) -> Option<BorrowedFd<'_>> {
        let keeper = self.keeper.as_ref().map(Keeper::as_fd);
        keeper.or_else(|| Some(self.resolver.as_ref()?.as_fd()))
    }

    /// Answers what was asked meanwhile.
    pub fn answer(&mut self) {
        if let (Some(keeper), Some(gate)) = (&self.keeper, &self.names.gate) {
            keeper.keep(gate);
        }
        self.resolver.iter_mut().for_each(Resolver::advance);
    }
}

impl Aside for Answers {
    fn network(&mut self, network: BorrowedFd<'_>) -> Result<(), String> {
        self.open(network)
    }

    fn begin(&mut self) -> Result<(), String> {
        self.prepare();
        Ok(())
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.from().into_iter().collect()
    }

    fn advance(&mut self) -> bool {
        self.answer();
        false
    }
}

/// The resolver of a container in the foreground, on its way to a monitor once the command leaves.
#[derive(Debug)]
pub struct FrontAnswers<'a> {
    answers: Option<Answers>,
    left: &'a RefCell<Option<Answers>>,
}

impl<'a> FrontAnswers<'a> {
    /// Answers for a container in the foreground; `left` gets them when a monitor takes over.
    pub fn new(answers: Option<Answers>, left: &'a RefCell<Option<Answers>>) -> Self {
        Self { answers, left }
    }

    /// Itself, where there is something to look after.
    pub fn aside(&mut self) -> Option<&mut dyn Aside> {
        self.answers.is_some().then_some(self as &mut dyn Aside)
    }
}

impl Aside for FrontAnswers<'_> {
    fn network(&mut self, network: BorrowedFd<'_>) -> Result<(), String> {
        self.answers
            .as_mut()
            .map_or(Ok(()), |answers| answers.open(network))
    }

    fn begin(&mut self) -> Result<(), String> {
        self.answers.iter().for_each(Answers::prepare);
        Ok(())
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.answers
            .as_ref()
            .and_then(Answers::from)
            .into_iter()
            .collect()
    }

    fn advance(&mut self) -> bool {
        self.answers.iter_mut().for_each(Answers::answer);
        false
    }

    fn leave(&mut self) {
        self.left.replace(self.answers.take());
    }

    fn stay(&mut self) {
        self.answers = self.left.take();
    }
}

/// The names that one container finds.
#[derive(Clone, Debug)]
struct NetworkNames {
    home: Home,
    id: ContainerId,
    /// `--dns`
    dns: Vec<IpAddr>,
    /// Egress policy of the container.
    gate: Option<Rc<Gate>>,
    /// Whether the container is in a virtual machine, which has its addresses: nothing in its network namespace leads out.
    is_guest: bool,
    /// Whether the container was started in `bridge` alone, of which no list of its networks is kept.
    forwards: bool,
}

impl NetworkNames {
    fn networks(&self) -> Vec<String> {
        let mut all = networks_of(&self.home, &self.id);
        all.retain(|network| network != DEFAULT_NETWORK);
        all
    }

    /// Whether one of the container's networks leads out.
    fn leads_out(&self) -> bool {
        let networks = networks_of(&self.home, &self.id);
        if networks.is_empty() {
            return self.forwards;
        }
        let mut read = networks.iter().map(|name| Network::read(&self.home, name));
        read.any(|network| matches!(network, Ok(Some(network)) if !network.internal))
    }
}

impl Names for NetworkNames {
    fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        let mut all = Vec::new();
        for network in self.networks() {
            let called = called(&self.home, &network);
            // docker's: what a container calls others comes before what these are called.
            let find = |name: &str| {
                let linked = names::linked(&self.home, &self.id, &network, name);
                called.addresses(linked.as_deref().unwrap_or(name), MOST_ADDRESSES)
            };
            let mut found = find(name);
            let suffix = format!(".{}", network.to_ascii_lowercase());
            // docker's: a name with the network's behind it is of that network.
            if let Some(short) = name.strip_suffix(&suffix).filter(|_| found.is_empty()) {
                found = find(short);
            }
            all.extend(found);
        }
        if let Some(gate) = &self.gate {
            gate.admit_members(name, &all);
        }
        shuffle(&mut all);
        (!all.is_empty()).then_some(all)
    }

    fn name(&self, address: IpAddr) -> Option<String> {
        let networks = self.networks();
        let mut named = networks.iter().filter_map(|network| {
            let name = called(&self.home, network).name(address)?;
            Some(format!("{name}.{network}"))
        });
        named.next()
    }

    fn servers(&self) -> Option<Vec<Server>> {
        let own = |address: &IpAddr| *address != IpAddr::V4(RESOLVER);
        if !self.dns.is_empty() {
            // docker's: they are where the container finds them, and may be containers. A policy believes none that
            // the container itself could be.
            let (asked, is_inside) = (
                self.dns.iter().copied().filter(own),
                self.gate.is_none() && !self.is_guest,
            );
            return Some(asked.map(|address| server(address, is_inside)).collect());
        }
        let hosts = self
            .leads_out()
            .then(|| std::fs::read_to_string("/etc/resolv.conf"))?;
        let mut servers: Vec<_> = crate::etc::servers(&hosts.unwrap_or_default()).collect();
        if servers.is_empty() {
            // resolv.conf(5)
            servers.push(Ipv4Addr::LOCALHOST.into());
        }
        if rootless::is_inside(&self.home) {
            // The loopback device of this process is another one than the host's, and the host's other addresses end here as well.
            for one in servers.iter_mut().filter(|one| crate::etc::is_closed(**one)) {
                *one = rootless::RELAYED;
            }
            servers.dedup();
        }
        Some(
            servers
                .into_iter()
                .map(|address| server(address, false))
                .collect(),
        )
    }

    fn hearing(&self, name: Option<&str>, client: Option<SocketAddr>) -> Hearing {
        self.gate
            .as_ref()
            .map_or(Hearing::Passed, |gate| gate.hearing(name, client))
    }

    fn hear(&self, name: &str, heard: &Heard) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.hear(name, heard))
    }
}

fn server(address: IpAddr, is_inside: bool) -> Server {
    Server {
        address: SocketAddr::new(address, PORT),
        is_inside,
    }
}

/// Puts addresses into a random order, so that clients who take the first one are spread over all.
fn shuffle(addresses: &mut [IpAddr]) {
    if addresses.len() < 2 {
        return;
    }
    let mut seed = [0; 8];
    if rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).is_err() {
        return;
    }
    let mut state = u64::from_ne_bytes(seed);
    for last in (1..addresses.len()).rev() {
        // splitmix64; no security depends on it.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let range = u64::try_from(last).unwrap_or(u64::MAX) + 1;
        let other = usize::try_from((mixed ^ (mixed >> 31)) % range).unwrap_or(0);
        addresses.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_comes_first_one_day() {
        let all: Vec<_> = (0..4u32).map(|number| Ipv4Addr::from(number).into()).collect();
        let mut first = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let mut addresses = all.clone();
            shuffle(&mut addresses);
            first.insert(addresses[0]);
            addresses.sort();
            assert_eq!(addresses, all);
        }
        assert_eq!(first.len(), 4);
    }
}
