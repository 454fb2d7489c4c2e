//! The names that containers have in networks: which ones, and where they are written down.
//!
//! `networks/.members/CONTAINER/NETWORK` is a symbolic link whose text is the container's address there. By it the process that
//! watches a container knows at each question in which networks the container is; the names themselves are beside the
//! leases of a network.

use super::endpoint::Endpoint;
use super::error::{ConnectFault, fault_of};
use super::record;
use crate::container;
use crate::{EngineError, Home};
use std::io::ErrorKind;
use std::path::PathBuf;
use tote_bundle::{ContainerAlias, ContainerId, DEFAULT_NETWORK, NetworkAttachment, RunOptions};
use tote_network::CalledNames;
use tote_state::closed;

/// The longest name in DNS.
const LONGEST: usize = 253;

/// Whether containers of these options have a resolver of their own: in networks that users have made, as docker has it, and
/// with an egress policy, which is about names.
pub fn has_names(options: &RunOptions) -> bool {
    if options.egress.is_some() {
        return true;
    }
    let mut attachments = options.network.attachments().iter();
    attachments.any(|attachment| attachment.network != DEFAULT_NETWORK)
}

/// Whether one of these is in a network that a user has made.
pub(crate) fn are_named(endpoints: &[Endpoint]) -> bool {
    endpoints.iter().any(Endpoint::is_named)
}

/// Whether a text can be looked up as a name.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= LONGEST && text.split('.').all(tote_resolver::is_label)
}

/// The aliases of `--network-alias`, which are of the first network.
///
/// # Errors
/// [`ConnectFault::AliasElsewhere`] where that has no names, and [`ConnectFault::Alias`].
pub(crate) fn check_aliases(options: &RunOptions) -> Result<(), ConnectFault> {
    let attachments = options.network.attachments();
    let own = &options.network_aliases;
    let is_named = attachments
        .first()
        .is_some_and(|first| first.network != DEFAULT_NETWORK);
    if !own.is_empty() && !is_named {
        return Err(ConnectFault::AliasElsewhere);
    }
    attachments.iter().try_for_each(check_names)?;
    match own.iter().find(|alias| !is_name(alias)) {
        Some(alias) => Err(ConnectFault::Alias(alias.clone())),
        None => Ok(()),
    }
}

/// The aliases of one attachment.
///
/// # Errors
/// As of [`check_aliases`].
pub(crate) fn check_names(attachment: &NetworkAttachment) -> Result<(), ConnectFault> {
    let aliases = &attachment.aliases;
    if attachment.network == DEFAULT_NETWORK && !aliases.is_empty() {
        return Err(ConnectFault::AliasElsewhere);
    }
    if attachment.network == DEFAULT_NETWORK && !attachment.links.is_empty() {
        return Err(ConnectFault::LinkElsewhere);
    }
    let mut links = attachment.links.iter();
    if let Some(link) = links.find(|link| !is_name(&link.alias)) {
        return Err(ConnectFault::Alias(link.alias.clone()));
    }
    match aliases.iter().find(|alias| !is_name(alias)) {
        Some(alias) => Err(ConnectFault::Alias(alias.clone())),
        None => Ok(()),
    }
}

/// All names of a container in a network, in lower case: its own, the first digits of its id, its aliases there, what it is
/// called by itself, and its pod's name where it stands for a pod.
pub fn names_of(
    (id, name): (&ContainerId, &str),
    options: &RunOptions,
    (pod, aliases): (Option<&str>, &[String]),
) -> Vec<String> {
    let host = &options.host;
    let full = host.hostname.as_ref().filter(|_| !host.domainname.is_empty());
    let full = full.map(|hostname| format!("{hostname}.{}", host.domainname));
    let mut all = Vec::new();
    let own = [name, id.short()]
        .into_iter()
        .chain(aliases.iter().map(String::as_str));
    let hostnames = host.hostname.as_deref().into_iter().chain(full.as_deref());
    for name in own.chain(hostnames).chain(pod) {
        let name = name.to_ascii_lowercase();
        if is_name(&name) && !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// The container whose names are written down.
pub(crate) struct Called<'a> {
    pub id: &'a ContainerId,
    /// The name of its own.
    pub name: &'a str,
    /// The name of the pod that it keeps.
    pub pod: Option<&'a str>,
    /// The text of its leases.
    pub holder: &'a str,
}

/// Writes down the names of a container in its networks. The caller holds the lock.
pub(crate) fn put(
    home: &Home,
    of: &Called<'_>,
    options: &RunOptions,
    endpoints: &[Endpoint],
) -> Result<(), EngineError> {
    if !are_named(endpoints) && options.egress.is_none() {
        return Ok(());
    }
    let members = members(home, of.id);
    for dir in [home.networks().join(MEMBERS), members.clone()] {
        closed::directory(&dir).map_err(EngineError::file("make", dir))?;
    }
    for endpoint in endpoints {
        let link = members.join(&endpoint.network);
        match std::os::unix::fs::symlink(endpoint.address.to_string(), &link) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(EngineError::file("make", link)(error));
            }
            _ => {}
        }
        if !endpoint.is_named() {
            continue;
        }
        let all = names_of((of.id, of.name), options, (of.pod, &endpoint.aliases));
        if !CalledNames::fit(&all) {
            return Err(ConnectFault::TooManyAliases(endpoint.network.clone()).into());
        }
        for address in endpoint.addresses() {
            let put = called(home, &endpoint.network).put(address, &all, of.holder);
            put.map_err(|source| fault_of(&endpoint.network, source))?;
        }
        put_links(home, of, endpoint)?;
    }
    Ok(())
}

