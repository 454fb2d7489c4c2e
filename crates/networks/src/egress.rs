//! `--egress`: a container is held to its policy by rules at the host's ends of its links, and by its resolver.
//!
//! The rules are made with the links, before the program runs. The process that watches the container opens addresses as it
//! answers for names, and makes the rules again where another program has flushed them.

use super::asker;
use super::endpoint::Endpoint;
use super::inside;
use super::join::Joined;
use super::refused::AskedNames;
use crate::container::State;
use crate::{EngineError, Home};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tote_bundle::{
    ContainerId, DEFAULT_NETWORK, EgressEntry, EgressKeep, EgressPolicy, EgressService, EgressTarget,
    RunOptions,
};
use tote_network::{
    Answerer, Egress, EgressLink, FilterEvents, FirstAttempts, Inside, Mac, Place, Service, Transport,
    is_special,
};
use tote_resolver::{Heard, Hearing};
use tote_sys::{Errno, Wait, best_effort};

/// The shortest lifetime of an answer: a client connects after it has got it.
const SHORTEST: Duration = Duration::from_secs(10);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The most addresses that are opened again after a flush.
const MOST_KEPT: usize = 4096;

/// The destinations of a policy, and how long their names' addresses stay open.
pub(crate) type Policy<'a> = (&'a EgressPolicy, EgressKeep);

/// The policy that options say.
pub(crate) fn policy_of(options: &RunOptions) -> Option<Policy<'_>> {
    let keep = options.egress_keep.unwrap_or_default();
    options.egress.as_ref().map(|policy| (policy, keep))
}

/// Has the links of a container made with the rules of its policy.
pub(crate) fn hold(id: &ContainerId, policy: Policy<'_>, joined: &mut Joined) {
    for (endpoint, link) in joined.endpoints.iter_mut().zip(&mut joined.links) {
        endpoint.egress = true;
        link.isolated |= is_alone(policy.0, endpoint);
    }
    let rules = rules(id, policy, &joined.endpoints).rules(&ends(&joined.endpoints));
    if let Some(first) = joined.links.first_mut() {
        first.rules = Some(rules);
    }
}

/// Has the further links of a running container made with the rules of its policy; `all` are its endpoints, those of these links
/// among them.
///
/// # Errors
/// [`EngineError::Kernel`].
pub(super) fn hold_further(
    id: &ContainerId,
    policy: Policy<'_>,
    (all, joined): (&[Endpoint], &mut Joined),
) -> Result<(), EngineError> {
    for (endpoint, link) in joined.endpoints.iter().zip(&mut joined.links) {
        link.isolated |= is_alone(policy.0, endpoint);
    }
    let further = rules(id, policy, all).further_rules(&ends(all), &ends(&joined.endpoints));
    let further = further.map_err(|source| EngineError::Kernel {
        attempt: "look for the rules of the container's egress policy",
        source,
    })?;
    if let Some(first) = joined.links.first_mut() {
        first.rules = Some(further);
    }
    Ok(())
}

/// Takes away the rules of a container's policy. Its links are down or gone.
///
/// # Errors
/// [`EngineError::Kernel`].
pub(crate) fn remove(id: &ContainerId) -> Result<(), EngineError> {
    tote_network::remove_egress(id.as_str()).map_err(|source| EngineError::Kernel {
        attempt: "remove the rules of the container's egress policy",
        source,
    })
}

/// Whether a policy lets a container reach no other member of a network. Its frames do not reach members then of which the same is true: what
/// finds hosts carries no words from one to the other.
fn is_alone(policy: &EgressPolicy, endpoint: &Endpoint) -> bool {
    let networks: Vec<_> = networks_of(endpoint).collect();
    let leads_in = |entry: &EgressEntry| match entry.target {
        EgressTarget::Range { address, prefix } => networks.iter().any(|(own, of)| {
            tote_network::is_in(address, *own, *of) || tote_network::is_in(*own, address, prefix)
        }),
        // Members of the default network have no names.
        EgressTarget::Name { is_wildcard, .. } => !is_wildcard && endpoint.network != DEFAULT_NETWORK,
    };
    !policy.log && !policy.entries.iter().any(leads_in)
}

