//! The system calls of the first stage, without a C library.

use core::arch::asm;
use core::ffi::CStr;

/// Number of an error, as errno(3) lists them.
pub(crate) struct Errno(pub(crate) u16);

/// Numbers of calls, for x86_64.
const READ: usize = 0;
const WRITE: usize = 1;
const OPEN: usize = 2;
const CLOSE: usize = 3;
const ACCESS: usize = 21;
const EXECVE: usize = 59;
const UNLINK: usize = 87;
const MOUNT: usize = 165;
const REBOOT: usize = 169;
const FINIT_MODULE: usize = 313;

/// Flag of mount(2) for what is not written to.
pub(crate) const READ_ONLY: usize = 1;

/// Error of finit_module(2) for a module that is there already.
const EXISTS: u16 = 17;

/// Asks the kernel.
///
/// # Safety
/// The arguments have to be those of the call, and what they point to has to live as long as the call.
unsafe fn call(number: usize, arguments: [usize; 5]) -> Result<usize, Errno> {
    let [first, second, third, fourth, fifth] = arguments;
    let result: isize;
    // SAFETY: the caller vouches for the arguments; the kernel changes these three registers alone.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    match result {
        0.. => Ok(result as usize),
        _ => Err(Errno(result.unsigned_abs() as u16)),
    }
}

/// Mounts a file system.
pub(crate) fn mount(source: &CStr, place: &CStr, kind: &CStr, flags: usize) -> Result<(), Errno> {
    let texts = [source, place, kind].map(|text| text.as_ptr() as usize);
    // SAFETY: the texts end with a zero byte each, and there are no settings.
    unsafe { call(MOUNT, [texts[0], texts[1], texts[2], flags, 0]) }.map(drop)
}

/// Opens a file to read, without the flag that would close it: all are closed before tote is executed.
fn open(path: &CStr) -> Result<usize, Errno> {
    // SAFETY: the path ends with a zero byte.
    unsafe { call(OPEN, [path.as_ptr() as usize, 0, 0, 0, 0]) }
}

fn close(file: usize) {
    // SAFETY: the number is of a file that the caller has opened, and does not use any more.
    let closed = unsafe { call(CLOSE, [file, 0, 0, 0, 0]) };
    // A file that was read has nothing to lose.
    drop(closed);
}

/// Reads the beginning of a file.
pub(crate) fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let file = open(path)?;
    // SAFETY: the kernel writes no more than the buffer holds.
    let length = unsafe { call(READ, [file, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0]) };
    close(file);
    let length = length?;
    Ok(buffer.get(..length).unwrap_or_default())
}

/// True if there is something at a path.
pub(crate) fn is_there(path: &CStr) -> bool {
    // SAFETY: the path ends with a zero byte.
    unsafe { call(ACCESS, [path.as_ptr() as usize, 0, 0, 0, 0]) }.is_ok()
}

/// Loads a module, unless it is there already.
pub(crate) fn load(path: &CStr) -> Result<(), Errno> {
    let file = open(path)?;
    // SAFETY: the module has no parameters: an empty text.
    let loaded = unsafe { call(FINIT_MODULE, [file, c"".as_ptr() as usize, 0, 0, 0]) };
    close(file);
    match loaded {
        Ok(_) | Err(Errno(EXISTS)) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Removes a file, if it can be removed: this only gives memory back.
pub(crate) fn remove(path: &CStr) {
    // SAFETY: the path ends with a zero byte.
    drop(unsafe { call(UNLINK, [path.as_ptr() as usize, 0, 0, 0, 0]) });
}

/// Writes to the console; a part is better than nothing.
pub(crate) fn tell(text: &[u8]) {
    // SAFETY: the kernel reads no more than the text.
    drop(unsafe { call(WRITE, [2, text.as_ptr() as usize, text.len(), 0, 0]) });
}

/// Executes a program in the place of this one; returns if that is impossible.
///
/// # Safety
/// The lists have to be those of a process: addresses of texts, with a zero behind them.
pub(crate) unsafe fn execute(program: &CStr, arguments: *const usize, variables: *const usize) -> Errno {
    let arguments = [
        program.as_ptr() as usize,
        arguments as usize,
        variables as usize,
        0,
        0,
    ];
    // SAFETY: the caller vouches for the lists.
    match unsafe { call(EXECVE, arguments) } {
        Ok(_) => Errno(0),
        Err(errno) => errno,
    }
}

/// Has the machine begin anew, which a host takes for its end.
pub(crate) fn restart() -> ! {
    /// The numbers by which reboot(2) knows that it is meant, and that of a restart.
    const WORDS: [usize; 3] = [0xfee1_dead, 672_274_793, 0x0123_4567];
    loop {
        // SAFETY: nothing of the machine is kept.
        drop(unsafe { call(REBOOT, [WORDS[0], WORDS[1], WORDS[2], 0, 0]) });
    }
}

/// The functions that the compiler relies on to be there for copies and comparisons.
mod memory {
    use core::arch::asm;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
        // SAFETY: the caller vouches for both places; the direction is that of C's rules.
        unsafe {
            asm!("rep movsb", inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _);
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memset(to: *mut u8, byte: i32, length: usize) -> *mut u8 {
        // SAFETY: the caller vouches for the place.
        unsafe {
            asm!("rep stosb", inout("rcx") length => _, inout("rdi") to => _, in("al") byte as u8);
        }
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
        for at in 0..length {
            // SAFETY: the caller vouches for that many bytes at both places.
            let bytes = unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
            if bytes.0 != bytes.1 {
                return i32::from(bytes.0) - i32::from(bytes.1);
            }
        }
        0
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
        // SAFETY: as of the other function.
        unsafe { memcmp(one, other, length) }
    }
}
