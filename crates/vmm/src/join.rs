//! The attendant of a member, see [`crate::member`].

use crate::member::{Member, line};
use crate::pass;
use crate::streams::Streams;
use crate::visit::Another;
use crate::visitors::{NAME, connect};
use crate::{Verdict, VmmError};
use rustix::fd::AsFd as _;
use std::os::unix::net::UnixStream;

/// Attends a container in the machine of another one: has that machine take its disks and perform the plan, and passes streams and
/// signals on until the end. `warn` gets lines about what the container has to do without.
#[must_use]
pub fn join(member: &Member, plan: &[u8], streams: Streams<'_>, warn: &mut dyn FnMut(String)) -> Verdict {
    let begun = connect(NAME).and_then(|channel| {
        bring(member, &channel)?;
        Another::begin(streams, channel)
    });
    match begun {
        Ok((attendant, machine)) => attendant.attend(machine, (None, plan), warn),
        Err(error) => crate::attend::failed(&error, false),
    }
}

/// Says which disks the container has, and passes them on.
fn bring(member: &Member, channel: &UnixStream) -> Result<(), VmmError> {
    let mut files = Vec::with_capacity(member.disks.len());
    for disk in &member.disks {
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .write(!disk.readonly)
            .open(&disk.file);
        files.push(opened.map_err(|source| VmmError::Start {
            program: disk.file.display().to_string(),
            source,
        })?);
    }
    let line = line(&member.name, Some(&member.disks))?;
    let fds: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    pass::send(channel, &line, &fds).map_err(VmmError::kernel("pass on the disks of the container"))
}
