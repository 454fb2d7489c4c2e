//! Whether the kernel's virtual machines execute a guest's kernel, found out by executing a little of one.
//!
//! A device `/dev/kvm` says little: where the machine is itself virtual, KVM may emulate the instructions of the guest's kernel, and not
//! know those that every kernel uses. So a processor in long mode is given one of these (`cmpxchg16b`) and `hlt`.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};

/// Requests of linux/kvm.h, with the sizes of their structures in them.
const CREATE_VM: libc::Ioctl = 0xae01;
const GET_VCPU_MMAP_SIZE: libc::Ioctl = 0xae04;
const CREATE_VCPU: libc::Ioctl = 0xae41;
const SET_USER_MEMORY_REGION: libc::Ioctl = 0x4020_ae46;
const RUN: libc::Ioctl = 0xae80;
const SET_REGS: libc::Ioctl = 0x4090_ae82;
const GET_SREGS: libc::Ioctl = 0x8138_ae83_u32 as libc::Ioctl;
const SET_SREGS: libc::Ioctl = 0x4138_ae84;

/// Reason of an exit: the guest has executed `hlt`.
const EXIT_HLT: u32 = 5;

/// Memory of the guest: code, and three pages of tables.
const MEMORY: usize = 0x4000;

/// `cmpxchg16b [rdi]` and `hlt`.
const CODE: [u8; 5] = [0x48, 0x0f, 0xc7, 0x0f, 0xf4];

/// Place of the operand.
const OPERAND: u64 = 0x800;

/// Reason why virtual machines cannot use the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvmFault {
    /// A call failed: the attempt and its error.
    Kernel(&'static str, Errno),
    /// The guest's kernel is not executed but emulated, and not as a whole; the number is the reason of the exit.
    Emulated(u32),
}

impl std::fmt::Display for KvmFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kernel(attempt, errno) => write!(f, "cannot {attempt}: {}", crate::reason(*errno)),
            Self::Emulated(exit) => write!(
                f,
                "/dev/kvm emulates the kernel of a guest, and lacks instructions that kernels use (exit {exit})"
            ),
        }
    }
}

/// A segment register, as the kernel has it (`struct kvm_segment`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Segment {
    base: u64,
    limit: u32,
    selector: u16,
    kind: u8,
    present: u8,
    dpl: u8,
    db: u8,
    s: u8,
    l: u8,
    g: u8,
    rest: [u8; 3],
}

/// Special registers (`struct kvm_sregs`): eight segments from cs to ldt, two tables, then control registers.
#[repr(C)]
#[derive(Clone, Copy)]
struct Special {
    segments: [Segment; 8],
    tables: [u64; 4],
    cr0: u64,
    cr2: u64,
    cr3: u64,
    cr4: u64,
    cr8: u64,
    efer: u64,
    apic_base: u64,
    interrupts: [u64; 4],
}

/// A part of the guest's memory (`struct kvm_userspace_memory_region`).
#[repr(C)]
struct Region {
    slot: u32,
    flags: u32,
    guest: u64,
    size: u64,
    host: u64,
}

const _: () = assert!(size_of::<Special>() == 0x138 && size_of::<Region>() == 0x20);

/// Number of the register rdi among the general ones, and their count (`struct kvm_regs`).
const RDI: usize = 5;
const RIP: usize = 16;
const RFLAGS: usize = 17;
const REGISTERS: usize = 18;

/// Memory that is shared with the kernel, unmapped when it is dropped.
struct Shared(*mut u8, usize);

