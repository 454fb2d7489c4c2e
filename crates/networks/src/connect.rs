//! Containers come into a network and leave it while they are there, whether they run or not.
//!
//! A container's record says in which networks its next start puts it, and its state in which it is now. Both are changed under
//! the container's lock; links, leases and names under that of all networks, which the end of a container takes as well.

use super::endpoint::{Endpoint, way_out};
use super::join::{self, Joined, WaysOut};
use super::record::{self, Network};
use super::{
    AddressFault, ConnectFault, NetworkFault, TrafficFault, connecting, driver, egress, inside, interrupted,
    names, present, publish, rootless,
};
use crate::container::fault;
use crate::container::foreground::find_monitored;
use crate::container::record_lock::Change;
use crate::container::{Container, Entry, LifeError, State};
use crate::{EngineError, Home};
use rustix::fd::AsFd as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tote_bundle::{
    ContainerAlias, ContainerId, DEFAULT_NETWORK, LinkOptions, NetworkAttachment, NetworkMode,
    NetworkModeError, RunOptions,
};
use tote_network::LinkError;
use tote_state::events::append;

/// Settings of a container in a network that it is connected with.
#[derive(Clone, Debug, Default)]
pub struct ConnectRequest {
    /// The network's name, or the beginning of its id.
    pub network: String,
    /// The container's name, or the beginning of its id.
    pub container: String,
    /// `--ip`
    pub ip: Option<Ipv4Addr>,
    /// `--ip6`
    pub ip6: Option<Ipv6Addr>,
    /// `--gw-priority`
    pub gw_priority: i64,
    /// `--alias`
    pub aliases: Vec<String>,
    /// `--link`
    pub links: Vec<String>,
    /// `--driver-opt`
    pub driver_opts: Vec<String>,
}

/// Connects a container with a network, at once where it runs, and at each of its starts from now on.
///
/// Gives warnings.
///
/// # Errors
/// [`NetworkFault`] in docker's words, and [`EngineError::State`]; the container is as it was then.
pub fn connect(home: &Home, request: &ConnectRequest) -> Result<Vec<String>, EngineError> {
    let network = found(home, &request.network)?;
    let (change, mut container, mut state) = begin(home, &request.container, "connect")?;
    let id = &container.id.clone();
    let options = container.run_options()?;
    check(&container, &options)?;
    if position(home, &options, &network).is_some()
        || state.networks.iter().any(|one| one.network_id == network.id)
    {
        return Err(ConnectFault::Connected {
            container: container.display().to_owned(),
            network: network.name,
        }
        .into());
    }
    if options.egress.is_some() && state.runs() && !names::is_answered(home, id) {
        return Err(TrafficFault::Egress(
            "it was started without a network, so no process keeps the policy: stop it, connect it and start it",
        )
        .into());
    }
    let attachment = NetworkAttachment {
        network: network.name.clone(),
        aliases: request.aliases.clone(),
        links: links(&request.links)?,
        ip: request.ip,
        ip6: request.ip6,
        gw_priority: request.gw_priority,
        options: link_options(&request.driver_opts)?,
        ..NetworkAttachment::default()
    };
    names::check_names(&attachment)?;
    let text = words(&attachment);
    container.options.push(("network".to_owned(), text));
    if state.runs() {
        connecting::mark(home, id)?;
        let plugged = plug(home, (&container, &mut state), &attachment);
        if plugged.is_err() {
            drop(change);
            interrupted::end_connection(home, id);
            return plugged.map(|()| Vec::new());
        }
        fault::point("connect-plugged");
    } else {
        check_addresses(&attachment, &network)?;
    }
    container.write(home)?;
    fault::point("connect-written");
    let warnings = present::follow(home, &container, &state);
    if state.runs() {
        connecting::unmark(home, id);
    }
    tell(home, "connect", &network, id);
    Ok(warnings)
}