/// The container's addresses in a network, each with the length of the prefix.
fn networks_of(endpoint: &Endpoint) -> impl Iterator<Item = (IpAddr, u8)> {
    let ipv6 = endpoint.ipv6.as_ref().map(|own| (own.address.into(), own.prefix));
    std::iter::once((endpoint.address.into(), endpoint.prefix)).chain(ipv6)
}

fn rules(id: &ContainerId, (policy, keep): Policy<'_>, endpoints: &[Endpoint]) -> Egress {
    let places = policy.entries.iter().filter_map(|entry| match entry.target {
        EgressTarget::Range { address, prefix } => Some(Place {
            address,
            prefix,
            service: service(entry.service),
        }),
        EgressTarget::Name { .. } => None,
    });
    let services = policy.services().into_iter().map(service);
    let has_ipv6 = endpoints.iter().any(|endpoint| endpoint.ipv6.is_some());
    let open = (places.collect(), services.collect());
    Egress::new(id.as_str(), open, keep.0, (policy.log, has_ipv6))
}

/// The host's ends of a container's links.
fn ends(endpoints: &[Endpoint]) -> Vec<EgressLink> {
    let end = |endpoint: &Endpoint| EgressLink {
        outside: endpoint.link.clone(),
        // Nothing comes from this one, and nothing passes.
        mac: Mac::parse(&endpoint.mac).unwrap_or(Mac([0; 6])),
        addresses: networks_of(endpoint).collect(),
        gateways: (endpoint.gateway.map(IpAddr::V4).into_iter())
            .chain(endpoint.ipv6.and_then(|own| own.gateway).map(IpAddr::V6))
            .collect(),
    };
    endpoints.iter().map(end).collect()
}

fn service((protocol, port): EgressService) -> Service {
    Service {
        protocol: protocol.and_then(Transport::named),
        port,
    }
}

/// The rules of a policy, and the links that they are at.
#[derive(Debug)]
struct Held {
    egress: Egress,
    links: Vec<EgressLink>,
}

impl Held {
    fn of(id: &ContainerId, policy: Policy<'_>, endpoints: &[Endpoint]) -> Self {
        Self {
            egress: rules(id, policy, endpoints),
            links: ends(endpoints),
        }
    }
}

/// The policy of a container with its rules, which open addresses as names are answered.
#[derive(Debug)]
pub(crate) struct Gate {
    home: Home,
    id: ContainerId,
    policy: EgressPolicy,
    keep: EgressKeep,
    services: Vec<EgressService>,
    held: RefCell<Held>,
    /// Until when names have opened an address.
    open: RefCell<BTreeMap<(usize, Answerer, IpAddr), Instant>>,
    asked: RefCell<AskedNames>,
    /// The container's network namespace, and its inode, once it is there.
    inside: OnceCell<(Inside, u64)>,
    /// First attempts to reach a destination that is refused, where the kernel tells of them.
    first: Option<FirstAttempts>,
}

impl Gate {
    pub(crate) fn of(home: &Home, id: &ContainerId, of: Policy<'_>, endpoints: &[Endpoint]) -> Self {
        let (policy, keep) = of;
        Self {
            home: home.clone(),
            id: id.clone(),
            policy: policy.clone(),
            keep,
            services: policy.services(),
            held: RefCell::new(Held::of(id, of, endpoints)),
            open: RefCell::default(),
            asked: RefCell::new(AskedNames::begin(home, id)),
            inside: OnceCell::new(),
            // Without it, refusals are noted without their processes.
            first: FirstAttempts::new(id.as_str()).ok().filter(|_| !policy.log),
        }
    }

    /// Returns the keeper of the rules for as long as the resolver with that descriptor answers. Where nothing would keep them, the
    /// container has no network.
    ///
    /// # Errors
    /// A warning for people.
    pub(crate) fn keeper(&self, resolver: BorrowedFd<'_>) -> Result<Keeper, String> {
        let failed = |errno| {
            format!("the container has no network, because nothing would keep its egress policy: {errno}")
        };
        let keeper = Keeper::new(resolver, self.first.as_ref()).map_err(failed)?;
        // What was flushed before this socket heard of it.
        self.restore();
        self.tell();
        Ok(keeper)
    }

    /// Has processes looked for in this network namespace, which is the container's.
    pub(crate) fn look_into(&self, network: BorrowedFd<'_>) {
        let (own, stat) = (network.try_clone_to_owned(), rustix::fs::fstat(network));
        if let (Ok(own), Ok(stat)) = (own, stat) {
            best_effort(self.inside.set((Inside::new(own), stat.st_ino)));
        }
    }