impl Shared {
    fn map(length: usize, fd: Option<&OwnedFd>) -> Result<Self, Errno> {
        let (flags, fd) = match fd {
            Some(fd) => (libc::MAP_SHARED, fd.as_raw_fd()),
            None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of this program.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, fd, 0) };
        if place == libc::MAP_FAILED {
            return Err(errno());
        }
        Ok(Self(place.cast(), length))
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.1, "within the mapping");
        // SAFETY: the bytes fit into the mapping, as was just checked; the guest does not run, and no reference into
        // the mapping exists.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.wrapping_add(at), bytes.len()) };
    }

    fn read_u32(&self, at: usize) -> u32 {
        assert!(at + 4 <= self.1, "within the mapping");
        // SAFETY: four bytes at that place are in the mapping, as was just checked, and any bytes are a number.
        unsafe { self.0.wrapping_add(at).cast::<u32>().read_unaligned() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

/// Calls ioctl(2) with a number or an address, which the request must be one for.
///
/// # Safety
/// Where the request takes an address, the structure that it is for must be there.
unsafe fn request(fd: &OwnedFd, request: libc::Ioctl, argument: usize) -> Result<i32, Errno> {
    // SAFETY: the caller has given an argument that fits the request.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request, argument) } {
        -1 => Err(errno()),
        value => Ok(value),
    }
}

/// Executes two instructions in a virtual machine; takes a few milliseconds.
///
/// # Errors
/// [`KvmFault`] says why virtual machines cannot use the processor.
pub fn try_kvm() -> Result<(), KvmFault> {
    let failed = |attempt| move |errno| KvmFault::Kernel(attempt, errno);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let kvm = rustix::fs::open(c"/dev/kvm", flags, Mode::empty()).map_err(failed("open /dev/kvm"))?;
    let make = || -> Result<u32, Errno> {
        // SAFETY: CREATE_VM takes the number of a type.
        let machine = unsafe { request(&kvm, CREATE_VM, 0)? };
        // SAFETY: the new descriptor has no other owner.
        let machine = unsafe { OwnedFd::from_raw_fd(machine) };
        let memory = Shared::map(MEMORY, None)?;
        fill(&memory);
        let region = Region {
            slot: 0,
            flags: 0,
            guest: 0,
            size: MEMORY as u64,
            host: memory.0 as u64,
        };
        // SAFETY: the request reads a Region, which lives until the call returns; the memory that it names is mapped
        // until the end of this function, and so longer than the machine is used.
        unsafe { request(&machine, SET_USER_MEMORY_REGION, (&raw const region) as usize)? };
        // SAFETY: CREATE_VCPU takes a number.
        let processor = unsafe { request(&machine, CREATE_VCPU, 0)? };
        // SAFETY: the new descriptor has no other owner.
        let processor = unsafe { OwnedFd::from_raw_fd(processor) };
        // SAFETY: the request takes no argument.
        let length = unsafe { request(&kvm, GET_VCPU_MMAP_SIZE, 0)? };
        let run = Shared::map(
            usize::try_from(length).map_err(|_| Errno::INVAL)?,
            Some(&processor),
        )?;
        begin(&processor)?;
        // SAFETY: RUN takes no argument. The guest sees its own four pages, and nothing of this process.
        unsafe { request(&processor, RUN, 0)? };
        // `exit_reason` in struct kvm_run.
        Ok(run.read_u32(8))
    };
    match make().map_err(failed("make a virtual machine"))? {
        EXIT_HLT => Ok(()),
        exit => Err(KvmFault::Emulated(exit)),
    }
}

/// Writes the code, and tables that map the first 2 MiB.
fn fill(memory: &Shared) {
    memory.write(0, &CODE);
    for (at, entry) in [(0x1000, 0x2003_u64), (0x2000, 0x3003), (0x3000, 0x83)] {
        memory.write(at, &entry.to_le_bytes());
    }
}

/// Puts the processor into long mode, before the code.
fn begin(processor: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: every field is a number, for which zeros are a value.
    let mut special: Special = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes a Special, which lives until the call returns.
    unsafe { request(processor, GET_SREGS, (&raw mut special) as usize)? };
    let segment = |kind, selector, db, l| Segment {
        base: 0,
        limit: u32::MAX,
        selector,
        kind,
        present: 1,
        dpl: 0,
        db,
        s: 1,
        l,
        g: 1,
        rest: [0; 3],
    };
    special.segments[0] = segment(11, 8, 0, 1);
    for data in &mut special.segments[1..6] {
        *data = segment(3, 16, 1, 0);
    }
    special.cr3 = 0x1000;
    // PAE and OSFXSR; PE, MP, ET, NE, WP, AM and PG; LME and LMA.
    (special.cr4, special.cr0, special.efer) = (0x220, 0x8005_0033, 0x500);
    // SAFETY: the request reads a Special, which lives until the call returns.
    unsafe { request(processor, SET_SREGS, (&raw const special) as usize)? };
    let mut registers = [0_u64; REGISTERS];
    (registers[RDI], registers[RIP], registers[RFLAGS]) = (OPERAND, 0, 2);
    // SAFETY: the request reads 18 numbers, which live until the call returns.
    unsafe { request(processor, SET_REGS, registers.as_ptr() as usize)? };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every machine gives an answer, and always the same.
    #[test]
    fn an_answer() {
        let first = try_kvm();
        if let Err(fault) = &first {
            println!("no KVM: {fault}");
        }
        assert_eq!(try_kvm(), first);
    }
}