/// Writes down the names by which a container finds others in a network. One that is not there yet is found by the name that the link
/// has for it, one that is there by its id, whatever it is called later.
fn put_links(home: &Home, of: &Called<'_>, endpoint: &Endpoint) -> Result<(), EngineError> {
    let links = endpoint.links.iter().filter_map(|link| link.parse().ok());
    let pairs: Vec<_> = links
        .map(|link: ContainerAlias| {
            let found = container::find(home, &link.container);
            let name = found.map(|entry| entry.container.id.short().to_owned());
            let name = name.unwrap_or(link.container);
            (link.alias.to_ascii_lowercase(), name.to_ascii_lowercase())
        })
        .collect();
    if pairs.is_empty() {
        return Ok(());
    }
    let texts: Vec<_> = pairs
        .iter()
        .map(|(alias, name)| format!("{alias}:{name}"))
        .collect();
    if !CalledNames::fit(&texts) {
        return Err(ConnectFault::TooManyAliases(endpoint.network.clone()).into());
    }
    let address = endpoint.address.into();
    let put = called(home, &endpoint.network).link(address, &pairs, of.holder);
    put.map_err(|source| fault_of(&endpoint.network, source).into())
}

/// Takes a container's names in a network away, before its addresses there. The caller holds the lock.
pub(crate) fn take(
    home: &Home,
    (id, holder): (&ContainerId, &str),
    network: &str,
) -> Result<(), EngineError> {
    let failed = |source| fault_of(network, source);
    let leases = record::leases(home, network).all().map_err(failed)?;
    for (address, _) in leases.iter().filter(|(_, other)| other == holder) {
        called(home, network).remove(*address).map_err(failed)?;
    }
    let link = members(home, id).join(network);
    match tote_sys::remove_file(&link) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(EngineError::file("remove", link)(error)),
        _ => Ok(()),
    }
}

/// Takes the names of a container away, which has not begun, and leaves it in its networks. `put` gives them back.
///
/// # Errors
/// [`EngineError::State`] and [`super::NetworkFault::Lease`].
pub fn hide(home: &Home, endpoints: &[Endpoint]) -> Result<(), EngineError> {
    let _lock = are_named(endpoints).then(|| record::lock(home)).transpose()?;
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.is_named()) {
        for address in endpoint.addresses() {
            let removed = called(home, &endpoint.network).remove(address);
            removed.map_err(|source| fault_of(&endpoint.network, source))?;
        }
    }
    Ok(())
}

/// Takes the list of a container's networks away, which is empty.
pub(crate) fn take_all(home: &Home, id: &ContainerId) {
    // Most containers have none.
    tote_sys::best_effort(std::fs::remove_dir(members(home, id)));
}

const MEMBERS: &str = ".members";

fn members(home: &Home, id: &ContainerId) -> PathBuf {
    home.networks().join(MEMBERS).join(id.as_str())
}

/// The name of a container in a network that another one means by a name of its own there; `None` without such a link.
pub(super) fn linked(home: &Home, id: &ContainerId, network: &str, name: &str) -> Option<String> {
    // absence: the resolver reads it again with the next question
    let own = std::fs::read_link(members(home, id).join(network)).ok()?;
    called(home, network).linked(own.to_str()?.parse().ok()?, name)
}

/// Whether a running container, whose options say that it has names, was started in a network: then a process answers its questions.
pub(super) fn is_answered(home: &Home, id: &ContainerId) -> bool {
    // absence: only a container that is known to have them is changed
    matches!(tote_state::record::is_there(&members(home, id)), Ok(true))
}

/// The names in the network of that name.
pub(crate) fn called(home: &Home, network: &str) -> CalledNames {
    CalledNames::new(&record::dir(home, network))
}

/// The networks that a container with names is in at this moment.
pub(crate) fn networks_of(home: &Home, id: &ContainerId) -> Vec<String> {
    // absence: the resolver reads them again with the next question
    let entries = std::fs::read_dir(members(home, id))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_have_dockers_names() {
        let id = ContainerId::from_bytes([0xab; 32]);
        let mut options = RunOptions::default();
        options.set("hostname", "Box").unwrap();
        let aliases = ["www".to_owned(), "WEB".to_owned()];
        let all = names_of((&id, "web"), &options, (None, &aliases));
        assert_eq!(all, ["web", "abababababab", "www", "box"]);
        options.set("domainname", "example.org").unwrap();
        let all = names_of((&id, ""), &options, (Some("pod"), &[]));
        assert_eq!(all, ["abababababab", "box", "box.example.org", "pod"]);
    }

    #[test]
    fn aliases_are_of_networks_that_users_make() {
        for (words, expected) in [
            (&[("network", "lab"), ("network-alias", "www")][..], ""),
            (&[("network", "name=lab,alias=a.b_c")], ""),
            (&[("network-alias", "www")], "network-scoped alias"),
            (
                &[("network", "bridge"), ("network-alias", "www")],
                "network-scoped alias",
            ),
            (&[("network", "name=bridge,alias=www")], "network-scoped alias"),
            (&[("network", "lab"), ("network-alias", "a/b")], "\"a/b\""),
            (&[("network", "lab"), ("network-alias", "..")], "\"..\""),
        ] {
            let mut options = RunOptions::default();
            for (name, value) in words {
                options.set(name, value).unwrap();
            }
            let checked = check_aliases(&options).map_err(|error| error.to_string());
            match expected {
                "" => assert_eq!(checked, Ok(()), "{words:?}"),
                part => assert!(checked.unwrap_err().contains(part), "{words:?}"),
            }
        }
    }
}
