//! Settings of the kernel's schedulers for a process: processors, input and output, memory nodes; and two other calls
//! that change how the kernel treats it, personality(2) and keyctl(2). rustix lacks all of them.

use crate::Errno;
use crate::outcome::errno;
use std::ffi::CStr;

/// Arguments of sched_setattr(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerAttributes {
    /// `SCHED_…`
    pub policy: u32,
    /// `SCHED_FLAG_…`
    pub flags: u64,
    /// Nice value, -20 to 19, for the fair policies.
    pub nice: i32,
    /// Priority, 1 to 99, for the real-time policies.
    pub priority: u32,
    /// Nanoseconds, for `SCHED_DEADLINE`.
    pub runtime: u64,
    /// Nanoseconds, for `SCHED_DEADLINE`.
    pub deadline: u64,
    /// Nanoseconds, for `SCHED_DEADLINE`.
    pub period: u64,
}

/// Arguments of set_mempolicy(2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPolicy {
    /// `MPOL_…`, combined with `MPOL_F_…`.
    pub mode: i32,
    /// Memory nodes as a bit mask.
    pub nodes: Box<[u64]>,
}

fn done(result: libc::c_long) -> Result<(), Errno> {
    if result == -1 { Err(errno()) } else { Ok(()) }
}

/// `struct sched_attr`, sched_setattr(2).
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

pub(crate) fn set_scheduler(attributes: &SchedulerAttributes) -> Result<(), Errno> {
    let SchedulerAttributes {
        policy,
        flags,
        nice,
        priority,
        runtime,
        deadline,
        period,
    } = *attributes;
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy,
        flags,
        nice,
        priority,
        runtime,
        deadline,
        period,
    };
    // SAFETY: the kernel reads `size` bytes of a struct that outlives the call.
    done(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) })
}

/// True if this thread runs under `SCHED_FIFO` or `SCHED_RR`.
pub(crate) fn is_real_time() -> bool {
    // SAFETY: the call takes one number and no pointer.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    // SCHED_RESET_ON_FORK may be among the bits.
    matches!(policy as i32 & 0xff, libc::SCHED_FIFO | libc::SCHED_RR)
}

/// Puts this thread under `SCHED_OTHER`, with the nice value that it has.
pub(crate) fn leave_real_time() -> Result<(), Errno> {
    let priority: libc::c_int = 0;
    // SAFETY: `struct sched_param` begins with the priority, the one member that the kernel reads.
    done(unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_OTHER,
            &raw const priority,
        )
    })
}

pub(crate) fn set_io_priority(priority: i32) -> Result<(), Errno> {
    const IOPRIO_WHO_PROCESS: i32 = 1;
    // SAFETY: the call takes three numbers and no pointer.
    done(unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority) })
}

pub(crate) fn set_personality(personality: u32) -> Result<(), Errno> {
    // SAFETY: the call takes one number and no pointer.
    done(unsafe { libc::syscall(libc::SYS_personality, libc::c_ulong::from(personality)) })
}

pub(crate) fn set_memory_policy(policy: &MemoryPolicy) -> Result<(), Errno> {
    // The kernel subtracts one from the number of bits.
    let bits = policy.nodes.len() * 64 + 1;
    let (nodes, bits) = if policy.nodes.is_empty() {
        (std::ptr::null(), 0)
    } else {
        (policy.nodes.as_ptr(), bits)
    };
    // SAFETY: the kernel reads `bits` - 1 bits of `nodes`, which has that many, or nothing from a null pointer.
    done(unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            libc::c_long::from(policy.mode),
            nodes,
            bits,
        )
    })
}

/// Words of a mask for the most processors that any kernel is built for.
const PROCESSORS: usize = 8192 / 64;

pub(crate) fn set_affinity(mask: &[u64]) -> Result<(), Errno> {
    const ALL: [u64; PROCESSORS] = [u64::MAX; PROCESSORS];
    let mask = if mask.is_empty() { &ALL } else { mask };
    // SAFETY: the kernel reads at most `size_of_val(mask)` bytes of a slice that outlives the call.
    done(unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(mask), mask.as_ptr()) })
}

/// Joins a session keyring. Without keyrings in the kernel no keys could be shared by mistake, so that is not an error.
pub(crate) fn join_keyring(name: &CStr, permissions: u32) -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: i32 = 1;
    const KEYCTL_SETPERM: i32 = 5;
    const KEYCTL_DESCRIBE: i32 = 6;
    // SAFETY: the arguments are a number and a C string that outlives the call.
    let ring = unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name.as_ptr()) };
    if ring == -1 {
        return match errno() {
            Errno::NOSYS => Ok(()),
            errno => Err(errno),
        };
    }
    let mut text = [0u8; 256];
    // SAFETY: the kernel writes at most `text.len()` bytes into `text`.
    done(unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            KEYCTL_DESCRIBE,
            ring,
            text.as_mut_ptr(),
            text.len(),
        )
    })?;
    let (owner, now) = described(&text).ok_or(Errno::INVAL)?;
    // Names of keyrings are shared by all users: another user may have made one of this name, open to all, to get at
    // the container's keys. Root may be the owner for a process that has just entered the user namespace and has no
    // id there yet: the container's first process was root when it made the keyring.
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Errno::ACCESS);
    }
    if now & permissions == permissions {
        return Ok(());
    }
    // SAFETY: the call takes three numbers and no pointer.
    done(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_SETPERM, ring, now | permissions) })
}

/// Reads the user and the permissions from `keyring;UID;GID;PERMISSIONS;NAME`; the permissions are hexadecimal.
fn described(text: &[u8]) -> Option<(u32, u32)> {
    let mut fields = text
        .split(|&byte| byte == b';')
        .map(|field| std::str::from_utf8(field).ok());
    let user = fields.nth(1)??.parse().ok()?;
    let permissions = u32::from_str_radix(fields.nth(1)??, 16).ok()?;
    Some((user, permissions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<SchedAttr>(), 48); // SCHED_ATTR_SIZE_VER0
    }

    #[test]
    fn keyring_permissions() {
        assert_eq!(
            described(b"keyring;0;0;3f030000;_ses.x\0\0"),
            Some((0, 0x3f03_0000))
        );
        assert_eq!(described(b"keyring;1001;0;1;_ses.x"), Some((1001, 1)));
        assert_eq!(described(b"keyring;0;0;zz;_ses.x"), None);
        assert_eq!(described(b""), None);
    }
}
