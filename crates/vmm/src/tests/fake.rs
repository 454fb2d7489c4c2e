//! A VMM that boots nothing.

use crate::vmm::{Booted, Vmm, Wires};
use crate::{Change, Machine, Plug, VmmError};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::cell::RefCell;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

type Body = Box<dyn FnOnce(UnixStream, UnixStream) + Send>;

/// A VMM whose machine is a function with the machine's ends of channel and console.
pub(crate) struct Fake(RefCell<Option<Body>>);

impl Fake {
    pub(crate) fn new(body: impl FnOnce(UnixStream, UnixStream) + Send + 'static) -> Self {
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
    /// End of an exchange that has not been told, and the news that there is one.
    replaced: Option<Result<(), VmmError>>,
    news: (UnixStream, UnixStream),
}

impl Vmm for Fake {
    fn boot(&self, _: &Machine, wires: Wires) -> Result<Box<dyn Booted>, VmmError> {
        let body = self.0.borrow_mut().take().unwrap();
        let (ended, alive) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            body(wires.channel, wires.console);
            drop(alive);
        });
        let news = UnixStream::pair().unwrap();
        news.0.set_nonblocking(true).unwrap();
        Ok(Box::new(Thread {
            thread: Some(thread),
            ended: ended.into(),
            changes: Vec::new(),
            replaced: None,
            news,
        }))
    }
}

impl Booted for Thread {
    fn control(&self) -> Option<BorrowedFd<'_>> {
        Some(self.news.0.as_fd())
    }

    fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    fn advance(&mut self) -> Result<Vec<Change>, VmmError> {
        let _nothing_new = self.news.0.read(&mut [0]);
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

    fn replace(&mut self, _: &str, _: OwnedFd) -> Result<(), VmmError> {
        self.replaced = Some(Ok(()));
        self.news.1.write_all(b"x").unwrap();
        Ok(())
    }

    fn replaced(&mut self) -> Option<Result<(), VmmError>> {
        self.replaced.take()
    }

    fn end(&mut self) -> String {
        // A thread that waits for the attendant goes when that is gone.
        drop(self.thread.take());
        "the last words".to_owned()
    }
}
