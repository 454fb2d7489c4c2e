//! Exchange of this process's executable for another file with the same bytes, without execve(2).
//!
//! `/proc/PID/exe` and `/proc/PID/map_files` lead to the files that the process is mapped from. So each of its
//! mappings is made again, from the same bytes of the same inode as another mount shows it, and then prctl(2) sets
//! that as the process's executable. This costs a twentieth of an execve(2): no new memory map, no start of a
//! program, and the command line is not parsed twice.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;
use std::ops::Range;
use std::sync::OnceLock;

/// Part of the executable as this process has it in memory; in bytes, whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    protection: i32,
    offset: i64,
}

/// Executable as another mount shows it, for this process to run from. Neither its construction nor
/// [`Remap::perform`] allocates or locks, because a process that has just been cloned does both: its parent has no
/// time to prepare it.
#[derive(Debug)]
pub(crate) struct Remap {
    file: OwnedFd,
    segments: Segments,
}

impl Remap {
    /// Reads the program's headers.
    ///
    /// # Errors
    /// `ENOEXEC` if the kernel does not say where this program's headers are.
    pub(crate) fn new(file: OwnedFd) -> Result<Self, Errno> {
        let segments = Segments::of_program()?;
        Ok(Self { file, segments })
    }

    /// Makes this process run from the file.
    ///
    /// # Errors
    /// `EPERM` without the right to do that; mmap(2)'s and prctl(2)'s. The process goes on from its old mappings or
    /// from the file, which have the same bytes.
    pub(crate) fn perform(&self) -> Result<(), Errno> {
        let mut written: Option<Range<usize>> = None;
        for (mapping, is_written) in self.segments.mapped() {
            match &mut written {
                _ if !is_written => map(mapping, self.file.as_fd())?,
                Some(range) if range.end == mapping.start => range.end = mapping.end,
                other => {
                    let before = other.replace(mapping.start..mapping.end);
                    before.map_or(Ok(()), copy)?;
                }
            }
        }
        written.map_or(Ok(()), copy)?;
        // The part that only the linker's relocations were written to becomes read-only again, as the C library has
        // made it.
        self.segments.relocated().map_or(Ok(()), protect)?;
        match set_executable(self.file.as_fd()) {
            // The caller is not root of the whole host, or lacks CAP_SYS_RESOURCE.
            Err(Errno::PERM) => memory_map(&self.file)?.set(),
            other => other,
        }
    }
}

/// Bytes of a buffer that is twice as large as one read of procfs, which is more than the mappings of a static
/// program need.
const LONGEST: usize = 8192;

/// Reads a file in one call: parts that procfs returns one by one need not fit together.
fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::io::read(file, &mut *buffer)?;
    // A result of nearly this size may be incomplete.
    let most = buffer.len() / 2 - 512;
    buffer.get(..length).filter(|_| length <= most).ok_or(Errno::FBIG)
}

fn set_executable(file: BorrowedFd<'_>) -> Result<(), Errno> {
    prctl(libc::PR_SET_MM_EXE_FILE, file.as_raw_fd() as libc::c_ulong, 0)
}

/// The memory map as an earlier read of `/proc/self/stat` had it. Copies of this process have it as well.
static KNOWN: OnceLock<MemoryMap> = OnceLock::new();

/// Keeps what `/proc/self/stat` says of the memory map, so that a process cloned later need not read that file. Returns where the
/// kernel has put arguments and environment: the start and the end of each.
pub(crate) fn remember(stat: &[u8]) -> Option<[[u64; 2]; 2]> {
    let map = MemoryMap::new(stat, 0, 0)?;
    KNOWN.get_or_init(|| map);
    Some([map.arguments, map.environment])
}

/// Describes this process's memory map, with another executable.
fn memory_map(file: &OwnedFd) -> Result<MemoryMap, Errno> {
    let exe_fd = file.as_raw_fd() as u32;
    match KNOWN.get() {
        Some(known) => Ok(MemoryMap { exe_fd, ..*known }),
        None => read_memory_map(exe_fd),
    }
}

#[inline(never)]
fn read_memory_map(exe_fd: u32) -> Result<MemoryMap, Errno> {
    let mut buffer = [0; LONGEST];
    let stat = read(c"/proc/self/stat", &mut buffer)?;
    MemoryMap::new(stat, 0, exe_fd).ok_or(Errno::INVAL)
}

