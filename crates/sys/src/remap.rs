//! Another file as this process's executable, without executing anything.
//!
//! What `/proc/PID/exe` and `/proc/PID/map_files` lead to is what the process is mapped from. So each of its mappings is
//! put anew, from the same bytes of the same inode as another mount shows it, and then prctl(2) lets the process's
//! executable be that one. This costs a twentieth of executing it once more: no new memory map, no start of a program, no
//! command line read twice.

use crate::Errno;
use crate::birth::errno;
use rustix::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;

/// One line of `/proc/self/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    protection: i32,
    offset: i64,
}

impl Mapping {
    const NONE: Self = Self {
        start: 0,
        end: 0,
        protection: 0,
        offset: 0,
    };
}

/// The most mappings of the executable that are put anew; it has about five.
const MOST: usize = 16;

/// What has to be done for a process to run from another mount's file: looked up beforehand, because a process that has
/// just been cloned may not allocate. It holds for this process, and for those that it clones.
#[derive(Debug)]
pub(crate) struct Remap {
    /// The executable as the other mount shows it.
    file: OwnedFd,
    /// What is mapped anew from the file.
    mapped: [Mapping; MOST],
    /// What the program writes to, or has written to: it is copied.
    copied: [Mapping; MOST],
    memory: MemoryMap,
}

impl Remap {
    /// Looks at the mappings of this process.
    ///
    /// # Errors
    /// open(2)'s and read(2)'s of files in `/proc/self`.
    pub(crate) fn new(file: OwnedFd) -> Result<Self, Errno> {
        let mut buffer = [0; LONGEST];
        let maps = read(c"/proc/self/maps", &mut buffer)?;
        let own = rustix::fs::readlink(c"/proc/self/exe", Vec::with_capacity(256))?;
        let own = own.to_bytes();
        let writable = writable_segments()?;
        // Part of what may be written may be read-only meanwhile: what the linker has relocated.
        let is_copied = |mapping: &Mapping| {
            writable
                .iter()
                .any(|(start, end)| mapping.start < *end && *start < mapping.end)
        };
        let (mut mapped, mut copied) = ([Mapping::NONE; MOST], [Mapping::NONE; MOST]);
        let (mut maps_left, mut copies_left) = (mapped.iter_mut(), copied.iter_mut());
        let own_mappings = maps
            .split(|&byte| byte == b'\n')
            .filter_map(|line| parse(line, own));
        for mapping in own_mappings {
            let places = if is_copied(&mapping) {
                &mut copies_left
            } else {
                &mut maps_left
            };
            *places.next().ok_or(Errno::FBIG)? = mapping;
        }
        let memory = memory_map(&file)?;
        Ok(Self {
            file,
            mapped,
            copied,
            memory,
        })
    }

    /// Makes the file the one that this process runs from. Neither allocates nor locks.
    ///
    /// # Errors
    /// `EPERM` without the right to do that; mmap(2)'s and prctl(2)'s. The process goes on from where it ran before
    /// or from the file, which are the same bytes.
    pub(crate) fn perform(&self) -> Result<(), Errno> {
        let is_one = |mapping: &&Mapping| mapping.end != 0;
        for mapping in self.mapped.iter().filter(is_one) {
            map(*mapping, self.file.as_fd())?;
        }
        for mapping in self.copied.iter().filter(is_one) {
            copy(*mapping)?;
        }
        match set_executable(self.file.as_fd()) {
            // Not root over the whole host, or one who lacks CAP_SYS_RESOURCE.
            Err(Errno::PERM) => self.memory.set(),
            other => other,
        }
    }
}

/// Twice as much as the kernel gives at once, which is more than a program without libraries has mappings for.
const LONGEST: usize = 8192;

/// In one go: what a procfs gives piece by piece need not fit together.
fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::io::read(file, &mut *buffer)?;
    // What comes near that may not be all.
    if length > buffer.len() / 2 - 512 {
        Err(Errno::FBIG)
    } else {
        Ok(&buffer[..length])
    }
}

