//! The network of a container that names none.

use super::{NetworkFault, PublishFault, egress_check, join};
use crate::{EngineError, Home};
use tote_bundle::{ContainerId, DEFAULT_NETWORK, Image, NetworkMode, RunOptions};
use tote_state::config::{NetworkUser, network_of};
use tote_sys::best_effort;

/// Chooses the network of a container that names none: `bridge` if its ports are published or if it has an egress policy, else what
/// the configuration says. It becomes one of the options that were given, so that a later start has the same. The `host` image,
/// whose programs are this machine's own, has none unless one is asked for.
///
/// # Errors
/// [`PublishFault::Nowhere`], [`super::TrafficFault::Egress`], [`EngineError::State`] for an invalid configuration, and
/// [`NetworkFault::Mode`] for an address without a network.
pub fn choose(
    image: &Image,
    options: &mut RunOptions,
    given: &mut Vec<(String, String)>,
) -> Result<(), EngineError> {
    choose_network(image, options, given)?;
    let attachments = options.first_addresses.within(options.network.attachments());
    attachments.map_err(NetworkFault::Mode)?;
    Ok(())
}

fn choose_network(
    image: &Image,
    options: &mut RunOptions,
    given: &mut Vec<(String, String)>,
) -> Result<(), EngineError> {
    egress_check::check(options)?;
    let needs_one = !options.published.is_empty() || options.publish_all || options.egress.is_some();
    if options.network != NetworkMode::None {
        return Ok(());
    }
    if given.iter().any(|(option, _)| option == "network") {
        egress_check::check_none(options)?;
        return if needs_one {
            Err(PublishFault::Nowhere.into())
        } else {
            Ok(())
        };
    }
    let network = match image {
        Image::Host if needs_one => DEFAULT_NETWORK.to_owned(),
        Image::Host => return Ok(()),
        _ => default_of(NetworkUser::Container, needs_one)?,
    };
    options.set("network", &network)?;
    given.push(("network".to_owned(), network));
    Ok(())
}

/// The network of a container that names none, by the configuration. Where it `needs_one` that others reach it by, that is `bridge`
/// unless the configuration names another one.
///
/// # Errors
/// [`EngineError::State`] for an invalid configuration.
pub fn default_of(user: NetworkUser, needs_one: bool) -> Result<String, EngineError> {
    let network = network_of(user)?;
    let mode: NetworkMode = network.parse().map_err(NetworkFault::Mode)?;
    Ok(
        if needs_one && (mode == NetworkMode::None || mode.is_optional()) {
            DEFAULT_NETWORK.to_owned()
        } else {
            network
        },
    )
}

/// Lets a container do without a network that it did not ask for, after `error` has kept it from having that. Gives the reason, for
/// people; `None` for a container that asked for one, and for errors that do not concern its network.
pub fn go_without(
    home: &Home,
    id: &ContainerId,
    options: &mut RunOptions,
    error: &EngineError,
) -> Option<String> {
    let fault = error.part::<NetworkFault>()?;
    if !options.network.is_optional() || !fault.is_of_the_machine() {
        return None;
    }
    // What is left of it, the next command finds.
    best_effort(join::forget(home, id));
    options.network = NetworkMode::None;
    Some(lacks(fault))
}

/// The line for people about a container that does without a network, for that reason.
pub fn lacks(fault: &NetworkFault) -> String {
    let why = tote_sys::chain(fault);
    format!("no network but a loopback device, as with --network none: {why}")
}
