//! First process of a guest: it makes the disk with tote readable, and executes tote in its own place.
//!
//! The kernel unpacks an initramfs into memory, whole, and keeps it there. So what is in it is small: this program, which has neither a
//! standard library nor an allocator, and the modules without which no disk can be read. Tote lies on a disk: of it the kernel
//! reads what is executed.
//!
//! ```text
//! /init           this program
//! /modules/list   names of modules, one a line, in the order in which they are loaded; " pci" behind those of machines with PCI
//! /modules/N.ko   the modules, which are removed once they are loaded
//! /tote           place of the disk
//! ```
//! The crate's build script compiles it.

#![no_std]
#![no_main]

mod call;

use call::{Errno, READ_ONLY};
use core::arch::global_asm;
use core::ffi::CStr;

/// Serial number of the disk with tote, and the program on it.
const DISK: &[u8] = b"tote";
const PROGRAM: &CStr = c"/tote/tote";

/// Bytes of the list of modules at most.
const LIST: usize = 4096;

/// Bytes of a path at most, and of a message.
const PATH: usize = 128;

/// Letters of disks.
const LETTERS: core::ops::RangeInclusive<u8> = b'a'..=b'z';

// The kernel begins here, with the number of arguments and the lists on the stack, which functions want in steps of 16 bytes.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {begin}",
    "ud2",
    begin = sym begin,
);

/// Something that was impossible, and the name of a module.
struct Fault<'a>(&'static [u8], &'a [u8], Errno);

/// Does the work. `stack` is what the kernel has left there: a number, and that many addresses of arguments, a zero, addresses of
/// variables, a zero.
unsafe extern "C" fn begin(stack: *const usize) -> ! {
    let mut list = [0; LIST];
    let fault = match prepare(&mut list) {
        Err(fault) => fault,
        Ok(()) => {
            // SAFETY: the number is there.
            let count = unsafe { stack.read() };
            // SAFETY: so are the lists behind it.
            let (arguments, variables) = unsafe { (stack.add(1), stack.add(count + 2)) };
            // SAFETY: they are those of this process.
            let errno = unsafe { call::execute(PROGRAM, arguments, variables) };
            Fault(b"execute tote", b"", errno)
        }
    };
    let Fault(attempt, name, errno) = fault;
    let mut message = Line::of([
        b"tote: the guest cannot begin: cannot ",
        attempt,
        name,
        b": error ",
    ]);
    message.push_number(errno.0);
    message.push(b"\n");
    call::tell(message.bytes());
    call::restart()
}

/// Loads the modules and mounts the disk.
fn prepare(list: &mut [u8; LIST]) -> Result<(), Fault<'_>> {
    for (place, kind) in [(c"/dev", c"devtmpfs"), (c"/sys", c"sysfs")] {
        let mounted = call::mount(kind, place, kind, 0);
        mounted.map_err(|errno| Fault(b"mount ", place.to_bytes(), errno))?;
    }
    let path = c"/modules/list";
    let list = call::read(path, list).map_err(|errno| Fault(b"read ", path.to_bytes(), errno))?;
    // The machine has PCI if it has the first of its devices.
    let has_pci = call::is_there(c"/sys/bus/pci/devices/0000:00:00.0");
    for line in list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let name = line.strip_suffix(b" pci");
        if name.is_some() <= has_pci {
            load(name.unwrap_or(line))?;
        }
    }
    call::remove(path);
    mount_disk()
}

/// Loads a module, and gives back the memory of its file.
fn load(name: &[u8]) -> Result<(), Fault<'_>> {
    let path = Line::of([b"/modules/", name, b".ko", b""]);
    let path = path.text();
    call::load(path).map_err(|errno| Fault(b"load module ", name, errno))?;
    call::remove(path);
    Ok(())
}

/// Mounts the disk that has tote's serial number: the letters of their names follow from the places of their devices.
fn mount_disk() -> Result<(), Fault<'static>> {
    for letter in LETTERS {
        let path = Line::of([b"/sys/block/vd", &[letter], b"/serial", b""]);
        let mut serial = [0; 32];
        let serial = call::read(path.text(), &mut serial).unwrap_or_default();
        if serial.strip_suffix(b"\n").unwrap_or(serial) != DISK {
            continue;
        }
        let device = Line::of([b"/dev/vd", &[letter], b"", b""]);
        let mounted = call::mount(device.text(), c"/tote", c"erofs", READ_ONLY);
        return mounted.map_err(|errno| Fault(b"mount the disk with tote", b"", errno));
    }
    // No such device.
    Err(Fault(b"find the disk with tote", b"", Errno(19)))
}

/// A short text with a zero byte behind it. What does not fit is left out.
struct Line {
    bytes: [u8; PATH],
    length: usize,
}

impl Line {
    fn of(parts: [&[u8]; 4]) -> Self {
        let mut line = Self {
            bytes: [0; PATH],
            length: 0,
        };
        for part in parts {
            line.push(part);
        }
        line
    }

    fn push(&mut self, text: &[u8]) {
        for byte in text {
            if self.length + 1 < PATH
                && let Some(place) = self.bytes.get_mut(self.length)
            {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    fn push_number(&mut self, number: u16) {
        for unit in [10_000, 1000, 100, 10, 1] {
            if number >= unit || unit == 1 {
                let digit = number / unit % 10;
                self.push(&[b'0' + digit as u8]);
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// There is nothing to unwind to, and no code that could panic.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    call::restart()
}
