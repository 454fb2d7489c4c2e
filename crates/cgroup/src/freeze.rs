//! Suspension of a container.

use crate::cgroup::{Cgroup, Dir};
use crate::controllers::Controllers;
use crate::error::Error;
use crate::file;
use crate::tree::pause;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Time after which freezing is given up: a process in uninterruptible sleep (NFS, a dying disk) cannot be frozen.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Number of attempts on v1 without a pause.
const EAGER_TRIES: u32 = 16;
const FIRST_WAIT: Duration = Duration::from_micros(20);
const LONGEST_WAIT: Duration = Duration::from_millis(10);

impl Cgroup {
    /// Suspends every process of the group and returns when all are suspended.
    ///
    /// # Errors
    /// The group has no freezer, or a process did not stop within ten seconds; the group is running again then.
    pub fn freeze(&self) -> Result<(), Error> {
        let (dir, frozen) = match (self.v1(Controllers::FREEZER), self.v2()) {
            (Some(dir), _) => (dir, freeze_v1(dir)),
            (None, Some(dir)) => (dir, freeze_v2(dir)),
            (None, None) => return Err(Error::NoFreezer),
        };
        if frozen.is_err() {
            // A half frozen group would be worst; the error to report is about the freezing.
            _ = if dir.is_v2 {
                dir.write("cgroup.freeze", "0")
            } else {
                dir.write("freezer.state", "THAWED")
            };
        }
        frozen
    }

    /// Resumes every process of the group. A running group is not an error.
    ///
    /// # Errors
    /// The group has no freezer, or the kernel refuses.
    pub fn thaw(&self) -> Result<(), Error> {
        match (self.v1(Controllers::FREEZER), self.v2()) {
            (Some(dir), _) => dir.write("freezer.state", "THAWED"),
            (None, Some(dir)) => dir.write("cgroup.freeze", "0"),
            (None, None) => Err(Error::NoFreezer),
        }
    }

    /// True if the group itself is suspended or about to be; a suspended ancestor does not count, because no change
    /// to this group would wake it. False without a freezer.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn is_frozen(&self) -> Result<bool, Error> {
        let (dir, name) = match (self.v1(Controllers::FREEZER), self.v2()) {
            (Some(dir), _) => (dir, "freezer.self_freezing"),
            (None, Some(dir)) => (dir, "cgroup.freeze"),
            (None, None) => return Ok(false),
        };
        Ok(dir.read(name)?.trim() == "1")
    }
}

/// Freezes a v1 group. The kernel freezes process by process and misses a process that is forked meanwhile: the state
/// then stays FREEZING until it is written again. The kernel reports no event for it, and reading the state is what
/// advances it, so it is read often at first and in growing intervals later. An occasional thaw releases processes
/// that wait for each other.
fn freeze_v1(dir: &Dir) -> Result<(), Error> {
    let deadline = Instant::now() + GIVE_UP;
    let mut wait = FIRST_WAIT;
    for attempt in 1u32.. {
        dir.write("freezer.state", "FROZEN")?;
        let state = dir.read("freezer.state")?;
        if state.trim() == "FROZEN" {
            break;
        }
        if Instant::now() > deadline {
            return Err(too_slow(dir, &state));
        }
        if attempt < EAGER_TRIES {
            std::thread::yield_now();
            continue;
        }
        if attempt.is_multiple_of(EAGER_TRIES) {
            dir.write("freezer.state", "THAWED")?;
        }
        pause(wait);
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    Ok(())
}

fn freeze_v2(dir: &Dir) -> Result<(), Error> {
    let fault = |errno| Error::Read {
        path: dir.path.join("cgroup.events"),
        source: errno,
    };
    let events = file::open_for_read(dir.fd.as_fd(), "cgroup.events").map_err(fault)?;
    dir.write("cgroup.freeze", "1")?;
    match wait_for_event(events.as_fd(), "frozen 1", GIVE_UP) {
        Ok(true) => Ok(()),
        Ok(false) => Err(too_slow(dir, "freezing")),
        Err(errno) => Err(fault(errno)),
    }
}

fn too_slow(dir: &Dir, state: &str) -> Error {
    let state = state.trim().to_lowercase();
    Error::Freeze {
        path: dir.path.clone(),
        state,
        seconds: GIVE_UP.as_secs(),
    }
}

/// Waits until `cgroup.events` has the line. The kernel raises POLLPRI for each change since the last read.
fn wait_for_event(events: BorrowedFd<'_>, line: &str, limit: Duration) -> Result<bool, Errno> {
    let deadline = Instant::now() + limit;
    loop {
        rustix::fs::seek(events, rustix::fs::SeekFrom::Start(0))?;
        if file::read_fd(events, 64)?.lines().any(|found| found == line) {
            return Ok(true);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else {
            return Ok(false);
        };
        let mut fds = [PollFd::new(&events, PollFlags::PRI)];
        #[expect(
            clippy::disallowed_methods,
            reason = "it has a limit, and this crate does not know `sys`"
        )]
        let changed = poll(&mut fds, Some(&timeout));
        match changed {
            Ok(0) => return Ok(false),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