    /// Makes what a look at a first attempt takes, before a program waits for it.
    pub(super) fn prepare(&self) {
        if let (Some(_), Some((inside, _))) = (&self.first, self.inside.get()) {
            inside.prepare();
        }
    }

    /// Decides what is done with a question of this client, who is known if the question came by UDP.
    pub(crate) fn hearing(&self, name: Option<&str>, client: Option<SocketAddr>) -> Hearing {
        let Some(name) = name else {
            return if self.policy.log {
                Hearing::Passed
            } else {
                Hearing::Refused
            };
        };
        if self.policy.log {
            Hearing::Heard
        } else if self.policy.entries_of(name).next().is_some() {
            Hearing::Held
        } else {
            let asker = || asker::process_at(self.inside.get()?.1, client?);
            self.asked.borrow_mut().refused(name, asker);
            Hearing::Refused
        }
    }

    /// Opens the addresses of a server's answer, before the client gets it. False for a name that is an alias of one which
    /// the policy does not name.
    pub(crate) fn hear(&self, name: &str, heard: &Heard) -> bool {
        if self.policy.log {
            let (mut asked, is_alias) = (self.asked.borrow_mut(), !heard.aliases.is_empty());
            for (address, _) in &heard.addresses {
                asked.answered(name, *address, is_alias);
            }
            return true;
        }
        let is_named = |alias: &Option<String>| {
            let named = alias.as_deref().map(|alias| self.policy.entries_of(alias));
            named.is_some_and(|mut entries| entries.next().is_some())
        };
        let follows = self.policy.entries_of(name).any(|entry| {
            let EgressTarget::Name { is_alias, .. } = entry.target else {
                return false;
            };
            is_alias
        });
        if !follows && !heard.aliases.iter().all(is_named) {
            let last = heard.aliases.last().cloned().flatten().unwrap_or_default();
            self.asked
                .borrow_mut()
                .refused(&format!("{name}={last}"), || None);
            return false;
        }
        let services: Vec<_> = self.policy.entries_of(name).map(|entry| entry.service).collect();
        let addresses = heard.addresses.iter();
        // What a name must not lead to stays closed, and a connection there is refused at once.
        let mut addresses = addresses.filter(|(address, _)| !is_special(*address));
        addresses.all(|(address, lifetime)| self.admit(&services, Answerer::Server, *address, *lifetime))
    }

    /// Opens the addresses of a container that the policy calls by its name.
    pub(crate) fn admit_members(&self, name: &str, addresses: &[IpAddr]) {
        let exact = self.policy.entries_of(name).filter(|entry| {
            let EgressTarget::Name { is_wildcard, .. } = entry.target else {
                return false;
            };
            !is_wildcard
        });
        let services: Vec<_> = exact.map(|entry| entry.service).collect();
        for address in addresses.iter().filter(|_| !services.is_empty()) {
            self.admit(&services, Answerer::Records, *address, Duration::ZERO);
        }
    }

    fn admit(
        &self,
        services: &[EgressService],
        answerer: Answerer,
        address: IpAddr,
        lifetime: Duration,
    ) -> bool {
        let lifetime = lifetime.clamp(SHORTEST, LONGEST) + self.keep.0;
        services.iter().all(|service| {
            let Some(place) = self.services.iter().position(|own| own == service) else {
                return false;
            };
            let admit = || {
                let held = self.held.borrow();
                held.egress.admit((place, answerer), address, lifetime)
            };
            let mut admitted = admit();
            if admitted == Err(Errno::NOENT) {
                self.restore();
                admitted = admit();
            }
            if admitted.is_ok() {
                self.note_open((place, answerer, address), lifetime);
            }
            admitted.is_ok()
        })
    }

    fn note_open(&self, what: (usize, Answerer, IpAddr), lifetime: Duration) {
        let (mut open, now) = (self.open.borrow_mut(), Instant::now());
        if open.len() >= MOST_KEPT {
            open.retain(|_, until| *until > now);
        }
        if open.len() < MOST_KEPT || open.contains_key(&what) {
            open.insert(what, now + lifetime);
        }
    }

    /// Has first attempts told from now on.
    fn tell(&self) {
        if let Some(first) = &self.first {
            best_effort(self.held.borrow().egress.tell(first));
        }
    }

