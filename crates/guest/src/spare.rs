//! A worker that waits for work: to make a process takes an emulated processor as long as all else that a short `exec` does, so
//! the agent makes the next worker when nothing else is to be done.
//!
//! ```text
//! order = TERMINAL (1) │ JOINS (1) │ length (8, little-endian) │ plan       with the descriptors of both, in this order
//! ```

use crate::error::GuestError;
use crate::session::{Asked, Session};
use crate::worker::{Ends, Errands, Work, work};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::io::{IoSlice, Read as _};
use std::os::unix::net::UnixStream;
use tote_channel::MAX_PLAN;
use tote_sys::{ComingNetwork, Errno, best_effort};

/// Bytes before the plan.
const HEAD: usize = 10;

/// Keeps this program's file out of reach, once. A process that is forked from a sealed one need not seal itself; one that cannot be sealed here
/// says so there.
pub(crate) fn seal() {
    best_effort(tote_runtime::seal_in_place());
}

/// The agent's ends of a worker's pipes.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    pub(crate) errors: OwnedFd,
    pub(crate) reports: OwnedFd,
}

/// A worker without work.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) pipes: Pipes,
    pub(crate) worker: Pid,
    orders: UnixStream,
}

impl Spare {
    /// Forks a worker; the sessions of `others` are not for it. The container that it will bear may have a network namespace that was made before.
    pub(crate) fn fork(
        others: &mut BTreeMap<u16, Session>,
        network: Option<OwnedFd>,
        errands: Errands,
    ) -> Result<Self, GuestError> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(GuestError::kernel("make", "a pipe"));
        let ((their_input, input), (output, their_output)) = (pipe()?, pipe()?);
        let ((errors, their_errors), (reports, their_reports)) = (pipe()?, pipe()?);
        for end in [&input, &output, &errors, &reports] {
            rustix::io::ioctl_fionbio(end, true).map_err(GuestError::kernel("change", "a pipe"))?;
        }
        let pair = UnixStream::pair().map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            GuestError::kernel("make", "a socket")(errno)
        });
        let (orders, their_orders) = pair?;
        let mut theirs = Some((
            Ends {
                input: their_input,
                output: their_output,
                errors: their_errors,
                reports: their_reports,
            },
            their_orders,
            network,
        ));
        let pipes = Pipes {
            input,
            output,
            errors,
            reports,
        };
        let mut ours = Some((pipes, orders));
        // process: worker of a guest
        let forked = tote_sys::fork_worker(|| {
            // Ends of the agent that stayed open here would keep the streams from ending.
            drop((ours.take(), std::mem::take(others)));
            theirs.take().map_or(1, |(ends, orders, network)| {
                wait(ends, (orders, network), errands)
            })
        });
        let worker = forked.map_err(GuestError::kernel("make", "a worker"))?;
        drop(theirs.take());
        let Some((pipes, orders)) = ours.take() else {
            return Err(GuestError::kernel("make", "a worker")(Errno::CHILD));
        };
        Ok(Self {
            pipes,
            worker,
            orders,
        })
    }

    /// Gives the worker its work. Of one that the kernel has killed the pipes have ended.
    pub(crate) fn order(&self, asked: &Asked<'_>, terminal: Option<&OwnedFd>) -> Result<(), GuestError> {
        let failed = GuestError::kernel("give work to", "a worker");
        let mut head = [0; HEAD];
        head[0] = terminal.is_some().into();
        head[1] = asked.joined.is_some().into();
        head[2..].copy_from_slice(&(asked.plan.len() as u64).to_le_bytes());
        let files: Vec<_> = terminal
            .into_iter()
            .chain(&asked.joined)
            .map(OwnedFd::as_fd)
            .collect();
        let flags = SendFlags::NOSIGNAL;
        // In one call where the socket has room for it: each wakes the worker.
        let whole = [IoSlice::new(&head), IoSlice::new(asked.plan)];
        let mut sent = rustix::io::retry_on_intr(|| tote_sys::send_with(self.orders.as_fd(), &whole, &files));
        let mut plan = &asked.plan[sent.unwrap_or_default().saturating_sub(HEAD)..];
        while let Ok(_) | Err(Errno::INTR) = sent
            && !plan.is_empty()
        {
            sent = rustix::net::send(&self.orders, plan, flags);
            plan = &plan[sent.unwrap_or_default()..];
        }
        match sent {
            Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }
}

/// Is the worker: waits for work, and does it.
fn wait(ends: Ends, (mut orders, network): (UnixStream, Option<OwnedFd>), errands: Errands) -> u8 {
    let Ok((head, files)) = head(&orders) else {
        return 1;
    };
    let (is_terminal, joins) = (head[0] == 1, head[1] == 1);
    let mut files = files.into_iter();
    let terminal = is_terminal.then(|| files.next()).flatten();
    let joined = joins.then(|| files.next()).flatten();
    let length = head[2..].first_chunk().copied().map_or(0, u64::from_le_bytes);
    let mut plan = vec![0; usize::try_from(length).unwrap_or(MAX_PLAN).min(MAX_PLAN)];
    if orders.read_exact(&mut plan).is_err() {
        return 1;
    }
    drop(orders);
    let network = network.map(ComingNetwork::of);
    let asked = Work {
        plan: &plan,
        is_terminal,
        joined: joined.as_ref().map(OwnedFd::as_fd),
        network: network.as_ref(),
        errands,
    };
    let ends = Ends {
        input: terminal.unwrap_or(ends.input),
        ..ends
    };
    work(&asked, ends)
}

fn head(orders: &UnixStream) -> Result<([u8; HEAD], Vec<OwnedFd>), Errno> {
    let mut head = [0; HEAD];
    let (length, files) = tote_sys::receive_with(orders.as_fd(), &mut head, RecvFlags::WAITALL)?;
    if length == HEAD {
        Ok((head, files))
    } else {
        Err(Errno::PIPE)
    }
}
