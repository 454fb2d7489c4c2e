//! Ports of a container that are published, or not any more, while it is there: by its record at its next starts, and at once
//! where it runs.
//!
//! Whatever takes a container out of its networks withdraws the ports that its state names. So the state names a port before the
//! kernel does, and the kernel forgets it before the state.

use super::PublishFault;
use super::connect::kept;
use super::endpoint::PortRecord;
use super::publish;
use super::record;
use super::rootless;
use crate::container::record_lock::Change;
use crate::container::{Container, State};
use crate::{EngineError, Home};
use tote_bundle::{ContainerId, DEFAULT_NETWORK, NetworkMode, PortBinding, RunOptions};
use tote_records::LookError;

/// Publishes more ports of a container, in the words of `--publish`. Gives those that are published at once, a line each.
///
/// # Errors
/// `RequestError::Option`, [`NetworkFault`](super::NetworkFault), [`EngineError::State`]; none of them is published then.
pub fn add_ports(home: &Home, wanted: &str, words: &[String]) -> Result<Vec<String>, EngineError> {
    let bindings = parse(words)?;
    rootless::enter(home)?;
    let entry = kept(home, wanted, "publish ports of")?;
    let id = &entry.container.id.clone();
    let _change = Change::begin(home, id)?;
    let mut container = Container::read(home, id)?.unwrap_or(entry.container);
    let mut state = State::read(home, id)?;
    check(home, &container)?;
    let added = if state.runs() {
        publish_now(home, id, &mut state, &bindings)?
    } else {
        Vec::new()
    };
    for binding in &bindings {
        container
            .options
            .push(("publish".to_owned(), binding.to_string()));
        if !container.exposed.contains(&binding.private()) {
            container.exposed.push(binding.private());
        }
    }
    container.write(home)?;
    let line = |port: &PortRecord| format!("{} -> {}", port.private(), port.host);
    Ok(added.iter().map(line).collect())
}

/// Publishes ports of a container no more, which are given by the container's port or in the words of `--publish`.
///
/// # Errors
/// [`LookError::NoPort`] where one is not published, and as [`add_ports`].
pub fn remove_ports(home: &Home, wanted: &str, words: &[String]) -> Result<(), EngineError> {
    let unwanted = parse(words)?;
    rootless::enter(home)?;
    let entry = kept(home, wanted, "take ports from")?;
    let id = &entry.container.id.clone();
    let _change = Change::begin(home, id)?;
    let mut container = Container::read(home, id)?.unwrap_or(entry.container);
    let mut state = State::read(home, id)?;
    let options = container.run_options()?;
    let mut bindings = publish::bindings(&options, container.exposed.iter());
    let before = bindings.len();
    let missing = if state.runs() {
        claim(&mut bindings, &unwanted, &state.networks)
    } else {
        let missing = unwanted
            .iter()
            .find(|one| !bindings.iter().any(|other| is_meant(one, other)));
        bindings.retain(|one| !unwanted.iter().any(|unwanted| is_meant(unwanted, one)));
        missing
    };
    if let Some(missing) = missing {
        return Err(LookError::NoPort {
            container: container.display().to_owned(),
            port: missing.private(),
        }
        .into());
    }
    if bindings.len() < before {
        // What is left of ranges and of all exposed ports is said port by port.
        container
            .options
            .retain(|(name, _)| !matches!(name.as_str(), "publish" | "publish-all"));
        let left = bindings.iter();
        container
            .options
            .extend(left.map(|one| ("publish".to_owned(), one.to_string())));
        container.write_less(home)?;
    }
    if state.runs() {
        withdraw_now(home, id, &mut state, &unwanted)?;
    }
    Ok(())
}

fn parse(words: &[String]) -> Result<Vec<PortBinding>, EngineError> {
    let mut options = RunOptions::default();
    for word in words {
        options.set("publish", word)?;
    }
    Ok(options.published)
}

/// Whether the container's options give it a network whose ports lead to it.
fn check(home: &Home, container: &Container) -> Result<(), EngineError> {
    let attachments = match container.run_options()?.network {
        NetworkMode::Networks(attachments) => attachments,
        NetworkMode::None => return Err(PublishFault::Nowhere.into()),
        NetworkMode::Host | NetworkMode::Container(_) => {
            return Err(PublishFault::Elsewhere(container.display().to_owned()).into());
        }
    };
    for attachment in &attachments {
        if attachment.network == DEFAULT_NETWORK {
            return Ok(());
        }
        let network = record::find(home, &attachment.network)?;
        if network.driver.has_bridge() && !network.internal {
            return Ok(());
        }
    }
    Err(PublishFault::Within.into())
}

