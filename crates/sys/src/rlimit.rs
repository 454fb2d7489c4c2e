//! Resource limits by number, as setrlimit(2) has them.

use crate::outcome::errno;
use crate::{Errno, best_effort};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Limit as the kernel has it; `u64::MAX` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Value in force.
    pub soft: u64,
    /// Upper bound of that value.
    pub hard: u64,
}

/// Returns the number of the resource `nofile` and its kin; `RLIMIT_NOFILE` is understood too.
#[must_use]
pub fn resource_by_name(name: &str) -> Option<u32> {
    let lower = name.to_ascii_lowercase();
    let number = match lower.strip_prefix("rlimit_").unwrap_or(&lower) {
        "as" => libc::RLIMIT_AS,
        "core" => libc::RLIMIT_CORE,
        "cpu" => libc::RLIMIT_CPU,
        "data" => libc::RLIMIT_DATA,
        "fsize" => libc::RLIMIT_FSIZE,
        "locks" => libc::RLIMIT_LOCKS,
        "memlock" => libc::RLIMIT_MEMLOCK,
        "msgqueue" => libc::RLIMIT_MSGQUEUE,
        "nice" => libc::RLIMIT_NICE,
        "nofile" => libc::RLIMIT_NOFILE,
        "nproc" => libc::RLIMIT_NPROC,
        "rss" => libc::RLIMIT_RSS,
        "rtprio" => libc::RLIMIT_RTPRIO,
        "rttime" => libc::RLIMIT_RTTIME,
        "sigpending" => libc::RLIMIT_SIGPENDING,
        "stack" => libc::RLIMIT_STACK,
        _ => return None,
    };
    // Each C library has its own type for these numbers.
    u32::try_from(i64::from(number)).ok()
}

/// Lets this process have as many descriptors as it may.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    best_effort(setrlimit(Resource::Nofile, limit));
}

/// Returns this process's limit.
///
/// # Errors
/// `EINVAL` for an unknown resource number.
pub fn hard_limit(resource: u32) -> Result<Limit, Errno> {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    prlimit(resource, std::ptr::null(), &raw mut limit)?;
    Ok(Limit {
        soft: limit.rlim_cur,
        hard: limit.rlim_max,
    })
}

/// Sets this process's limit.
pub(crate) fn set(resource: u32, soft: u64, hard: u64) -> Result<(), Errno> {
    let limit = libc::rlimit64 {
        rlim_cur: soft,
        rlim_max: hard,
    };
    prlimit(resource, &raw const limit, std::ptr::null_mut())
}

fn prlimit(resource: u32, new: *const libc::rlimit64, old: *mut libc::rlimit64) -> Result<(), Errno> {
    // SAFETY: both pointers are null or point to a rlimit64 that the caller borrows for the call.
    match unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, new, old) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}
