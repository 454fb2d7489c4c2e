//! Refusals of egress policies that could not be held.

use super::TrafficFault;
use std::net::IpAddr;
use tote_bundle::{NetworkMode, RunOptions};

/// Refuses a policy that could not be held.
///
/// # Errors
/// [`TrafficFault::Egress`].
pub(crate) fn check(options: &RunOptions) -> Result<(), TrafficFault> {
    if options.egress.is_none() {
        return match options.egress_keep {
            Some(_) => Err(TrafficFault::Egress(
                "--egress-keep says how long the names of one stay open: give --egress, too",
            )),
            None => Ok(()),
        };
    }
    let reason = if options.pod.is_some() && !options.infra {
        "members of a pod share one network: give --egress to pod create"
    } else if options.network == NetworkMode::Host {
        "with --network host it has this machine's own links"
    } else if matches!(options.network, NetworkMode::Container(_)) {
        "with --network container:NAME it has the links of the other container, and the policy of that one"
    } else if options.host.dns.iter().any(IpAddr::is_loopback) {
        "a server of --dns at a loopback address would be the container's own, and open what it likes"
    } else {
        return Ok(());
    };
    Err(TrafficFault::Egress(reason))
}

/// Refuses a policy of steps of a build that would not hold it.
///
/// # Errors
/// [`TrafficFault::Egress`].
pub fn check_step(options: &RunOptions) -> Result<(), TrafficFault> {
    match options.network {
        NetworkMode::None => check_none(options),
        _ => check(options),
    }
}

/// Refuses a policy with `--network none`.
///
/// # Errors
/// [`TrafficFault::Egress`].
pub(crate) fn check_none(options: &RunOptions) -> Result<(), TrafficFault> {
    match &options.egress {
        Some(_) => Err(TrafficFault::Egress(
            "with --network none it connects nowhere: leave --egress out",
        )),
        None => Ok(()),
    }
}
