//! Files of this machine as the disk of a virtual machine, made while it is read.
//!
//! A tree of files becomes an image of EROFS of which only the part before the data of files is in memory. QEMU reads it by
//! NBD, the protocol of network block devices, through a socket: a process beside the session answers, and reads the files when
//! the guest does. So nothing is copied, and a guest reaches no file that is not in the image.

mod nbd;
mod tree;

use crate::EngineError;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::net::UnixStream;
use tote_sys::{Wait, best_effort};

pub(super) use tree::{Files, Part};

/// A served disk; the server ends with this value.
#[derive(Debug)]
pub(super) struct Live {
    process: Pid,
}

impl Live {
    /// Serves these files; returns the VMM's end of the connection and the beginning of the image as well.
    pub(super) fn begin(files: Files) -> Result<(Self, OwnedFd, Vec<u8>), EngineError> {
        let failed = |attempt| move |source| EngineError::Kernel { attempt, source };
        let image = files.image()?;
        let head = image.head.clone();
        let pair = UnixStream::pair();
        let (ours, theirs) = pair.map_err(EngineError::file("make a socket for", "the tools"))?;
        let mut held = Some((ours, theirs));
        // process: server of tools
        let process = tote_sys::fork_worker(|| {
            best_effort(tote_sys::die_with_parent());
            let Some((ours, theirs)) = held.take() else {
                return 1;
            };
            drop(theirs);
            u8::from(nbd::serve(ours, &image).is_err())
        });
        let process = process.map_err(failed("start the process that serves the tools"))?;
        let Some((_, theirs)) = held.take() else {
            return Err(failed("start the process that serves the tools")(
                tote_sys::Errno::CHILD,
            ));
        };
        Ok((Self { process }, theirs.into(), head))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        best_effort(kill_process(self.process, Signal::KILL));
        best_effort(Wait::ending().reap_child(self.process));
    }
}
