//! Gate between parent and child: the child waits there for a letter of the parent, which brings descriptors. A gate whose
//! descriptors were made before the birth is open from the beginning: the child has inherited them, and waits for nothing.

use crate::join::set_namespaces;
use crate::registers::Registers;
use crate::{Errno, Parcel, schedule};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Most descriptors that go through a gate: more than a host has hierarchies.
const FDS: usize = 20;

/// Length of the parent's letter at a gate: kind, and which descriptors come along.
const LETTER: usize = 4;

/// Opens the gate ahead of the child at the other end of the channel.
pub(crate) fn open(channel: BorrowedFd<'_>, parcel: &Parcel<'_>) -> Result<(), Errno> {
    let mut fds = Vec::with_capacity(FDS);
    fds.extend(parcel.idmap);
    fds.extend(parcel.tree);
    fds.extend(parcel.network);
    fds.extend(parcel.tasks);
    let letter: [u8; LETTER] = [
        b'g',
        parcel.idmap.is_some().into(),
        parcel.tree.is_some().into(),
        parcel.network.is_some().into(),
    ];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::INVAL);
    }
    rustix::net::sendmsg(
        channel,
        &[IoSlice::new(&letter)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .map(drop)
}

/// Passes an open gate in the child; else waits for the letter, and takes what comes with it.
pub(crate) fn pass(registers: &mut Registers<'_>) -> Result<(), Errno> {
    if let Some((parcel, rest)) = registers.parcels.split_first() {
        registers.parcels = rest;
        return inherit(parcel, registers);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut letter = [0u8; LETTER];
    let length = loop {
        let mut slices = [IoSliceMut::new(&mut letter)];
        match rustix::net::recvmsg(
            registers.channel,
            &mut slices,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            Ok(message) => break message.bytes,
            Err(errno) => return Err(errno),
        }
    };
    if length != letter.len() {
        return Err(Errno::PIPE);
    }
    let [_, has_idmap, has_tree, has_network] = letter;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            if has_idmap == 1 {
                registers.idmap = fds.next();
            }
            if has_tree == 1 {
                registers.tree = fds.next();
            }
            if has_network == 1
                && let Some(network) = fds.next()
            {
                set_namespaces(network.as_fd(), libc::CLONE_NEWNET as u32)?;
            }
            for tasks in fds {
                registers.demoted |= enter_cgroup(tasks.as_fd())?;
            }
        }
    }
    Ok(())
}

/// Takes the parcel of an open gate.
fn inherit(parcel: &Parcel<'_>, registers: &mut Registers<'_>) -> Result<(), Errno> {
    // The parcel borrows the parent's descriptors, and a register owns one.
    let own = |fd: Option<BorrowedFd<'_>>| fd.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3)).transpose();
    registers.idmap = own(parcel.idmap)?.or(registers.idmap.take());
    registers.tree = own(parcel.tree)?.or(registers.tree.take());
    if let Some(network) = parcel.network {
        set_namespaces(network, libc::CLONE_NEWNET as u32)?;
    }
    for tasks in parcel.tasks {
        registers.demoted |= enter_cgroup(*tasks)?;
    }
    Ok(())
}

/// Moves this process into a v1 cgroup; true if it had to give up a real-time policy for that.
///
/// The `cpu` controller takes no real-time process where `cpu.rt_runtime_us` is 0, as it is in every new group. The
/// group cannot be given time of its own: that would come out of the rest that the parent has, which on most machines
/// is 0, and without RT_GROUP_SCHED the file does not exist. runc fails here. Under docker the caller's policy never
/// reaches the container, whose processes are the daemon's children; a container of tote gets the same result.
fn enter_cgroup(tasks: BorrowedFd<'_>) -> Result<bool, Errno> {
    match rustix::io::write(tasks, b"0") {
        Err(Errno::INVAL) if schedule::is_real_time() => {
            schedule::leave_real_time()?;
            rustix::io::write(tasks, b"0").map(|_| true)
        }
        other => other.map(|_| false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ancestry, Birth, Event, Op, Way, birth};

    #[test]
    fn a_gate_that_is_open_is_not_waited_at() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks");
        let file = std::fs::File::create_new(&path).unwrap();
        let tasks = [file.as_fd()];
        let open = Parcel {
            tasks: &tasks,
            ..Parcel::default()
        };
        let ops = [Op::Gate, Op::Gate, Op::Ready];
        let child = birth(&Birth {
            ops: &ops,
            namespaces: 0,
            ancestry: Ancestry::default(),
            cgroup: None,
            timings: false,
            seal: None,
            parcels: &[open],
            way: Way::Copied,
        })
        .unwrap();
        child.open_gate(&Parcel::default()).unwrap();
        let wait = crate::Wait::within(std::time::Duration::from_secs(20));
        let heard = wait.readable(child.channel()) == Ok(true);
        let event = heard.then(|| child.event());
        child.kill();
        assert!(
            matches!(event, Some(Ok(Event::Ready))),
            "it waits for a second letter"
        );
        assert_eq!(
            std::fs::read(&path).unwrap(),
            b"0",
            "it has entered the cgroup of the open gate"
        );
    }
}
