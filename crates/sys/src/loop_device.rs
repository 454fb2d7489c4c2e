//! Loop devices, loop(4): a file as a block device.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::path::PathBuf;

const CTL_GET_FREE: libc::Ioctl = 0x4c82;
const CONFIGURE: libc::Ioctl = 0x4c0a;
const CLEAR: libc::Ioctl = 0x4c01;

const AUTOCLEAR: u32 = 4;
const DIRECT_IO: u32 = 16;

/// A device that a file was attached to. The kernel removes it once this is dropped and nothing on it is mounted any
/// more.
#[derive(Debug)]
pub struct LoopDevice {
    /// Path of its node.
    pub path: PathBuf,
    _device: OwnedFd,
}

/// Attaches a file that is open for reading and writing to a free device. Direct I/O avoids a second cache of the
/// contents, and autoclear removes the device with its last user.
///
/// # Errors
/// open(2)'s of `/dev/loop-control` and of the device; those of the two ioctls.
pub fn attach_loop(file: BorrowedFd<'_>) -> Result<LoopDevice, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let control = rustix::fs::open(c"/dev/loop-control", flags, Mode::empty())?;
    for _ in 0..64 {
        // SAFETY: LOOP_CTL_GET_FREE takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), CTL_GET_FREE) };
        if number < 0 {
            return Err(errno());
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = rustix::fs::open(&path, flags, Mode::empty())?;
        match configure(&device, file) {
            Ok(()) => {
                return Ok(LoopDevice {
                    path,
                    _device: device,
                });
            }
            Err(Errno::BUSY) => {} // another process was quicker
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::BUSY)
}

/// Detaches the file of a device, at once or when nothing on the device is mounted any more.
///
/// # Errors
/// `ENXIO` if no file is attached.
pub fn detach_loop(device: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: LOOP_CLR_FD takes no argument.
    match unsafe { libc::ioctl(device.as_raw_fd(), CLEAR, 0) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

fn configure(device: &OwnedFd, file: BorrowedFd<'_>) -> Result<(), Errno> {
    /// `struct loop_info64`, linux/loop.h.
    #[repr(C)]
    struct LoopInfo64 {
        numbers: [u64; 5],
        number: u32,
        encrypt_type: u32,
        encrypt_key_size: u32,
        flags: u32,
        texts: [u8; 160],
        init: [u64; 2],
    }
    /// `struct loop_config`, linux/loop.h.
    #[repr(C)]
    struct LoopConfig {
        fd: u32,
        block_size: u32,
        info: LoopInfo64,
        reserved: [u64; 8],
    }
    let config = LoopConfig {
        fd: file.as_raw_fd() as u32,
        // The size of pages and of the file systems' blocks: a smaller one would split direct I/O into smaller parts.
        block_size: 4096,
        info: LoopInfo64 {
            numbers: [0; 5],
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: AUTOCLEAR | DIRECT_IO,
            texts: [0; 160],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: the kernel reads a `struct loop_config`, which outlives the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE, &raw const config) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}
