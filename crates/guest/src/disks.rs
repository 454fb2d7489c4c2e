//! Work with the disks of a container beside the container: its image and its writes, for a host that wants to know what has changed.
//!
//! ```text
//! order = "tote at disks 1\n" IMAGE " " WRITES " " HOLD "\n" what to do      serial numbers; HOLD is hold or leave
//! ```
//! Another process does the work, and the worker waits for it: whatever ends that process, the writes that it has held go on.

use crate::machine::{DISKS, disk_of};
use crate::report::Report;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::WaitStatus;
use std::io::Write as _;
use std::path::Path;
use tote_channel::End;
use tote_sys::{Endless, Errno, LockKind, WORK_LOCK, Wait, best_effort, lock_within};

/// Bytes before the names of the disks, and of something to be done with them, in the place of a plan.
pub const AT_DISKS: &[u8] = b"tote at disks 1\n";

/// Words of an order about the writes of a container that runs.
const HOLD: [&str; 2] = ["leave", "hold"];

/// Directory of the overlay on the disk of the writes.
const UPPER: &str = "upper";

/// Open directories of a container's disks.
#[derive(Debug)]
pub struct Disks {
    /// Root of the image.
    pub image: OwnedFd,
    /// Upper directory of the overlay; `None` if the container has never begun.
    pub upper: Option<OwnedFd>,
}

/// Does as the bytes say with the disks, and with the standard streams. An error is one line.
pub type DisksFn = fn(&[u8], Disks) -> Result<(), String>;

/// Orders something to be done with the disks that have these serial numbers; with `holds`, the container's writes wait meanwhile.
#[must_use]
pub fn at_disks((image, writes): (&str, &str), holds: bool, asked: &[u8]) -> Vec<u8> {
    let line = format!("{image} {writes} {}\n", HOLD[usize::from(holds)]);
    [AT_DISKS, line.as_bytes(), asked].concat()
}

/// Reads what [`at_disks`] has written after the first bytes.
fn parse(wanted: &[u8]) -> Option<((&str, &str), bool, &[u8])> {
    let end = wanted.iter().position(|byte| *byte == b'\n')?;
    let line = std::str::from_utf8(&wanted[..end]).ok()?;
    let mut words = line.split(' ');
    let (image, writes, hold) = (words.next()?, words.next()?, words.next()?);
    let holds = HOLD.iter().position(|word| *word == hold)? == 1;
    Some(((image, writes), holds, &wanted[end + 1..]))
}

/// Does the work to its end.
pub(crate) fn visit(wanted: &[u8], work: DisksFn, tell: &dyn Fn(&Report)) -> Report {
    let failed = |reason| Report::Failed(1, reason);
    let Some((serials, holds, asked)) = parse(wanted) else {
        return failed("cannot read the order about the disks of the container".to_owned());
    };
    let opened = open(serials).and_then(|(disks, writes)| {
        let held = if holds { Some(Held::hold(writes)?) } else { None };
        Ok((disks, held))
    });
    let (disks, held) = match opened {
        Ok(opened) => opened,
        Err(reason) => return failed(reason),
    };
    let mut disks = Some(disks);
    // process: worker of a guest
    let forked = tote_sys::fork_worker(|| {
        let done = disks.take().map_or(Ok(()), |disks| work(asked, disks));
        // A reader that has gone needs no reason.
        best_effort(done.as_ref().map_or_else(
            |reason| std::io::stderr().write_all(reason.as_bytes()),
            |()| Ok(()),
        ));
        u8::from(done.is_err())
    });
    let worker = match forked {
        Ok(worker) => worker,
        Err(errno) => return failed(format!("cannot make a process that reads the disks: {errno}")),
    };
    tell(&Report::Born(worker.as_raw_pid()));
    tell(&Report::Runs);
    let ended = Wait::endless(Endless::Worker).reap_child(worker);
    drop(held);
    Report::Ended(match ended {
        Ok(Some(status)) => end(status),
        _ => End::Signal(9),
    })
}

fn end(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Code((code & 0xff) as u8),
        (None, Some(number)) => End::Signal((number & 0x7f) as u8),
        (None, None) => End::Signal(9),
    }
}

/// Mounts the disks where no other process sees them; returns the root of the writes as well.
fn open((image, writes): (&str, &str)) -> Result<(Disks, OwnedFd), String> {
    let image = mounted("erofs", image)?;
    let writes = mounted("ext4", writes)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let upper = match rustix::fs::openat(&writes, UPPER, flags, Mode::empty()) {
        Ok(upper) => Some(upper),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(format!("cannot open the writes of the container: {errno}")),
    };
    Ok((Disks { image, upper }, writes))
}

/// Mounts a disk once more, or for the first time.
fn mounted(kind: &str, serial: &str) -> Result<OwnedFd, String> {
    let link = format!("{DISKS}/{serial}");
    let device = match rustix::fs::stat(&link) {
        Ok(_) => Some(link),
        // Those of a pod's containers have no links that are seen here.
        Err(_) => disk_of(serial),
    };
    let device = device.ok_or_else(|| format!("the virtual machine has no disk {serial}"))?;
    let failed = |errno: Errno| format!("cannot mount the disk {serial}: {errno}");
    let root = tote_sys::mount_to_read(kind, &device, kind == "erofs").map_err(failed)?;
    // A descriptor of a mount alone takes neither a lock nor an order.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&root, ".", flags, Mode::empty()).map_err(failed)
}

/// Writes that wait, until this value goes. A second one waits for the first: a file system can be frozen once.
#[derive(Debug)]
struct Held(OwnedFd);

impl Held {
    fn hold(writes: OwnedFd) -> Result<Self, String> {
        let path = Path::new("the container's writes");
        lock_within(writes.as_fd(), LockKind::Exclusive, WORK_LOCK, path)
            .and_then(|()| Ok(tote_sys::freeze(writes.as_fd())?))
            .map_err(|error| format!("cannot hold the writes of the container: {error}"))?;
        Ok(Self(writes))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        best_effort(tote_sys::thaw(self.0.as_fd()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back() {
        for holds in [false, true] {
            let order = at_disks(("image", "a1-writes"), holds, b"list\n{}");
            let wanted = order.strip_prefix(AT_DISKS).unwrap();
            assert_eq!(
                parse(wanted),
                Some((("image", "a1-writes"), holds, &b"list\n{}"[..]))
            );
        }
        for bad in [
            "",
            "\n",
            "image writes\n",
            "image writes keep\n",
            "image writes hold",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
