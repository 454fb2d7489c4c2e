//! docker's links: names of other containers in `/etc/hosts`.
//!
//! A link is looked up at each start, so the file has the addresses of that moment; the other container mostly has the same
//! one at its next start.

use crate::container::{self, Entry, StartError};
use crate::{EngineError, Home};
use std::borrow::Cow;
use tote_bundle::{ContainerAlias, HostAddress, HostEntry, NetworkMode, RunOptions};
use tote_records::network::Endpoint;

/// Returns the options with a host for each address of a linked container in one of the networks of the container `name`.
///
/// # Errors
/// [`StartError::Link`], in docker's words, and [`StartError::NoPeer`].
pub(crate) fn with_hosts<'a>(
    home: &Home,
    name: &str,
    options: &'a RunOptions,
    endpoints: &[Endpoint],
) -> Result<Cow<'a, RunOptions>, EngineError> {
    let mut options = Cow::Borrowed(options);
    if options.host.links.is_empty() {
        return Ok(options);
    }
    check(&options.network)?;
    let links = options.host.links.clone();
    for link in &links {
        let found = container::find(home, &link.container);
        let entry = found.map_err(|error| StartError::NoPeer(error.to_string()))?;
        let hosts = hosts(link, &entry, name, endpoints)?;
        options.to_mut().host.added.extend(hosts);
    }
    Ok(options)
}

/// Refuses links of a container whose network is not its own, in docker's words.
fn check(network: &NetworkMode) -> Result<(), StartError> {
    let kind = match network {
        NetworkMode::Host => "host type networking",
        NetworkMode::Container(_) => "container type network",
        NetworkMode::None | NetworkMode::Networks(_) => return Ok(()),
    };
    let text = format!(
        "conflicting options: {kind} can't be used with links. This would result in undefined behavior"
    );
    Err(StartError::Link(text))
}

fn hosts(
    link: &ContainerAlias,
    entry: &Entry,
    name: &str,
    endpoints: &[Endpoint],
) -> Result<Vec<HostEntry>, StartError> {
    let (alias, other) = (&*link.alias, entry.container.display());
    if !entry.state.runs() {
        let text = format!("Cannot link to a non running container: /{other} AS /{name}/{alias}");
        return Err(StartError::Link(text));
    }
    let shared = |theirs: &&Endpoint| endpoints.iter().any(|own| own.network == theirs.network);
    let Some(theirs) = entry.state.networks.iter().find(shared) else {
        let text = format!("Cannot link to /{other}, as it does not belong to a network of this container");
        return Err(StartError::Link(text));
    };
    let mut names = format!("{alias} {}", entry.container.id.short());
    if alias != other && !other.is_empty() {
        names = format!("{names} {other}");
    }
    let host = |address| HostEntry {
        name: names.clone(),
        address: HostAddress::Ip(address),
    };
    Ok(theirs.addresses().map(host).collect())
}