/// Disconnects a container from a network, at once where it runs, and for all its starts from now on. Gives warnings.
///
/// # Errors
/// [`NetworkFault`] in docker's words, and [`EngineError::State`].
pub fn disconnect(home: &Home, network: &str, container: &str) -> Result<Vec<String>, EngineError> {
    let network = found(home, network)?;
    let (change, mut container, mut state) = begin(home, container, "disconnect")?;
    let id = &container.id.clone();
    let options = container.run_options()?;
    let place = position(home, &options, &network);
    let is_in = state.networks.iter().any(|one| one.network_id == network.id);
    if place.is_none() && !is_in {
        return Err(ConnectFault::NotConnected {
            container: id.to_string(),
            network: network.name,
        }
        .into());
    }
    if is_in {
        connecting::mark_disconnection(home, id)?;
    }
    if let Some(place) = place {
        forget_option(&mut container, place);
        container.write_less(home)?;
        fault::point("disconnect-written");
    }
    let mut warnings = Vec::new();
    if is_in {
        unplug(home, id, &mut state, &network)?;
        warnings = present::follow(home, &container, &state);
        connecting::unmark(home, id);
    }
    drop(change);
    tell(home, "disconnect", &network, id);
    super::settle(home, &[network.name])?;
    Ok(warnings)
}

fn links(words: &[String]) -> Result<Vec<ContainerAlias>, EngineError> {
    let mut options = RunOptions::default();
    for word in words {
        options.set("link", word)?;
    }
    Ok(options.host.links)
}

fn link_options(lines: &[String]) -> Result<LinkOptions, NetworkFault> {
    let mut options = LinkOptions::default();
    let read = lines.iter().try_for_each(|line| options.add_line(line));
    read.map_err(|error| NetworkFault::Mode(NetworkModeError::Link(error)))?;
    Ok(options)
}

fn tell(home: &Home, action: &str, network: &Network, id: &ContainerId) {
    let event = network.event(action);
    append(home, &[event.with("container", id)]);
}

/// The network; the default one is there for everybody.
fn found(home: &Home, wanted: &str) -> Result<Network, EngineError> {
    match wanted {
        "host" => Err(ConnectFault::Host.into()),
        "none" => Err(ConnectFault::Private.into()),
        DEFAULT_NETWORK | "default" => {
            let _lock = record::lock(home)?;
            super::create::default_network(home)
        }
        wanted => record::find(home, wanted),
    }
}

/// The container, which has records to be changed.
pub(crate) fn kept(home: &Home, wanted: &str, action: &'static str) -> Result<Entry, EngineError> {
    let entry = find_monitored(home, wanted)?;
    if !entry.kept {
        return Err(LifeError::Unkept(entry.container.display().to_owned(), action).into());
    }
    Ok(entry)
}

/// Locks a container whose networks are to change, and reads its record and its state. A virtual machine that runs is refused.
fn begin(home: &Home, wanted: &str, action: &'static str) -> Result<(Change, Container, State), EngineError> {
    rootless::enter(home)?;
    let entry = kept(home, wanted, action)?;
    let id = &entry.container.id.clone();
    interrupted::end_connection(home, id);
    let change = Change::begin(home, id)?;
    let container = Container::read(home, id)?.unwrap_or(entry.container);
    let state = State::read(home, id)?;
    if state.runs() {
        check_devices(&container)?;
    }
    Ok((change, container, state))
}

/// Refuses to change the networks of a virtual machine that runs.
fn check_devices(container: &Container) -> Result<(), ConnectFault> {
    if container.option("isolation").is_some_and(tote_bundle::is_vm) {
        return Err(ConnectFault::OfMachine(container.display().to_owned()));
    }
    Ok(())
}

/// Refuses a container whose network is not its own, in docker's words.
fn check(container: &Container, options: &RunOptions) -> Result<(), NetworkFault> {
    match &options.network {
        NetworkMode::Networks(_) => Ok(()),
        NetworkMode::None if container.option("network").is_none() => Ok(()),
        NetworkMode::None => Err(ConnectFault::Private.into()),
        NetworkMode::Host | NetworkMode::Container(_) => Err(ConnectFault::Shared.into()),
    }
}

/// Refuses addresses that are not in the network.
fn check_addresses(attachment: &NetworkAttachment, network: &Network) -> Result<(), AddressFault> {
    let outside = attachment.ip.filter(|ip| !network.ipv4.subnet.contains(*ip));
    if let Some(address) = outside {
        return Err(AddressFault::NoSuchAddress(address.into()));
    }
    let is_in = |ip6| network.ipv6.is_some_and(|ipv6| ipv6.subnet.contains(ip6));
    match attachment.ip6.filter(|ip6| !is_in(*ip6)) {
        Some(address) => Err(AddressFault::NoSuchAddress(address.into())),
        None => Ok(()),
    }
}

