//! A VMM that boots nothing.

use crate::vmm::{Booted, Vmm, Wires};
use crate::{Change, Machine, Plug, VmmError};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::cell::RefCell;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

type Body = Box<dyn FnOnce(UnixStream, UnixStream) + Send>;

/// A VMM whose machine is a function with the machine's ends of channel and console.
pub(super) struct Fake(RefCell<Option<Body>>);

impl Fake {
    pub(super) fn new(body: impl FnOnce(UnixStream, UnixStream) + Send + 'static) -> Self {
        Self(RefCell::new(Some(Box::new(body))))
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

#[derive(Debug)]
struct Thread {
    thread: Option<JoinHandle<()>>,
    ended: OwnedFd,
    /// Changes of disks that have not been told.
    changes: Vec<Change>,
}

impl Vmm for Fake {
    fn boot(&self, _: &Machine, wires: Wires) -> Result<Box<dyn Booted>, VmmError> {
        let body = self.0.borrow_mut().take().unwrap();
        let (ended, alive) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            body(wires.channel, wires.console);
            drop(alive);
        });
        Ok(Box::new(Thread {
            thread: Some(thread),
            ended: ended.into(),
            changes: Vec::new(),
        }))
    }
}

impl Booted for Thread {
    fn control(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    fn advance(&mut self) -> Result<Vec<Change>, VmmError> {
        Ok(std::mem::take(&mut self.changes))
    }

    fn attach(&mut self, plug: Plug) -> Result<(), VmmError> {
        self.changes.push(match &*plug.serial {
            "bad" => Change::Refused(plug.serial, "it is bad".to_owned()),
            _ => Change::Attached(plug.serial),
        });
        Ok(())
    }

    fn detach(&mut self, serial: &str) -> Result<(), VmmError> {
        self.changes.push(Change::Detached(serial.to_owned()));
        Ok(())
    }

    fn end(&mut self) -> String {
        // A thread that waits for the attendant goes when that is gone.
        drop(self.thread.take());
        "the last words".to_owned()
    }
}