/// Publishes ports of a running container. The process that ends it waits for the same lock and then looks into the same record.
fn publish_now(
    home: &Home,
    id: &ContainerId,
    state: &mut State,
    bindings: &[PortBinding],
) -> Result<Vec<PortRecord>, EngineError> {
    let _lock = record::lock(home)?;
    publish::publish_now(home, id, state, bindings)
}

/// Takes the bindings out whose ports are unwanted; gives the first unwanted one that no port of these networks is.
fn claim<'a>(
    bindings: &mut Vec<PortBinding>,
    unwanted: &'a [PortBinding],
    networks: &[super::Endpoint],
) -> Option<&'a PortBinding> {
    let ports = || networks.iter().flat_map(|endpoint| &endpoint.ports);
    let missing = unwanted
        .iter()
        .find(|one| !ports().any(|port| port.is_meant_by(one)));
    if missing.is_some() {
        return missing;
    }
    // One binding has made both of twins.
    let is_first = |port: &&PortRecord| !ports().any(|other| port.is_twin_of(other));
    let meant = ports().filter(|port| unwanted.iter().any(|one| port.is_meant_by(one)));
    for port in meant.filter(is_first) {
        let says = |one: &PortBinding| {
            port.is_meant_by(one) && (one.address.is_some() || port.host.ip().is_unspecified())
        };
        // The one that names the port comes before one for any.
        let named = bindings.iter().position(|one| one.host.is_some() && says(one));
        if let Some(place) = named.or_else(|| bindings.iter().position(says)) {
            bindings.remove(place);
        }
    }
    None
}

/// Whether a binding of a container that does not run is the one which these words mean.
fn is_meant(words: &PortBinding, binding: &PortBinding) -> bool {
    words.private() == binding.private()
        && (words.address.is_none() || words.address == binding.address)
        && (words.host.is_none() || words.host == binding.host)
}

fn withdraw_now(
    home: &Home,
    id: &ContainerId,
    state: &mut State,
    unwanted: &[PortBinding],
) -> Result<(), EngineError> {
    let _lock = record::lock(home)?;
    let goes = |port: &PortRecord| unwanted.iter().any(|one| port.is_meant_by(one));
    let mut gone = Vec::new();
    for endpoint in &mut state.networks {
        let ports = endpoint.ports.iter().filter(|port| goes(port));
        gone.extend(ports.filter_map(|port| port.published(endpoint)));
        endpoint.ports.retain(|port| !goes(port));
    }
    publish::withdraw_these(home, &gone)?;
    state.write_less(home, id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoint;

    fn words(texts: &[&str]) -> Vec<PortBinding> {
        let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
        parse(&texts).unwrap()
    }

    fn networks(ports: &[(&str, u16)]) -> Vec<Endpoint> {
        let ports = ports.iter().map(|(host, container)| PortRecord {
            protocol: "tcp".to_owned(),
            host: host.parse().unwrap(),
            container: *container,
            listened: false,
        });
        vec![Endpoint {
            network: "bridge".to_owned(),
            network_id: String::new(),
            driver: crate::NetworkDriver::Bridge,
            link: "tv0".to_owned(),
            address: std::net::Ipv4Addr::new(10, 210, 0, 2),
            prefix: 16,
            gateway: None,
            gw_priority: 0,
            driver_opts: Default::default(),
            ipv6: None,
            mac: String::new(),
            aliases: Vec::new(),
            links: Vec::new(),
            ports: ports.collect(),
            egress: false,
        }]
    }

    fn left(bindings: &[&str], unwanted: &str, ports: &[(&str, u16)]) -> Option<Vec<String>> {
        let mut bindings = words(bindings);
        let unwanted = words(&[unwanted]);
        match claim(&mut bindings, &unwanted, &networks(ports)) {
            Some(_) => None,
            None => Some(bindings.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn the_binding_of_a_port_goes_with_it() {
        let some = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let two = [("0.0.0.0:8080", 80), ("0.0.0.0:40000", 80)];
        assert_eq!(left(&["80", "8080:80"], "8080:80", &two), some(&["80/tcp"]));
        assert_eq!(left(&["80", "8080:80"], "40000:80", &two), some(&["8080:80/tcp"]));
        assert_eq!(left(&["80", "8080:80"], "80", &two), some(&[]));
        assert_eq!(left(&["80", "8080:80"], "81", &two), None);
        assert_eq!(left(&["80", "8080:80"], "8081:80", &two), None);
        let range = [("0.0.0.0:8000", 80), ("0.0.0.0:8001", 81)];
        assert_eq!(left(&["8000-8001:80-81"], "80", &range), some(&["8001:81/tcp"]));
        let one = [("127.0.0.1:8080", 80), ("0.0.0.0:8081", 80)];
        assert_eq!(
            left(&["127.0.0.1:8080:80", "8081:80"], "127.0.0.1::80", &one),
            some(&["8081:80/tcp"])
        );
    }
}