/// The place of a network among those that the container's options name, by whatever they name it.
pub(crate) fn position(home: &Home, options: &RunOptions, network: &Network) -> Option<usize> {
    let mut attachments = options.network.attachments().iter();
    attachments.position(|one| {
        // absence: an attachment that cannot be told apart by its id is by its name
        one.network == network.name
            || matches!(record::find(home, &one.network), Ok(other) if other.id == network.id)
    })
}

/// The long form of an attachment.
fn words(attachment: &NetworkAttachment) -> String {
    let mut text = format!("name={}", attachment.network);
    for alias in &attachment.aliases {
        text += &format!(",alias={alias}");
    }
    for link in &attachment.links {
        text += &format!(",link={link}");
    }
    if let Some(address) = attachment.ip {
        text += &format!(",ip={address}");
    }
    if let Some(address) = attachment.ip6 {
        text += &format!(",ip6={address}");
    }
    if attachment.gw_priority != 0 {
        text += &format!(",gw-priority={}", attachment.gw_priority);
    }
    text + &attachment.options.fields()
}

/// Takes the attachment at that place out of the container's options; with the first one go the aliases that are its.
fn forget_option(container: &mut Container, place: usize) {
    let mut seen = 0;
    container.options.retain(|(name, value)| match name.as_str() {
        "network" if matches!(value.parse(), Ok(NetworkMode::Networks(_))) => {
            seen += 1;
            seen - 1 != place
        }
        "network-alias" | "ip" | "ip6" | "mac-address" => place != 0,
        _ => true,
    });
}

/// Puts a running container into a network; after an error the caller ends what was begun. The process that ends it waits for the same lock and then looks into the same record.
fn plug(
    home: &Home,
    (container, state): (&Container, &mut State),
    attachment: &NetworkAttachment,
) -> Result<(), EngineError> {
    let id = &container.id;
    let _lock = record::lock(home)?;
    let Some(network) = inside::of(state)? else {
        // Its next start finds the network in its options.
        return Ok(());
    };
    let (ways, before) = (WaysOut::of(&state.networks), ways_out(&state.networks));
    let place = free_place(&state.networks);
    let mut joined = Joined::default();
    join::connect(
        home,
        (id, &container.name),
        attachment,
        (place, ways),
        &mut joined,
    )
    .and_then(|()| {
        fault::point("connect-leased");
        let options = container.run_options()?;
        driver::check(&options, &joined.endpoints)?;
        let rate = join::rate(&options);
        joined.links.iter_mut().for_each(|link| link.rate = rate);
        name_all(home, container, &options, (&state.networks, &joined.endpoints))?;
        hold(home, (id, &options), (&mut *state, &mut joined))
    })
    .and_then(|()| {
        tote_network::connect(&joined.links, network.as_fd())
            .map_err(|source| ConnectFault::Link(attachment.network.clone(), source).into())
    })
    .and_then(|()| {
        fault::point("connect-linked");
        note(state, &joined);
        let failed = |source| ConnectFault::Link(attachment.network.clone(), source).into();
        lead_out(state, before, failed)?;
        state.write(home, id)?;
        if before[0].is_some() && ways_out(&state.networks)[0] != before[0] {
            publish::follow_way_out(home, id, state)?;
        }
        publish::publish_first(home, (container, &container.run_options()?), state)
    })
}

/// Writes down the names of a container in a network that it comes into. Its resolver learns by the first ones with names in which
/// other networks the container is.
fn name_all(
    home: &Home,
    container: &Container,
    options: &RunOptions,
    (present, coming): (&[Endpoint], &[Endpoint]),
) -> Result<(), EngineError> {
    let id = &container.id;
    let of = (id, &*container.name);
    if names::is_answered(home, id) {
        return join::write_names(home, of, options, coming);
    }
    join::write_names(home, of, options, &[coming, present].concat())
}

/// Has the links that are about to be made held to the policy of the container, if it has one. The process that keeps the policy's rules knows the links
/// by the record, which names them before they are there.
fn hold(
    home: &Home,
    (id, options): (&ContainerId, &RunOptions),
    (state, joined): (&mut State, &mut Joined),
) -> Result<(), EngineError> {
    let Some(policy) = egress::policy_of(options) else {
        return Ok(());
    };
    joined.endpoints.iter_mut().for_each(|one| one.egress = true);
    note(state, joined);
    egress::hold_further(id, policy, (&state.networks[..], joined))?;
    state.write(home, id)?;
    fault::point("connect-held");
    Ok(())
}