fn set_executable(file: BorrowedFd<'_>) -> Result<(), Errno> {
    prctl(libc::PR_SET_MM_EXE_FILE, file.as_raw_fd() as libc::c_ulong, 0)
}

/// What this process's memory map is described by, with another executable.
fn memory_map(file: &OwnedFd) -> Result<MemoryMap, Errno> {
    let mut buffer = [0; LONGEST];
    let stat = String::from_utf8_lossy(read(c"/proc/self/stat", &mut buffer)?);
    // SAFETY: sbrk(3) by nothing only says where the heap ends.
    let brk = unsafe { libc::sbrk(0) };
    MemoryMap::new(&stat, brk as u64, file.as_raw_fd() as u32).ok_or(Errno::INVAL)
}

fn prctl(what: libc::c_int, value: libc::c_ulong, size: usize) -> Result<(), Errno> {
    // SAFETY: the value is a descriptor, or the address of a `struct prctl_mm_map` of that size which outlives the call.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_MM,
            what as libc::c_ulong,
            value,
            size as libc::c_ulong,
            0 as libc::c_ulong,
        )
    };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// linux/prctl.h
const PR_SET_MM_MAP: libc::c_int = 14;

/// `struct prctl_mm_map`, linux/prctl.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemoryMap {
    code: [u64; 2],
    data: [u64; 2],
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arguments: [u64; 2],
    environment: [u64; 2],
    /// Null: the auxiliary vector stays.
    auxv: u64,
    auxv_size: u32,
    exe_fd: u32,
}

impl MemoryMap {
    /// Sets the executable by way of CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN: all of the description has to be given, and
    /// is what it was.
    fn set(&self) -> Result<(), Errno> {
        // The heap may have grown since.
        // SAFETY: sbrk(3) by nothing only says where the heap ends.
        let brk = unsafe { libc::sbrk(0) } as u64;
        let now = Self { brk, ..*self };
        prctl(
            PR_SET_MM_MAP,
            (&raw const now) as libc::c_ulong,
            size_of::<MemoryMap>(),
        )
    }

    /// From `/proc/PID/stat`, proc_pid_stat(5); the name, its second field, may contain anything.
    fn new(stat: &str, brk: u64, exe_fd: u32) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        Some(Self {
            code: [field(26)?, field(27)?],
            data: [field(45)?, field(46)?],
            start_brk: field(47)?,
            brk,
            start_stack: field(28)?,
            arguments: [field(48)?, field(49)?],
            environment: [field(50)?, field(51)?],
            auxv: 0,
            auxv_size: 0,
            exe_fd,
        })
    }
}

/// A private mapping of that very file; proc_pid_maps(5).
fn parse(line: &[u8], own: &[u8]) -> Option<Mapping> {
    let path = line.strip_suffix(own)?;
    let mut fields = std::str::from_utf8(path).ok()?.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?.as_bytes();
    let offset = i64::from_str_radix(fields.next()?, 16).ok()?;
    // Device and inode are left, and nothing after them: the path is the whole name and not the end of another.
    if fields.count() != 2 {
        return None;
    }
    let bit = |at: usize, letter: u8, bit: i32| {
        if permissions.get(at) == Some(&letter) {
            bit
        } else {
            0
        }
    };
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        protection: bit(0, b'r', libc::PROT_READ)
            | bit(1, b'w', libc::PROT_WRITE)
            | bit(2, b'x', libc::PROT_EXEC),
        offset,
    })
}

