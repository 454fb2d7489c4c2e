//! Links of containers in virtual machines: on this machine each is led to a tap, and in the guest it is a device.

use crate::join::Joined;
use crate::{Caller, Home};
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

/// User without rights to whom virtual machines of root's belong.
pub const MACHINE_USER: u32 = 65_534;

/// Gives each link of a container in a virtual machine a tap, which the machine's user may use.
pub(crate) fn add(home: &Home, joined: &mut Joined) {
    let owner = match home.caller {
        // Root of the machine's user namespace is this user.
        Caller::User => rustix::process::geteuid().as_raw(),
        Caller::Root | Caller::NestedRoot => MACHINE_USER,
    };
    for (place, link) in joined.links.iter_mut().enumerate() {
        let name = format!("tap{place}");
        link.tap = Some(Tap { name, owner });
    }
}