/// Adds the ends of these links to those of a container, unless they are there.
fn note(state: &mut State, joined: &Joined) {
    for endpoint in &joined.endpoints {
        if state.networks.iter().all(|one| one.link != endpoint.link) {
            state.networks.push(endpoint.clone());
        }
    }
}

/// The first number that no link of a container has: the last digit of the name of its other end.
fn free_place(endpoints: &[Endpoint]) -> usize {
    let is_free = |place: &usize| {
        !endpoints
            .iter()
            .any(|one| one.link.ends_with(&format!("{place:x}")))
    };
    (0..join::MOST).find(is_free).unwrap_or(endpoints.len())
}

/// Takes a running container out of a network.
pub(crate) fn unplug(
    home: &Home,
    id: &ContainerId,
    state: &mut State,
    network: &Network,
) -> Result<(), EngineError> {
    let _lock = record::lock(home)?;
    let failed = |source| ConnectFault::Link(network.name.clone(), source);
    let before = ways_out(&state.networks);
    let (gone, left): (Vec<_>, Vec<_>) = state
        .networks
        .drain(..)
        .partition(|one| one.network_id == network.id);
    state.networks = left;
    // Another container may get the address that its ports lead to.
    publish::withdraw_of(home, id, &gone)?;
    let (bridged, sharing): (Vec<_>, Vec<_>) = gone.iter().partition(|one| one.driver.has_bridge());
    for endpoint in bridged {
        tote_network::remove(&endpoint.link).map_err(failed)?;
    }
    join::remove_inside(&sharing.iter().map(|one| one.link.clone()).collect::<Vec<_>>())?;
    fault::point("disconnect-unlinked");
    let held = |all: &[Endpoint]| all.iter().any(|one| one.egress);
    if held(&gone) && !held(&state.networks) {
        egress::remove(id)?;
    }
    for endpoint in &gone {
        join::release(home, id, &endpoint.network)?;
    }
    fault::point("disconnect-released");
    // Where the way out led through the network, another one takes its place.
    lead_out(state, before, |source| failed(source).into())?;
    state.write_less(home, id)?;
    publish::move_ports(home, id, state, &gone)
}

/// Sets the default routes of a running container to other gateways than before, where its networks now say so.
fn lead_out(
    state: &State,
    before: [Option<IpAddr>; 2],
    failed: impl Fn(LinkError) -> EngineError,
) -> Result<(), EngineError> {
    for (gateway, before) in ways_out(&state.networks).into_iter().zip(before) {
        if let Some(gateway) = gateway.filter(|gateway| before != Some(*gateway))
            && let Some(inside) = inside::of(state)?
        {
            tote_network::lead_out(gateway, inside.as_fd()).map_err(&failed)?;
        }
    }
    Ok(())
}

/// The gateways that lead out of a container, of IPv4 and of IPv6.
fn ways_out(endpoints: &[Endpoint]) -> [Option<IpAddr>; 2] {
    let ipv4 = way_out(endpoints, |one| one.gateway.is_some()).and_then(|place| endpoints[place].gateway);
    let ipv6 = way_out(endpoints, Endpoint::leads_out6).and_then(|place| endpoints[place].ipv6?.gateway);
    [ipv4.map(IpAddr::from), ipv6.map(IpAddr::from)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_read_back() {
        let mut options = LinkOptions::default();
        let settings = "net.ipv4.conf.IFNAME.forwarding=1,net.ipv4.conf.IFNAME.log_martians=1";
        let line = format!(
            "com.docker.network.endpoint.ifname=a,\"com.docker.network.endpoint.sysctls={settings}\""
        );
        options.add_line(&line).unwrap();
        let attachment = NetworkAttachment {
            network: "lab".to_owned(),
            aliases: vec!["a".to_owned(), "b.c".to_owned()],
            links: vec!["db:mysql".parse().unwrap(), "web".parse().unwrap()],
            ip: Some(Ipv4Addr::new(10, 1, 2, 3)),
            ip6: Some(Ipv6Addr::LOCALHOST),
            gw_priority: 3,
            options,
            ..NetworkAttachment::default()
        };
        let read: NetworkMode = words(&attachment).parse().unwrap();
        assert_eq!(read.attachments(), [attachment]);
    }
}
