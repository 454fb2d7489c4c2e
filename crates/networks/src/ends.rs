//! Names and settings of both ends of a container's link.

use super::ConnectFault;
use super::record::Network;
use std::collections::BTreeMap;
use tote_bundle::{ContainerId, LinkOptions};
use tote_network::{ContainerLink, LinkSetting};

/// The name of the host's end of a container's link, which follows from the container's id: 15 bytes at most.
pub(crate) fn outside(id: &ContainerId, place: usize) -> String {
    // No host has more links than fit.
    format!("tv{}{place:x}", id.as_str().get(..11).unwrap_or_default())
}

/// The name of the container's end of its link number `place`, which none of its `others` may have.
pub(crate) fn inside(
    network: &Network,
    place: usize,
    options: &LinkOptions,
    others: &[ContainerLink],
) -> Result<String, ConnectFault> {
    let usual = || format!("{}{place}", network.link_prefix());
    let name = options.name.clone().unwrap_or_else(usual);
    if others.iter().any(|other| other.inside == name) {
        return Err(ConnectFault::SameName(name));
    }
    Ok(name)
}

/// The settings of a link that is called `inside` in the container.
pub(crate) fn settings(options: &LinkOptions, inside: &str) -> Vec<LinkSetting> {
    let setting = |one: &tote_bundle::LinkSetting| LinkSetting {
        file: one.file(inside),
        value: one.value.clone(),
    };
    options.settings.iter().map(setting).collect()
}

/// The options as a record has them.
pub(crate) fn recorded(options: &LinkOptions) -> BTreeMap<String, String> {
    let pairs = options.pairs().into_iter();
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::join::MOST;
    use super::*;

    #[test]
    fn links_are_called_by_ids_within_fifteen_bytes() {
        let id = ContainerId::from_bytes([0xab; 32]);
        assert_eq!(outside(&id, 0), "tvabababababa0");
        assert!(outside(&id, MOST).len() <= 15);
    }
}