fn prctl(what: libc::c_int, value: libc::c_ulong, size: usize) -> Result<(), Errno> {
    // SAFETY: the value is a descriptor, or the address of a `struct prctl_mm_map` of that size which outlives the
    // call.
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

/// Constant of linux/prctl.h.
const PR_SET_MM_MAP: libc::c_int = 14;

/// `struct prctl_mm_map`, linux/prctl.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemoryMap {
    code: [u64; 2],
    data: [u64; 2],
    start_brk: u64,
    /// Set last: the heap may grow meanwhile.
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
    /// Sets the executable by way of CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN: the kernel wants the whole description,
    /// which is otherwise unchanged.
    fn set(&self) -> Result<(), Errno> {
        // SAFETY: sbrk(3) with 0 only returns where the heap ends.
        let brk = unsafe { libc::sbrk(0) } as u64;
        let now = Self { brk, ..*self };
        prctl(
            PR_SET_MM_MAP,
            (&raw const now) as libc::c_ulong,
            size_of::<MemoryMap>(),
        )
    }

    /// Reads `/proc/PID/stat`, proc_pid_stat(5); the name, its second field, may contain anything.
    fn new(stat: &[u8], brk: u64, exe_fd: u32) -> Option<Self> {
        let end = stat.windows(2).rposition(|pair| pair == b") ")?;
        let rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let mut after = |fields_between: usize| fields.nth(fields_between)?.parse().ok();
        // `rest` begins with field 3. It is read once, in its order: fields 26 to 28, then 45 to 51.
        Some(Self {
            code: [after(23)?, after(0)?],
            start_stack: after(0)?,
            data: [after(16)?, after(0)?],
            start_brk: after(0)?,
            arguments: [after(0)?, after(0)?],
            environment: [after(0)?, after(0)?],
            brk,
            auxv: 0,
            auxv_size: 0,
            exe_fd,
        })
    }
}

/// The program's segments, from its headers as the kernel has loaded them.
#[derive(Debug)]
struct Segments {
    headers: &'static [libc::Elf64_Phdr],
    /// Distance of the segments from the addresses in the headers.
    moved: u64,
}

impl Segments {
    fn of_program() -> Result<Self, Errno> {
        // SAFETY: getauxval only reads the auxiliary vector.
        let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
        // SAFETY: getauxval only reads the auxiliary vector.
        let count = unsafe { libc::getauxval(libc::AT_PHNUM) };
        if headers == 0 || count > 64 {
            return Err(Errno::NOEXEC);
        }
        // SAFETY: the kernel has put the address of `count` program headers there, in a mapping that stays.
        let headers =
            unsafe { std::slice::from_raw_parts(headers as *const libc::Elf64_Phdr, count as usize) };
        // A program at a fixed address is where its headers say; any other is moved as far as its headers are.
        let table = headers.iter().find(|header| header.p_type == libc::PT_PHDR);
        let moved = table.map_or(0, |table| headers.as_ptr() as u64 - table.p_vaddr);
        Ok(Self { headers, moved })
    }

    /// Returns the mappings that execve(2) makes of the file, in their order in memory, and whether the program may
    /// have written to each. The rest of a segment after the file's bytes, the program's zeros, is not mapped from a
    /// file.
    fn mapped(&self) -> impl Iterator<Item = (Mapping, bool)> {
        let page = rustix::param::page_size() as u64;
        let in_file = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_filesz != 0;
        self.headers.iter().filter(in_file).map(move |header| {
            let begin = self.moved + header.p_vaddr;
            let bit = |flag: u32, bit: i32| if header.p_flags & flag != 0 { bit } else { 0 };
            let protection = bit(libc::PF_R, libc::PROT_READ)
                | bit(libc::PF_W, libc::PROT_WRITE)
                | bit(libc::PF_X, libc::PROT_EXEC);
            let mapping = Mapping {
                start: (begin - begin % page) as usize,
                end: (begin + header.p_filesz).next_multiple_of(page) as usize,
                protection,
                offset: (header.p_offset - header.p_offset % page) as i64,
            };
            (mapping, header.p_flags & libc::PF_W != 0)
        })
    }