/// Where the program may have written to its own mappings, from its headers as the kernel has loaded them.
fn writable_segments() -> Result<Vec<(usize, usize)>, Errno> {
    // SAFETY: the auxiliary vector is read, no more.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    // SAFETY: as above.
    let count = unsafe { libc::getauxval(libc::AT_PHNUM) };
    if headers == 0 || count > 64 {
        return Err(Errno::NOEXEC);
    }
    // SAFETY: the kernel has put the address of as many program headers there, which are part of a mapping that stays.
    let headers = unsafe { std::slice::from_raw_parts(headers as *const libc::Elf64_Phdr, count as usize) };
    // A program at a fixed address is where it says; another one is as far from there as its headers are.
    let table = headers.iter().find(|header| header.p_type == libc::PT_PHDR);
    let moved = table.map_or(0, |table| headers.as_ptr() as u64 - table.p_vaddr);
    let is_writable =
        |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0;
    Ok(headers
        .iter()
        .filter(is_writable)
        .map(|header| {
            let start = moved + header.p_vaddr;
            (start as usize, (start + header.p_memsz) as usize)
        })
        .collect())
}

/// Puts the same bytes of the file into the same place.
fn map(mapping: Mapping, file: BorrowedFd<'_>) -> Result<(), Errno> {
    let length = mapping.end - mapping.start;
    // SAFETY: these are mappings of the executable that nobody writes to, and the file has the same bytes at the same
    // places as it is the same inode: whoever reads or runs them, this function included, finds what was there. The kernel
    // replaces a mapping in one step, as seen from this process, which has one thread.
    let place = unsafe {
        libc::mmap(
            mapping.start as *mut libc::c_void,
            length,
            mapping.protection,
            libc::MAP_PRIVATE | libc::MAP_FIXED,
            file.as_raw_fd(),
            mapping.offset,
        )
    };
    if place == libc::MAP_FAILED {
        Err(errno())
    } else {
        Ok(())
    }
}

/// Puts a copy, of no file, into the place of a mapping that has been written to.
fn copy(mapping: Mapping) -> Result<(), Errno> {
    let length = mapping.end - mapping.start;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping where the kernel likes touches no memory that is in use.
    let scratch = unsafe { libc::mmap(std::ptr::null_mut(), length, both, anonymous, -1, 0) };
    if scratch == libc::MAP_FAILED {
        return Err(errno());
    }
    // SAFETY: both are `length` bytes long and readable, the second writable and new.
    unsafe { std::ptr::copy_nonoverlapping(mapping.start as *const u8, scratch.cast::<u8>(), length) };
    let place = mapping.start as *mut libc::c_void;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: what is replaced has just been copied, and nothing was written to it since: this process has one thread, and
    // nothing that was called in between keeps a state of its own there.
    if unsafe { libc::mremap(scratch, length, length, flags, place) } == libc::MAP_FAILED {
        return Err(errno());
    }
    // SAFETY: the protection that this place had before.
    if unsafe { libc::mprotect(place, length, mapping.protection) } == -1 {
        return Err(errno());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_stat() {
        let numbers: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let stat = format!("7 (a) b) R {}\n", numbers.join(" "));
        let map = MemoryMap::new(&stat, 99, 3).unwrap();
        assert_eq!((map.code, map.data), ([26, 27], [45, 46]));
        assert_eq!((map.start_brk, map.brk, map.start_stack), (47, 99, 28));
        assert_eq!((map.arguments, map.environment), ([48, 49], [50, 51]));
        assert_eq!(size_of::<MemoryMap>(), 104);
        assert_eq!(MemoryMap::new("7 (a) R 1", 99, 3), None);
    }

    #[test]
    fn lines_of_maps() {
        let of = |line: &str| parse(line.as_bytes(), b"/usr/bin/tote");
        assert_eq!(
            of("00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/tote"),
            Some(Mapping {
                start: 0x0040_0000,
                end: 0x0045_2000,
                protection: libc::PROT_READ | libc::PROT_EXEC,
                offset: 0x1000,
            })
        );
        for other in [
            "00400000-00452000 r-xp 00001000 08:02 173521      /x /usr/bin/tote",
            "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/tote2",
            "00400000-00452000 rw-p 00000000 00:00 0",
            "7ffd-7fff rw-p 00000000 00:00 0                   [stack]",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
