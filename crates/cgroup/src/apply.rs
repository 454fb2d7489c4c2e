//! Writes of limits to a group's files.

use crate::error::{Error, Losses, Why};
use crate::file;
use crate::plan::Policy;
use crate::write::{Absent, Write};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::path::Path;

/// Writes in order. A value that the kernel refuses because it does not fit another's old value (EINVAL) is tried
/// again after the rest: limit and memsw, quota, period and burst, and the real-time pair all need no order this way,
/// and nothing has to be read first.
pub(crate) fn apply(
    dir: BorrowedFd<'_>,
    path: &Path,
    writes: &[Write],
    policy: Policy,
    losses: &mut Losses,
) -> Result<(), Error> {
    let mut open = OpenFile::default();
    let mut refused = Vec::new();
    for write in writes {
        match put(&mut open, dir, write) {
            Ok(()) => {}
            Err(Errno::INVAL) => refused.push(write),
            Err(errno) => lose(dir, path, write, errno, policy, losses)?,
        }
    }
    for write in refused {
        if let Err(errno) = put(&mut open, dir, write) {
            lose(dir, path, write, errno, policy, losses)?;
        }
    }
    Ok(())
}

/// File written last: device rules are a dozen writes to the same one.
#[derive(Default)]
struct OpenFile(Option<(String, OwnedFd)>);

impl OpenFile {
    fn write(&mut self, dir: BorrowedFd<'_>, name: &str, value: &str) -> Result<(), Errno> {
        if let Some((open, fd)) = &self.0
            && open == name
        {
            return file::write_all(fd.as_fd(), value.as_bytes());
        }
        let fd = file::open_for_write(dir, name)?;
        let (_, fd) = self.0.insert((name.to_owned(), fd));
        file::write_all(fd.as_fd(), value.as_bytes())
    }
}

fn put(open: &mut OpenFile, dir: BorrowedFd<'_>, write: &Write) -> Result<(), Errno> {
    if let Some(usage) = write.usage
        && file::read_number(dir, usage)?.is_some_and(|used| write.value.parse().is_ok_and(|v: u64| v < used))
    {
        return Err(Errno::BUSY);
    }
    match (open.write(dir, &write.file, &write.value), &write.absent) {
        (Err(Errno::NOENT), Absent::Ignore) => Ok(()),
        (Err(Errno::NOENT), Absent::Instead(file, value)) => open.write(dir, file, value),
        (result, _) => result,
    }
}

fn lose(
    dir: BorrowedFd<'_>,
    path: &Path,
    write: &Write,
    errno: Errno,
    policy: Policy,
    losses: &mut Losses,
) -> Result<(), Error> {
    let in_use = match (&*write.file, errno) {
        ("memory.limit_in_bytes", Errno::BUSY) => {
            Some(("memory.usage_in_bytes", "memory.max_usage_in_bytes"))
        }
        ("memory.max", Errno::BUSY) => Some(("memory.current", "memory.peak")),
        _ => None,
    };
    // Too little memory is the user's mistake and not a limit of the host, so it is an error under either policy.
    if let Some((usage, peak)) = in_use {
        let read = |name| file::read_number(dir, name).ok().flatten().unwrap_or(0);
        return Err(Error::MemoryInUse {
            limit: write.value.clone(),
            usage: read(usage),
            peak: read(peak),
        });
    }
    // Missing processors and memory nodes are errors as well.
    if write.file.starts_with("cpuset.")
        && matches!(errno, Errno::RANGE | Errno::INVAL)
        && policy == Policy::Warn
    {
        return Err(Error::NotHere {
            limit: write.limit.to_owned(),
            value: write.value.clone(),
        });
    }
    if policy == Policy::Warn {
        let limit = if write.limit == "unified" {
            &write.file
        } else {
            write.limit
        };
        losses.push(limit, Why::from_errno(errno));
        return Ok(());
    }
    if matches!(errno, Errno::NOENT | Errno::ACCESS) && write.limit == "unified" {
        return Err(Error::NoController {
            limit: write.file.clone().into_owned(),
        });
    }
    let path = path.join(&*write.file);
    Err(Error::Write {
        path,
        value: write.value.clone(),
        source: errno,
    })
}
