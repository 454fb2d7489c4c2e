//! The link of the machine's that containers share, and whether the kernel lets them.

use crate::error::NetworkError;
use crate::kind;
use crate::link_state::state_of;
use crate::mac::Mac;
use crate::netlink::Socket;
use crate::sublink::Sublink;
use tote_sys::Errno;

/// A link of the machine's that containers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its number.
    pub index: u32,
    /// Its longest packet, in bytes.
    pub mtu: u32,
    /// Its hardware address.
    pub mac: Mac,
}

/// Looks for the link that containers are to share.
///
/// # Errors
/// [`NetworkError`]: there is no such link, or it is down.
pub fn parent(name: &str) -> Result<Parent, NetworkError> {
    let socket = Socket::new().map_err(NetworkError::Look)?;
    let state = match state_of(&socket, name) {
        Ok(state) => state,
        Err(Errno::NODEV) => return Err(NetworkError::NoParent(name.to_owned())),
        Err(errno) => return Err(NetworkError::Look(errno)),
    };
    if !state.is_up {
        return Err(NetworkError::ParentDown(name.to_owned()));
    }
    Ok(Parent {
        index: state.index,
        mtu: state.mtu,
        mac: state.mac,
    })
}

/// Whether this caller, on this machine, can make such links; asks the kernel, and makes nothing.
///
/// # Errors
/// [`NetworkError::NoSublinks`].
pub fn check_sublinks(sublink: Sublink) -> Result<(), NetworkError> {
    let kind = sublink.kind();
    kind::probe(kind).map_err(|source| NetworkError::NoSublinks { kind, source })
}
