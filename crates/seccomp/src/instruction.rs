//! Instructions of classic BPF that a seccomp filter needs, and the values it returns.

/// Instruction of classic BPF, field for field the kernel's `struct sock_filter` (linux/filter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Class, size, mode and operation.
    pub code: u16,
    /// Number of instructions that a true comparison skips.
    pub jt: u8,
    /// Number of instructions that a false comparison skips.
    pub jf: u8,
    /// Operand: an offset, a mask, a constant or the distance of a long jump.
    pub k: u32,
}

/// `A = 32 bits of struct seccomp_data at k`
pub(crate) const LOAD: u16 = 0x20;
/// `A &= k`
pub(crate) const AND: u16 = 0x54;
/// `skip k`
pub(crate) const JUMP: u16 = 0x05;
/// `return k`
pub(crate) const RETURN: u16 = 0x06;

/// Comparison of the accumulator with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub(crate) enum Comparison {
    /// `A == k`
    Equal = 0x15,
    /// `A > k`
    Greater = 0x25,
    /// `A >= k`
    GreaterEqual = 0x35,
    /// `A & k != 0`
    AnyBit = 0x45,
}

/// Offset of the call's number in `struct seccomp_data`.
pub(crate) const NUMBER: u32 = 0;
/// Offset of the `AUDIT_ARCH_…` value.
pub(crate) const ARCH: u32 = 4;

/// Returns the offset of an argument's low word; the high word is 4 bytes further, as every architecture here is
/// little-endian.
pub(crate) const fn argument(index: u8) -> u32 {
    16 + 8 * index as u32
}

/// Return values of a filter: `SECCOMP_RET_…` and 16 bits beside it (linux/seccomp.h).
pub(crate) mod verdict {
    pub(crate) const KILL_PROCESS: u32 = 0x8000_0000;
    pub(crate) const KILL_THREAD: u32 = 0;
    pub(crate) const TRAP: u32 = 0x0003_0000;
    pub(crate) const ERRNO: u32 = 0x0005_0000;
    pub(crate) const NOTIFY: u32 = 0x7fc0_0000;
    pub(crate) const TRACE: u32 = 0x7ff0_0000;
    pub(crate) const LOG: u32 = 0x7ffc_0000;
    pub(crate) const ALLOW: u32 = 0x7fff_0000;
}

/// Error number of forbidden calls.
pub(crate) const EPERM: u32 = 1;
/// Error number of calls that do not exist.
pub(crate) const ENOSYS: u32 = 38;