    /// Returns the whole pages that the C library writes relocations to at the start, and that nothing writes to
    /// afterwards.
    fn relocated(&self) -> Option<Range<usize>> {
        let page = rustix::param::page_size() as u64;
        let header = self
            .headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_RELRO)?;
        let begin = self.moved + header.p_vaddr;
        let end = begin + header.p_memsz;
        Some((begin - begin % page) as usize..(end - end % page) as usize)
    }
}

/// Maps the same bytes of the file at the same place.
fn map(mapping: Mapping, file: BorrowedFd<'_>) -> Result<(), Errno> {
    let length = mapping.end - mapping.start;
    // SAFETY: these are mappings of the executable that nothing writes to, and the file has the same bytes at the
    // same places as it is the same inode: code that reads or runs them, this function included, finds the bytes that
    // were there. The kernel replaces a mapping in one step, as seen from this process, which has one thread.
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

/// Replaces memory that was written to by an anonymous copy, which can be read and written.
fn copy(written: Range<usize>) -> Result<(), Errno> {
    let length = written.len();
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let scratch = unsafe { libc::mmap(std::ptr::null_mut(), length, both, anonymous, -1, 0) };
    if scratch == libc::MAP_FAILED {
        return Err(errno());
    }
    // SAFETY: both ranges are `length` bytes long and readable, the second one writable and new.
    unsafe { std::ptr::copy_nonoverlapping(written.start as *const u8, scratch.cast::<u8>(), length) };
    let place = written.start as *mut libc::c_void;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the replaced memory has just been copied, and nothing was written to it since: this process has one
    // thread, and the functions called in between keep no state of their own there.
    if unsafe { libc::mremap(scratch, length, length, flags, place) } == libc::MAP_FAILED {
        return Err(errno());
    }
    Ok(())
}

fn protect(range: Range<usize>) -> Result<(), Errno> {
    // SAFETY: the range is the part that the linker has laid out to be made read-only at the program's start; nothing
    // writes there.
    match unsafe { libc::mprotect(range.start as *mut libc::c_void, range.len(), libc::PROT_READ) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_stat() {
        let numbers: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let stat = format!("7 (a) b) R {}\n", numbers.join(" "));
        let map = MemoryMap::new(stat.as_bytes(), 99, 3).unwrap();
        assert_eq!((map.code, map.data), ([26, 27], [45, 46]));
        assert_eq!((map.start_brk, map.brk, map.start_stack), (47, 99, 28));
        assert_eq!((map.arguments, map.environment), ([48, 49], [50, 51]));
        assert_eq!(size_of::<MemoryMap>(), 104);
        assert_eq!(MemoryMap::new(b"7 (a) R 1", 99, 3), None);
    }

    /// The headers describe each mapping of this program's file as the kernel does, except for parts made read-only
    /// since.
    #[test]
    fn the_mappings_are_those_of_maps() {
        let own = std::fs::read_link("/proc/self/exe").unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut bytes: Vec<(usize, usize)> = maps
            .lines()
            .filter(|line| line.ends_with(own.to_str().unwrap()))
            .map(|line| {
                let (start, rest) = line.split_once('-').unwrap();
                let (end, _) = rest.split_once(' ').unwrap();
                let number = |hexadecimal| usize::from_str_radix(hexadecimal, 16).unwrap();
                (number(start), number(end))
            })
            .collect();
        bytes.dedup_by(|next, before| {
            before.1 == next.0 && {
                before.1 = next.1;
                true
            }
        });
        let segments = Segments::of_program().unwrap();
        let mut ours: Vec<(usize, usize)> = segments
            .mapped()
            .map(|(mapping, _)| (mapping.start, mapping.end))
            .collect();
        ours.dedup_by(|next, before| {
            before.1 == next.0 && {
                before.1 = next.1;
                true
            }
        });
        assert_eq!(ours, bytes);
        let relocated = segments.relocated().unwrap();
        let written = segments.mapped().filter(|(_, is_written)| *is_written);
        let mut written = written.map(|(mapping, _)| mapping);
        assert!(written.any(|mapping| mapping.start <= relocated.start && relocated.end <= mapping.end));
    }
}
