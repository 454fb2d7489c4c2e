//! Carriers of network links.

use crate::Errno;
use rustix::ioctl::{Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// The request of ethtool(8) that asks whether a link has a carrier.
const ETHTOOL_GLINK: u32 = 0x0a;
const SIOCETHTOOL: u32 = 0x8946;

/// `struct ethtool_value`
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Returns whether a link of this network namespace has a carrier, after the kernel has acted on the last change of it: a
/// bridge forwards frames by a port then, which the kernel otherwise sees to a little later, in a thread of its own.
///
/// # Errors
/// The kernel's, as ENODEV if there is no such link.
pub fn has_carrier(name: &str) -> Result<bool, Errno> {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut value = EthtoolValue {
        command: ETHTOOL_GLINK,
        data: 0,
    };
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return Err(Errno::NODEV);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: SIOCETHTOOL reads an ifreq, which `request` is, and writes nothing behind it.
    let call = unsafe { Updater::<{ SIOCETHTOOL }, _>::new(&mut request) };
    // SAFETY: `call` is as just built; ETHTOOL_GLINK reads and writes the `ethtool_value` to which its ifreq points, which lives
    // until after the call and is not used otherwise meanwhile.
    unsafe { ioctl(socket, call)? };
    Ok(value.data != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_do_not_exist() {
        assert_eq!(has_carrier("no-such-link"), Err(Errno::NODEV));
        assert_eq!(has_carrier("a-name-of-more-than-fifteen"), Err(Errno::NODEV));
    }
}
