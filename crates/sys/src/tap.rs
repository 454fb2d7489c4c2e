//! Taps, `Documentation/networking/tuntap.rst` of the kernel: network links whose frames a process reads and writes.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd as _, BorrowedFd};

const TUNSETIFF: libc::Ioctl = 0x4004_54ca_u32 as libc::Ioctl;
const TUNSETPERSIST: libc::Ioctl = 0x4004_54cb_u32 as libc::Ioctl;
const TUNSETOWNER: libc::Ioctl = 0x4004_54cc_u32 as libc::Ioctl;
/// Whole frames, without a header of the device's own, but with one that says what is still to be computed of the frame.
const FLAGS: i32 = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;

/// Makes a tap by an open `/dev/net/tun`, in the network namespace in which that was opened. Processes of the user `owner` may use it by its
/// name; it lasts as long as the namespace.
///
/// # Errors
/// ioctl(2)'s: `EPERM` without CAP_NET_ADMIN there, `EBUSY` if a link has the name.
pub fn make_tap(device: BorrowedFd<'_>, name: &str, owner: u32) -> Result<(), Errno> {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(Errno::INVAL);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = FLAGS as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq, which outlives the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF, &raw mut request) })?;
    // SAFETY: TUNSETOWNER takes a number in the place of an address.
    check(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETOWNER, libc::c_ulong::from(owner)) })?;
    let lasts: libc::c_ulong = 1;
    // SAFETY: TUNSETPERSIST takes a number in the place of an address.
    check(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETPERSIST, lasts) })
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    match result {
        -1 => Err(errno()),
        _ => Ok(()),
    }
}
