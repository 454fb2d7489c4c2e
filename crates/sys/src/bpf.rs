//! bpf(2): the device program of a cgroup v2.

use crate::Errno;
use crate::outcome::best_effort;
use crate::outcome::errno;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_PROG_LOAD: i32 = 5;
const BPF_PROG_ATTACH: i32 = 8;
const BPF_PROG_DETACH: i32 = 9;
const BPF_PROG_GET_FD_BY_ID: i32 = 13;
const BPF_PROG_QUERY: i32 = 16;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_CGROUP_DEVICE: u32 = 6;
const BPF_F_ALLOW_MULTI: u32 = 2;

/// Upper bound of the programs attached to one cgroup; the kernel allows no more.
const PROGRAMS: usize = 64;

/// Gives a cgroup v2 directory a device program, in place of the programs that it had.
///
/// Instructions are `struct bpf_insn` field by field: code, registers, offset, immediate. The new program is attached
/// before the old ones are detached, so the cgroup never allows more than one of them does. Programs of ancestor
/// cgroups stay in force.
///
/// # Errors
/// bpf(2)'s: `EPERM` without CAP_BPF, `EINVAL` if the kernel has no cgroup programs or its verifier refuses this one.
pub fn device_filter(cgroup: BorrowedFd<'_>, instructions: &[(u8, u8, i16, i32)]) -> Result<(), Errno> {
    let program = load(instructions)?;
    let old = attached(cgroup)?;
    attach(BPF_PROG_ATTACH, cgroup, program.as_fd(), BPF_F_ALLOW_MULTI)?;
    for id in old {
        // Another process that detached it meanwhile has done this work.
        best_effort(by_id(id).and_then(|old| attach(BPF_PROG_DETACH, cgroup, old.as_fd(), 0)));
    }
    Ok(())
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

fn load(instructions: &[(u8, u8, i16, i32)]) -> Result<OwnedFd, Errno> {
    /// Part of `union bpf_attr` for BPF_PROG_LOAD.
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
    }
    let instructions: Vec<_> = instructions
        .iter()
        .map(|&(code, registers, offset, immediate)| Instruction {
            code,
            registers,
            offset,
            immediate,
        })
        .collect();
    let mut attr = Load {
        kind: BPF_PROG_TYPE_CGROUP_DEVICE,
        count: u32::try_from(instructions.len()).map_err(|_| Errno::TOOBIG)?,
        instructions: instructions.as_ptr() as u64,
        // The program calls no kernel function, so it does not need a GPL-compatible licence.
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    let fd = bpf(BPF_PROG_LOAD, &mut attr)?;
    // SAFETY: BPF_PROG_LOAD returns a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the ids of the programs attached to this cgroup itself.
fn attached(cgroup: BorrowedFd<'_>) -> Result<Vec<u32>, Errno> {
    /// Part of `union bpf_attr` for BPF_PROG_QUERY.
    #[repr(C)]
    struct Query {
        target: u32,
        kind: u32,
        query_flags: u32,
        attach_flags: u32,
        ids: u64,
        count: u32,
        padding: u32,
    }
    let mut ids = vec![0u32; PROGRAMS];
    let mut attr = Query {
        target: cgroup.as_raw_fd() as u32,
        kind: BPF_CGROUP_DEVICE,
        query_flags: 0,
        attach_flags: 0,
        ids: ids.as_mut_ptr() as u64,
        count: PROGRAMS as u32,
        padding: 0,
    };
    bpf(BPF_PROG_QUERY, &mut attr)?;
    ids.truncate(attr.count as usize);
    Ok(ids)
}

fn by_id(id: u32) -> Result<OwnedFd, Errno> {
    /// Part of `union bpf_attr` for BPF_PROG_GET_FD_BY_ID.
    #[repr(C)]
    struct Find {
        id: u32,
        next: u32,
        flags: u32,
    }
    let mut attr = Find {
        id,
        next: 0,
        flags: 0,
    };
    let fd = bpf(BPF_PROG_GET_FD_BY_ID, &mut attr)?;
    // SAFETY: BPF_PROG_GET_FD_BY_ID returns a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach(command: i32, cgroup: BorrowedFd<'_>, program: BorrowedFd<'_>, flags: u32) -> Result<(), Errno> {
    /// Part of `union bpf_attr` for BPF_PROG_ATTACH and BPF_PROG_DETACH.
    #[repr(C)]
    struct Attach {
        target: u32,
        program: u32,
        kind: u32,
        flags: u32,
        replaced: u32,
    }
    let mut attr = Attach {
        target: cgroup.as_raw_fd() as u32,
        program: program.as_raw_fd() as u32,
        kind: BPF_CGROUP_DEVICE,
        flags,
        replaced: 0,
    };
    bpf(command, &mut attr).map(drop)
}

/// Calls bpf(2) with the part of `union bpf_attr` that the command reads; the kernel takes the rest as zero.
fn bpf<T>(command: i32, attr: &mut T) -> Result<i32, Errno> {
    // SAFETY: the kernel reads and writes `size_of::<T>()` bytes of a struct that is borrowed for the call; each
    // pointer in it is to memory that the caller keeps for the call.
    match unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>()) } {
        -1 => Err(errno()),
        result => Ok(result as i32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_a_program() {
        let allow = [(0xb4, 0, 0, 1), (0x95, 0, 0, 0)];
        match load(&allow) {
            Ok(_) => assert_eq!(
                load(&[(0xb4, 0, 0, 1)]).err(),
                Some(Errno::INVAL),
                "it has no end"
            ),
            Err(Errno::PERM | Errno::NOSYS) => println!("skipped: needs bpf(2)"),
            Err(errno) => panic!("{errno}"),
        }
    }
}
