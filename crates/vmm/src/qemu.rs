//! QEMU, with its smallest machine.

use crate::arguments::arguments;
use crate::console::{Tail, last_words};
use crate::plug::{Change, Plug};
use crate::qmp::Qmp;
use crate::saved::{Files, Starting};
use crate::vmm::{Booted, Vmm, Wires};
use crate::{Machine, VmmError};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use tote_sys::{Errno, OPEN_FOR_BOTH, Wait, best_effort, spawn_reporting, tsc_khz};

/// Name of the program.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// Attempt of the conversation.
const TALK: &str = "talk to the virtual machine monitor";

/// QEMU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Qemu {
    /// User and group that it belongs to, if it is another one than this process's.
    pub user: Option<u32>,
}

impl Vmm for Qemu {
    fn boot(&self, machine: &Machine, wires: Wires) -> Result<Box<dyn Booted>, VmmError> {
        let (ours, theirs) = UnixStream::pair().map_err(|error| start(machine, error))?;
        let fds = [theirs.as_fd(), wires.channel.as_fd(), wires.console.as_fd()];
        let shares = wires.shares.as_ref().map(AsFd::as_fd);
        for fd in fds.into_iter().chain(shares) {
            rustix::io::fcntl_setfd(fd, FdFlags::empty()).map_err(VmmError::kernel("pass on a socket"))?;
        }
        let [control, channel, console] = fds.map(|fd| fd.as_raw_fd());
        let shares = shares.map(|fd| fd.as_raw_fd());
        let files = Files::open(machine)?;
        // process: attendant of a virtual machine
        #[expect(
            clippy::disallowed_methods,
            reason = "a machine is a program of the host, at a path that was found before"
        )]
        let mut command = Command::new(&machine.program);
        command
            .args(arguments(
                machine,
                files.is_none().then(tsc_khz).flatten(),
                (control, channel, console),
                shares,
            ))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let spawned = match &files {
            None => tote_sys::spawn_mortal(&mut command).map(|child| (child, None)),
            Some(_) => {
                spawn_reporting(&mut command, &OPEN_FOR_BOTH).map(|(child, calls)| (child, Some(calls)))
            }
        };
        let (mut child, listener) = spawned.map_err(|error| start(machine, error))?;
        drop((theirs, wires));
        let mut running = Running {
            pidfd: pidfd(&child)?,
            errors: child.stderr.take(),
            child,
            control: ours,
            qmp: Qmp::new(files.as_ref().map(|files| files.state.as_raw_fd())),
            words: Tail::default(),
        };
        running.unblock()?;
        if let (Some(files), Some(listener)) = (files, listener) {
            let handed = files.hand_out(machine, &listener, &mut running);
            handed.inspect_err(|_| drop(running.end()))?;
        }
        Ok(Box::new(running))
    }
}

fn start(machine: &Machine, source: std::io::Error) -> VmmError {
    VmmError::Start {
        program: machine.program.display().to_string(),
        source,
    }
}

pub(crate) fn pidfd(child: &Child) -> Result<OwnedFd, VmmError> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or(Errno::CHILD)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .map_err(VmmError::kernel("watch the virtual machine"))
}

/// A process of QEMU.
#[derive(Debug)]
struct Running {
    child: Child,
    pidfd: OwnedFd,
    errors: Option<ChildStderr>,
    control: UnixStream,
    qmp: Qmp,
    words: Tail,
}

impl Running {
    fn unblock(&self) -> Result<(), VmmError> {
        let failed = VmmError::kernel(TALK);
        let set = || {
            rustix::io::ioctl_fionbio(&self.control, true)?;
            self.errors
                .as_ref()
                .map_or(Ok(()), |errors| rustix::io::ioctl_fionbio(errors, true))
        };
        set().map_err(failed)
    }

    /// Says what is to be said now: a short line, and no other before its answer, so that there is room for it.
    fn say(&mut self) -> Result<(), VmmError> {
        let Some((line, fd)) = self.qmp.take_outgoing() else {
            return Ok(());
        };
        match crate::pass::send(&self.control, &line, fd.as_ref().map(AsFd::as_fd).as_slice()) {
            Ok(()) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(VmmError::kernel(TALK)(errno)),
        }
    }
}

impl Starting for Running {
    fn waits(&self) -> [BorrowedFd<'_>; 2] {
        [self.control.as_fd(), self.pidfd.as_fd()]
    }

    fn speak(&mut self) -> Result<(), VmmError> {
        // A machine that begins has no disk that comes or goes.
        self.advance().map(drop)
    }

    fn is_open(&self) -> bool {
        self.qmp.is_answered()
    }
}

impl Booted for Running {
    fn control(&self) -> Option<BorrowedFd<'_>> {
        Some(self.control.as_fd())
    }

    fn ended(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    fn advance(&mut self) -> Result<Vec<Change>, VmmError> {
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&self.control, &mut buffer) {
                // The end of the process says more.
                Ok(0) | Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(self.qmp.plugs.take_changes()),
                Ok(length) => self.qmp.received(&buffer[..length])?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(VmmError::kernel(TALK)(errno)),
            }
            self.say()?;
        }
    }

    fn attach(&mut self, plug: Plug) -> Result<(), VmmError> {
        self.qmp.plugs.attach(plug);
        self.say()
    }

    fn detach(&mut self, serial: &str) -> Result<(), VmmError> {
        self.qmp.plugs.detach(serial);
        self.say()
    }

    fn replace(&mut self, serial: &str, file: OwnedFd) -> Result<(), VmmError> {
        self.qmp.swap.replace(serial, file);
        self.say()
    }

    fn replaced(&mut self) -> Option<Result<(), VmmError>> {
        self.qmp.swap.replaced()
    }

    fn runs(&self) -> bool {
        self.qmp.runs()
    }

    fn save(&mut self, state: OwnedFd) -> Result<(), VmmError> {
        self.qmp.save(state);
        self.say()
    }

    fn is_saved(&self) -> bool {
        self.qmp.is_saved()
    }

    fn end(&mut self) -> String {
        // It may have ended already; nothing in it is kept.
        best_effort(self.child.kill());
        best_effort(Wait::ending().finish(&mut self.child));
        let mut text = Vec::new();
        if let Some(errors) = self.errors.take() {
            // A program that was killed has said everything.
            best_effort(errors.take(64 << 10).read_to_end(&mut text));
        }
        self.words.push(&text);
        let said = self.words.lines(2);
        last_words(&[said]).trim_start_matches(": ").to_owned()
    }
}
