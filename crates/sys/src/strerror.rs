//! Words of errors where the C library is musl: those of glibc, by which people know them and programs tell them apart.

use std::ffi::{CStr, c_int};

/// The error numbers, errno(3), for which the two libraries have different words, with those of glibc.
const OF_GLIBC: &[(c_int, &CStr)] = &[
    (libc::EIO, c"Input/output error"),
    (libc::ECHILD, c"No child processes"),
    (libc::ENOMEM, c"Cannot allocate memory"),
    (libc::EBUSY, c"Device or resource busy"),
    (libc::EXDEV, c"Invalid cross-device link"),
    (libc::EMFILE, c"Too many open files"),
    (libc::ENOTTY, c"Inappropriate ioctl for device"),
    (libc::ESPIPE, c"Illegal seek"),
    (libc::EDOM, c"Numerical argument out of domain"),
    (libc::ERANGE, c"Numerical result out of range"),
    (libc::EDEADLK, c"Resource deadlock avoided"),
    (libc::ENAMETOOLONG, c"File name too long"),
    (libc::ELOOP, c"Too many levels of symbolic links"),
    (libc::ECHRNG, c"Channel number out of range"),
    (libc::EL2NSYNC, c"Level 2 not synchronized"),
    (libc::EL3HLT, c"Level 3 halted"),
    (libc::EL3RST, c"Level 3 reset"),
    (libc::ELNRNG, c"Link number out of range"),
    (libc::EUNATCH, c"Protocol driver not attached"),
    (libc::ENOCSI, c"No CSI structure available"),
    (libc::EL2HLT, c"Level 2 halted"),
    (libc::EBADE, c"Invalid exchange"),
    (libc::EBADR, c"Invalid request descriptor"),
    (libc::EXFULL, c"Exchange full"),
    (libc::ENOANO, c"No anode"),
    (libc::EBADRQC, c"Invalid request code"),
    (libc::EBADSLT, c"Invalid slot"),
    (libc::EBFONT, c"Bad font file format"),
    (libc::ETIME, c"Timer expired"),
    (libc::ENONET, c"Machine is not on the network"),
    (libc::ENOPKG, c"Package not installed"),
    (libc::EREMOTE, c"Object is remote"),
    (libc::EADV, c"Advertise error"),
    (libc::ESRMNT, c"Srmount error"),
    (libc::ECOMM, c"Communication error on send"),
    (libc::EDOTDOT, c"RFS specific error"),
    (libc::EOVERFLOW, c"Value too large for defined data type"),
    (libc::ENOTUNIQ, c"Name not unique on network"),
    (libc::EREMCHG, c"Remote address changed"),
    (libc::ELIBACC, c"Can not access a needed shared library"),
    (libc::ELIBBAD, c"Accessing a corrupted shared library"),
    (libc::ELIBSCN, c".lib section in a.out corrupted"),
    (libc::ELIBMAX, c"Attempting to link in too many shared libraries"),
    (libc::ELIBEXEC, c"Cannot exec a shared library directly"),
    (libc::EILSEQ, c"Invalid or incomplete multibyte or wide character"),
    (libc::ERESTART, c"Interrupted system call should be restarted"),
    (libc::ESTRPIPE, c"Streams pipe error"),
    (libc::EUSERS, c"Too many users"),
    (libc::ENOTSOCK, c"Socket operation on non-socket"),
    (libc::EMSGSIZE, c"Message too long"),
    (libc::EOPNOTSUPP, c"Operation not supported"),
    (libc::EADDRINUSE, c"Address already in use"),
    (libc::EADDRNOTAVAIL, c"Cannot assign requested address"),
    (libc::ENETUNREACH, c"Network is unreachable"),
    (libc::ENETRESET, c"Network dropped connection on reset"),
    (libc::ECONNABORTED, c"Software caused connection abort"),
    (libc::EISCONN, c"Transport endpoint is already connected"),
    (libc::ENOTCONN, c"Transport endpoint is not connected"),
    (libc::ESHUTDOWN, c"Cannot send after transport endpoint shutdown"),
    (libc::ETOOMANYREFS, c"Too many references: cannot splice"),
    (libc::ETIMEDOUT, c"Connection timed out"),
    (libc::EHOSTUNREACH, c"No route to host"),
    (libc::EINPROGRESS, c"Operation now in progress"),
    (libc::EUCLEAN, c"Structure needs cleaning"),
    (libc::ENOTNAM, c"Not a XENIX named type file"),
    (libc::ENAVAIL, c"No XENIX semaphores available"),
    (libc::EISNAM, c"Is a named type file"),
    (libc::EDQUOT, c"Disk quota exceeded"),
    (libc::EOWNERDEAD, c"Owner died"),
    (libc::ERFKILL, c"Operation not possible due to RF-kill"),
    (libc::EHWPOISON, c"Memory page has hardware error"),
];

/// Returns glibc's words for an error number where those of musl are others.
fn of_glibc(number: c_int) -> Option<&'static CStr> {
    OF_GLIBC
        .iter()
        .find_map(|(known, words)| (*known == number).then_some(*words))
}

#[cfg(target_env = "musl")]
mod musl {
    use std::ffi::{CStr, c_char, c_int};

    /// strerror_r(3) of POSIX under the name by which the standard library calls it: the linker takes it instead of musl's.
    ///
    /// # Safety
    /// The buffer has room for `length` bytes.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn __xpg_strerror_r(number: c_int, buffer: *mut c_char, length: usize) -> c_int {
        let words = super::of_glibc(number).unwrap_or_else(|| {
            // SAFETY: strerror(3) of musl returns a constant for every number.
            let words = unsafe { libc::strerror(number) };
            // SAFETY: it is a string that lasts as long as the process.
            unsafe { CStr::from_ptr(words) }
        });
        let words = words.to_bytes();
        let Some(room) = length.checked_sub(1) else {
            return libc::ERANGE;
        };
        let copied = words.len().min(room);
        // SAFETY: the buffer has room for `copied` bytes and one more, and no constant is in it.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), buffer.cast(), copied) };
        // SAFETY: `copied` is less than `length`.
        let end = unsafe { buffer.add(copied) };
        // SAFETY: as above.
        unsafe { *end = 0 };
        if copied == words.len() { 0 } else { libc::ERANGE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    #[test]
    fn every_build_has_the_words_of_glibc() {
        for (number, words) in OF_GLIBC {
            let text = Error::from_raw_os_error(*number).to_string();
            let words = words.to_str().unwrap();
            assert_eq!(text, format!("{words} (os error {number})"));
            assert!(of_glibc(*number).is_some());
        }
        assert_eq!(of_glibc(libc::ENOENT), None);
        let missing = Error::from_raw_os_error(libc::ENOENT).to_string();
        assert_eq!(missing, "No such file or directory (os error 2)");
    }
}
