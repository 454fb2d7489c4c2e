//! Tools of sessions: an image on a disk of which the host changes the content while the machine runs.
//!
//! A machine of one container gets no new disks, so each machine begins with an empty one. A host that wants other tools on it asks with [`SWAP`]: the
//! guest holds the disk for itself then, which no mount of it outlives, until the host has put another image there. A session has the
//! disk mounted in its own mount namespace alone, so it is free again when the last process of a session has ended.

use crate::machine::DISKS;
use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tote_sys::{Errno, best_effort};

/// Serial number of the disk.
pub const TOOLS_DISK: &str = "tools";

/// Directory on which a session mounts it.
pub const TOOLS: &str = "/tools";

/// Bytes before what is asked for, in the place of a plan, if the host has to put another image on the disk before: the process
/// says that it runs when the disk may be changed, and goes on at the end of its input.
pub const SWAP: &[u8] = b"tote swap 1\n";

/// Bytes before the plan of a session with tools: the superblock of their image follows, and then the plan.
pub const WITH_TOOLS: &[u8] = b"tote tools 1\n";

/// Place of an image's superblock, by which one is told from another.
pub const SUPERBLOCK_AT: u64 = 1024;

/// Bytes of a superblock.
pub const SUPERBLOCK: usize = 128;

fn disk() -> String {
    format!("{DISKS}/{TOOLS_DISK}")
}

/// Holds the disk for the time in which the host changes it: from `ready` on until the standard input has ended.
pub(crate) fn make_way(ready: &dyn Fn()) -> Result<(), String> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let held = match rustix::fs::open(disk(), flags, Mode::empty()) {
        Err(Errno::BUSY) => {
            return Err("processes of another session in this virtual machine have other tools".to_owned());
        }
        held => held.map_err(|errno| format!("cannot open the disk of the tools: {errno}"))?,
    };
    ready();
    let mut byte = [0];
    let ended = retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut byte));
    // The kernel forgets what it has read of a disk that is open nowhere.
    drop(held);
    ended
        .map(drop)
        .map_err(|errno| format!("cannot wait for the tools: {errno}"))
}

/// Takes the tools of sessions that are just beginning out of a new mount namespace, which would hold the disk as long as it is there.
pub(crate) fn leave() {
    while unmount(TOOLS, UnmountFlags::DETACH).is_ok() {}
}

/// Mount of the tools that the process of a session copies when it is born, with all others; it goes with this value.
#[derive(Debug)]
pub(crate) struct Mounted;

impl Mounted {
    /// Mounts the tools; fails if they have another superblock.
    pub(crate) fn of(superblock: &[u8]) -> Result<Self, String> {
        let failed = |errno: Errno| format!("cannot mount the tools: {errno}");
        let taken = || "another session has just brought other tools into this virtual machine".to_owned();
        let flags = MountFlags::RDONLY | MountFlags::NODEV;
        // Of several at a time each is on top of the one before: all have the same disk.
        match mount(disk(), TOOLS, "erofs", flags, c"") {
            Err(Errno::BUSY) => return Err(taken()),
            done => done.map_err(failed)?,
        }
        let mounted = Self;
        // From here on the disk does not change.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let disk = rustix::fs::open(disk(), flags, Mode::empty()).map_err(failed)?;
        let mut found = [0; SUPERBLOCK];
        retry_on_intr(|| rustix::io::pread(&disk, &mut found, SUPERBLOCK_AT)).map_err(failed)?;
        if found == superblock {
            Ok(mounted)
        } else {
            Err(taken())
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        best_effort(unmount(TOOLS, UnmountFlags::DETACH));
    }
}
