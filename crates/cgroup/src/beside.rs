//! Present group of a process, for another process that has to be beside it.

use crate::error::Error;
use crate::place::GroupPlace;
use crate::{Cgroup, Controllers, Layout};

/// Opens the groups of a record, with the v2 directory in which that process is now instead of the recorded one.
///
/// On v2 a group that hands out controllers takes no processes: a container that runs groups of its own has moved its
/// first process down, and a process that joins the container goes there.
///
/// # Errors
/// `/proc` cannot be read, or an existing directory cannot be opened.
pub fn beside(record: &str, pid: u32) -> Result<Cgroup, Error> {
    let now = layout_of(pid, &mounts()?)?
        .v2
        .map(|hierarchy| hierarchy.own_dir());
    let places = GroupPlace::all(record)?.into_iter().map(|place| match &now {
        Some(now) if place.is_v2 => GroupPlace::v2(now.clone()),
        _ => place,
    });
    Cgroup::open(&GroupPlace::record(places))
}

/// Returns the groups of a process as a record for [`Cgroup::open`]: of a container that another engine made. Groups in
/// which the caller is already are left out: its children are in them from birth, and a user may not have the right to
/// move a process there.
///
/// # Errors
/// `/proc` cannot be read.
pub fn record_of(pid: u32) -> Result<String, Error> {
    let dirs = |layout: Layout| {
        let v1 = layout.v1.iter();
        let v1 = v1.map(|hierarchy| GroupPlace::v1(Controllers::NONE, hierarchy.own_dir()));
        let v2 = layout
            .v2
            .iter()
            .map(|hierarchy| GroupPlace::v2(hierarchy.own_dir()));
        v1.chain(v2).collect::<Vec<_>>()
    };
    let mounts = mounts()?;
    let own = dirs(layout_of(std::process::id(), &mounts)?);
    let its = dirs(layout_of(pid, &mounts)?).into_iter();
    Ok(GroupPlace::record(its.filter(|place| !own.contains(place))))
}

/// Returns this process's mounts, through which every process's groups are seen.
fn mounts() -> Result<String, Error> {
    read("/proc/self/mountinfo".to_owned())
}

fn layout_of(pid: u32, mounts: &str) -> Result<Layout, Error> {
    Ok(Layout::parse(&read(format!("/proc/{pid}/cgroup"))?, mounts))
}

fn read(path: String) -> Result<String, Error> {
    crate::file::read_path(&path).map_err(|error| Error::Read {
        path: path.into(),
        source: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_caller_are_left_out() {
        assert_eq!(record_of(std::process::id()).unwrap(), "");
        record_of(u32::MAX >> 2).unwrap_err();
    }
}
