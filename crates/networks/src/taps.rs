//! Links of containers in virtual machines: on this machine each is led to a tap, and in the guest it is a device.

use crate::join::Joined;
use tote_bundle::RunOptions;
use tote_network::{Attached, ContainerLink, Tap};

impl Joined {
    /// Returns the links of the container in the guest of a virtual machine: the guest's devices, with the addresses that the links of
    /// this machine do not have.
    #[must_use]
    pub fn guest_links(&self) -> Vec<ContainerLink> {
        let inside = |link: &ContainerLink| ContainerLink {
            attached: Attached::Device,
            rules: None,
            reflects: false,
            isolated: false,
            rate: None,
            tap: None,
            ..link.clone()
        };
        self.links.iter().map(inside).collect()
    }

    /// Returns the taps of a virtual machine, each with the hardware address that the guest has there.
    pub fn taps(&self) -> impl Iterator<Item = (String, String)> {
        let named = |link: &ContainerLink| Some((link.tap.as_ref()?.name.clone(), link.mac.to_string()));
        self.links.iter().filter_map(named)
    }
}

/// Gives each link of a container in a virtual machine a tap, which the user of the machine's sandbox may use.
pub(crate) fn add(options: &RunOptions, joined: &mut Joined) {
    let user = options.user.as_deref().and_then(|user| user.split(':').next());
    // Without a user there is a user namespace, whose root is the caller.
    let owner = user.and_then(|user| user.parse().ok());
    let owner = owner.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    for (place, link) in joined.links.iter_mut().enumerate() {
        let name = format!("tap{place}");
        link.tap = Some(Tap { name, owner });
    }
}
