//! Absence: which errors of a call say that something is not there.
//!
//! A call fails for many reasons, and only some of them say anything about the file: a process without free descriptors
//! (`EMFILE`) or a bad disk (`EIO`) knows nothing about it. Code that takes each failure for absence has removed containers and
//! left libraries out of images. These functions name the errors, so that a caller has to choose among them; `.ok()` chooses all.

use crate::Errno;

/// Error that may be one of the kernel's.
pub trait Failure {
    /// The kernel's number; `None` for an error of another kind.
    fn number(&self) -> Option<Errno>;
}

impl Failure for Errno {
    fn number(&self) -> Option<Errno> {
        Some(*self)
    }
}

impl Failure for std::io::Error {
    fn number(&self) -> Option<Errno> {
        Errno::from_io_error(self)
    }
}

/// Returns `None` if nothing has the name: `ENOENT`. For what tote itself has written.
///
/// # Errors
/// Every other one.
pub fn present<T, E: Failure>(result: Result<T, E>) -> Result<Option<T>, E> {
    unless(result, &[Errno::NOENT])
}

/// Returns `None` if the path leads to nothing: `ENOENT`, a file on the way (`ENOTDIR`), or links without an end (`ELOOP`).
/// For paths in a root that images, containers and other programs have made.
///
/// # Errors
/// Every other one.
pub fn reachable<T, E: Failure>(result: Result<T, E>) -> Result<Option<T>, E> {
    unless(result, &[Errno::NOENT, Errno::NOTDIR, Errno::LOOP])
}

/// Does the same as [`reachable`], and also returns `None` for what this process may not see (`EACCES`): what a user cannot
/// read, a container of that user could not use either. No lack of memory or descriptors ends in that error.
///
/// # Errors
/// Every other one.
pub fn visible<T, E: Failure>(result: Result<T, E>) -> Result<Option<T>, E> {
    unless(result, &[Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::ACCESS])
}

/// Returns `None` if the process is gone: `ENOENT` of its directory in `/proc`, or `ESRCH` of a file in it.
///
/// # Errors
/// Every other one.
pub fn alive<T, E: Failure>(result: Result<T, E>) -> Result<Option<T>, E> {
    unless(result, &[Errno::NOENT, Errno::SRCH])
}

fn unless<T, E: Failure>(result: Result<T, E>, absent: &[Errno]) -> Result<Option<T>, E> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.number().is_some_and(|number| absent.contains(&number)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn only_what_speaks_of_the_file_is_absence() {
        type Ask = fn(Result<(), Errno>) -> Result<Option<()>, Errno>;
        let all: [(Ask, &[Errno]); 4] = [
            (present, &[Errno::NOENT]),
            (reachable, &[Errno::NOENT, Errno::NOTDIR, Errno::LOOP]),
            (
                visible,
                &[Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::ACCESS],
            ),
            (alive, &[Errno::NOENT, Errno::SRCH]),
        ];
        for (ask, absent) in all {
            assert_eq!(ask(Ok(())), Ok(Some(())));
            for errno in (1..134).map(Errno::from_raw_os_error) {
                let expected = if absent.contains(&errno) {
                    Ok(None)
                } else {
                    Err(errno)
                };
                assert_eq!(ask(Err(errno)), expected, "{errno}");
            }
        }
        let of_library = present(Err::<(), _>(Error::from(ErrorKind::NotFound)));
        assert!(of_library.is_err(), "no call has said so");
        let of_kernel = Error::from_raw_os_error(Errno::NOENT.raw_os_error());
        assert!(matches!(present(Err::<(), _>(of_kernel)), Ok(None)));
    }
}
