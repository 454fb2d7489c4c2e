//! Processes by id and start time.

use crate::StateError;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::CString;
use tote_sys::{Errno, best_effort, read_proc_text, send_signal};

/// Replaces this process's command line by `words`. Users of the host can read the command line as long as the
/// process lives, and it may hold secrets (`-e`, `--build-arg`).
pub fn set_title(words: &str) {
    // Names of containers and pools contain no NUL.
    tote_sys::set_title(&CString::new(words).unwrap_or_default());
}

/// Detaches a process that was forked from a command and outlives it from the command's session, directory,
/// standard streams and command line.
pub fn settle(words: &str) {
    // setsid cannot fail in a process that was just forked; if the others fail, the process works all the same.
    best_effort(rustix::process::setsid());
    best_effort(rustix::process::chdir("/"));
    set_title(words);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    // absence: the process has the streams that it was given
    if let Ok(null) = rustix::fs::open("/dev/null", flags, Mode::empty()) {
        best_effort(rustix::stdio::dup2_stdin(&null));
        best_effort(rustix::stdio::dup2_stdout(&null));
        best_effort(rustix::stdio::dup2_stderr(&null));
    }
}

/// Returns the time when a process started, in clock ticks since boot: together with the id it identifies a process
/// for good. `None` if there is no such process, or after an error.
pub fn start_time(pid: u32) -> Option<u64> {
    read_start_time(pid).ok()
}

/// Returns the start time of a process that is there.
///
/// # Errors
/// Those of open(2) and read(2).
pub fn read_start_time(pid: u32) -> std::io::Result<u64> {
    let stat = read_proc_text(format!("/proc/{pid}/stat"))?;
    start_time_in(&stat)?.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// Returns the start time in a text of `/proc/PID/stat`, by the machine's clock; `None` if the text has no such field.
fn start_time_in(stat: &str) -> std::io::Result<Option<u64>> {
    parse_start_time(stat).map(tote_sys::machine_ticks).transpose()
}

/// Parses the 22nd field of `/proc/PID/stat`. The second is a name in parentheses that may contain any character.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(19)?.parse().ok()
}

/// True if a process that was cloned here has become its program, or has that name: from then on it has the rights of its program, and
/// the root. False if there is no such process any more.
///
/// # Errors
/// Those of open(2) and read(2).
pub fn has_begun(pid: u32, started: u64, name: &str) -> std::io::Result<bool> {
    match read_proc_text(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(start_time_in(&stat)? == Some(started) && has_executed(&stat, name)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH) => Ok(false),
            _ => Err(error),
        },
    }
}

/// `PF_FORKNOEXEC` of the kernel's `sched.h`: set when a process is cloned, and cleared by execve(2).
const FORKED: u32 = 0x40;

fn has_executed(stat: &str, name: &str) -> bool {
    let called = stat.split_once(" (").and_then(|(_, rest)| rest.rsplit_once(") "));
    parse_flags(stat).is_some_and(|flags| flags & FORKED == 0)
        || called.is_some_and(|(called, _)| called == name)
}

/// True if a process has ended or is about to; some of its descriptors may still be open.
pub fn is_ending(pid: u32, started: u64) -> bool {
    let stat = read_proc_text(format!("/proc/{pid}/stat")).unwrap_or_default();
    !matches!(start_time_in(&stat), Ok(Some(at)) if at == started)
        || parse_flags(&stat).is_none_or(|flags| flags & EXITING != 0)
}

/// `PF_EXITING` of the kernel's `sched.h`; set before a process closes its descriptors.
const EXITING: u32 = 4;

/// Parses the ninth field of `/proc/PID/stat`, the flags.
fn parse_flags(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(6)?.parse().ok()
}

/// Opens a pidfd of the process with that id, and returns its start time as well. `None` if there is no such process, or if it has ended
/// and its parent has waited for it meanwhile.
pub fn find(pid: u32) -> Option<(OwnedFd, u64)> {
    let pidfd = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    let started = start_time(pid)?;
    // As long as the process can be sent a signal, the number is still its own. One that must not be sent to is there, too.
    match send_signal(pidfd.as_fd(), 0) {
        Ok(()) | Err(Errno::PERM) => Some((pidfd, started)),
        Err(_) => None,
    }
}

/// Opens a pidfd of a process, if it is still the one with that start time and has not ended.
pub fn open(pid: u32, started: u64) -> Option<OwnedFd> {
    reach(pid, started).ok().flatten()
}

/// Opens a pidfd as [`open`] does, but tells an ended process (`None`) from a failure: for callers that wait for
/// its end.
///
/// # Errors
/// [`StateError::Process`] if the kernel does not say whether it has ended.
pub fn reach(pid: u32, started: u64) -> Result<Option<OwnedFd>, StateError> {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(None),
        opened => opened.map_err(StateError::Process)?,
    };
    // The start time is read after the pidfd is open: from here on the number cannot change hands unnoticed.
    let read = read_proc_text(format!("/proc/{pid}/stat")).and_then(|stat| start_time_in(&stat));
    match read {
        Ok(found) => Ok(Some(pidfd).filter(|_| found == Some(started))),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH) => Ok(None),
            errno => Err(StateError::Process(errno.unwrap_or(Errno::IO))),
        },
    }
}

/// Kills a process, if it is still the one with that start time.
pub fn kill(pid: u32, started: u64) {
    if let Some(pidfd) = open(pid, started) {
        best_effort(pidfd_send_signal(pidfd, Signal::KILL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times() {
        let stat = "12 (a) b) (c) S 1 1 1 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 98765 1 2";
        assert_eq!(parse_start_time(stat), Some(98765));
        for bad in [
            "",
            "1 (x)",
            "1 (x) S",
            "1 (x) S 1 1 1 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 x",
        ] {
            assert_eq!(parse_start_time(bad), None, "{bad}");
        }
        for (name, flags, begun) in [
            ("tote", 0x40, false),
            ("tote", 0, true),
            ("tote-init", 0x40, true),
            ("a) tote-init", 0x40, false),
        ] {
            let stat = format!("12 ({name}) S 1 1 1 0 -1 {flags} 0 0 0 0 1 2 3 4 20 0 1 0 98765 1 2");
            assert_eq!(has_executed(&stat, "tote-init"), begun, "{stat}");
        }
        let own = start_time(std::process::id()).unwrap();
        assert!(has_begun(std::process::id(), own, "x").unwrap());
        assert!(
            !has_begun(std::process::id(), own + 1, "x").unwrap(),
            "it is another one"
        );
        assert!(!has_begun(u32::MAX, own, "x").unwrap());
        assert!(own > 0);
        let (pidfd, started) = find(std::process::id()).unwrap();
        assert_eq!(started, own);
        send_signal(pidfd.as_fd(), 0).unwrap();
        for none in [0, u32::MAX >> 2, u32::MAX] {
            assert!(find(none).is_none(), "{none}");
        }
        assert!(!is_ending(std::process::id(), own));
        assert!(is_ending(std::process::id(), own + 1), "it is another one");
        assert_eq!(
            parse_flags("12 (a) b) (c) S 1 1 1 0 -1 4194564 0"),
            Some(4_194_564)
        );
    }
}
