//! The kernel's random numbers, random(4).

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::AsRawFd as _;
use rustix::fs::{Mode, OFlags};

/// Bytes by which [`renew_entropy`] makes two copies of one machine differ.
pub const SEED: usize = 64;

/// `RNDADDENTROPY` and `RNDRESEEDCRNG`, which libc lacks.
const ADD: libc::Ioctl = 0x4008_5203;
const RESEED: libc::Ioctl = 0x5207;

/// `struct rand_pool_info`.
#[repr(C)]
struct Pool {
    bits: i32,
    size: i32,
    seed: [u8; SEED],
}

/// Mixes secret bytes into the kernel's random numbers, all of whose generators draw a new key then. Another copy of
/// this machine, which knows what the kernel has drawn before, does not know what it draws after that.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn renew_entropy(seed: &[u8; SEED]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/urandom", flags, Mode::empty())?;
    let pool = Pool {
        bits: 8 * SEED as i32,
        size: SEED as i32,
        seed: *seed,
    };
    // SAFETY: the kernel reads two numbers and as many bytes as the second one says, all of them `pool`'s.
    if unsafe { libc::ioctl(device.as_raw_fd(), ADD, &raw const pool) } != 0 {
        return Err(errno());
    }
    // SAFETY: the call takes no argument.
    if unsafe { libc::ioctl(device.as_raw_fd(), RESEED) } != 0 {
        return Err(errno());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_the_kernels() {
        assert_eq!(size_of::<Pool>(), 8 + SEED);
        // More randomness never hurts this machine's.
        let is_root = rustix::process::geteuid().is_root();
        match renew_entropy(&[7; SEED]) {
            Ok(()) => assert!(is_root),
            Err(errno) => assert_eq!(errno, Errno::PERM),
        }
    }
}