    /// Notes the processes of the attempts that have been told, and lets them be refused.
    fn first_attempts(&self) {
        let Some((inside, namespace)) = self.inside.get() else {
            return;
        };
        for attempt in self.first.iter().flat_map(FirstAttempts::take) {
            let process = match attempt.transport {
                Transport::Tcp => {
                    let socket = inside.socket_of(&attempt).ok();
                    socket.and_then(|socket| asker::process_of(*namespace, socket))
                }
                _ => asker::process_at(*namespace, attempt.source),
            };
            // The program waits for this one; where it fails, the kernel tries again after a second.
            best_effort(inside.repeat(&attempt));
            if let Some(process) = process {
                let mut asked = self.asked.borrow_mut();
                asked.attempted(attempt.transport.as_str(), attempt.destination, process);
            }
        }
    }

    /// Makes the rules again where they are gone, at the links that the container has by now. Where that fails, the container has no network any more.
    fn restore(&self) {
        let is_other = self.follow();
        let kept = {
            let held = self.held.borrow();
            held.egress.keep(&held.links)
        };
        match kept {
            Ok(false) if !is_other => {}
            Ok(_) => {
                self.tell();
                self.open_again();
            }
            Err(_) => self.shut(),
        }
    }

    /// Takes over the links of the container's record, where a command has connected it with another network or disconnected it. Gives
    /// whether that was so.
    fn follow(&self) -> bool {
        // absence: the record is read again with the next event
        let Ok(state) = State::read(&self.home, &self.id) else {
            return false;
        };
        let is_same = || ends(&state.networks) == self.held.borrow().links;
        // A record may be of the container's last run as long as this one is not recorded.
        let is_of_this_run = || {
            // If the kernel does not say so, the links stay as they are held, and the next change of the record asks again.
            let Ok(Some(network)) = inside::of(&state) else {
                return false;
            };
            let recorded = rustix::fs::fstat(network);
            self.inside
                .get()
                .zip(recorded.ok())
                .is_some_and(|((_, own), recorded)| recorded.st_ino == *own)
        };
        if state.networks.is_empty() || is_same() || !is_of_this_run() {
            return false;
        }
        self.held
            .replace(Held::of(&self.id, (&self.policy, self.keep), &state.networks));
        true
    }

    /// Opens the addresses that names had opened.
    fn open_again(&self) {
        let (held, now) = (self.held.borrow(), Instant::now());
        for ((place, answerer, address), until) in &*self.open.borrow() {
            let left = until.saturating_duration_since(now);
            if !left.is_zero() {
                best_effort(held.egress.admit((*place, *answerer), *address, left));
            }
        }
    }

    /// Takes the container's links off their bridges.
    pub(crate) fn shut(&self) {
        let held = self.held.borrow();
        let names: Vec<_> = held.links.iter().map(|link| link.outside.clone()).collect();
        best_effort(tote_network::disconnect(&names));
    }
}

/// Hears of each change of the packet filter, beside the questions for names.
#[derive(Debug)]
pub(crate) struct Keeper {
    epoll: OwnedFd,
    events: FilterEvents,
}

/// Numbers by which epoll(7) tells changes of the filter and first attempts from questions.
const CHANGES: u64 = 1;
const ATTEMPTS: u64 = 2;

impl Keeper {
    fn new(resolver: BorrowedFd<'_>, first: Option<&FirstAttempts>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let events = FilterEvents::new()?;
        epoll::add(&epoll, resolver, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&epoll, &events, EventData::new_u64(CHANGES), EventFlags::IN)?;
        if let Some(first) = first {
            epoll::add(&epoll, first, EventData::new_u64(ATTEMPTS), EventFlags::IN)?;
        }
        Ok(Self { epoll, events })
    }

    /// Has the rules made again if a program has changed the packet filter, and looks at first attempts, without waiting.
    pub(crate) fn keep(&self, gate: &Gate) {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 3];
        let Ok((ready, _)) = Wait::now().epoll(&self.epoll, &mut events) else {
            return;
        };
        let is_ready = |number| ready.iter().any(|event| event.data.u64() == number);
        if is_ready(CHANGES) && self.events.drain() {
            gate.restore();
        }
        if is_ready(ATTEMPTS) {
            gate.first_attempts();
        }
    }
}

impl AsFd for Keeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
