//! Present group of a process, for another process that has to be beside it.

use crate::error::Error;
use crate::layout::STANDARD;
use crate::place::GroupPlace;
use crate::{Cgroup, Controllers, Layout};
use std::path::Path;

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
    let (own, its) = both(pid)?;
    let (own, its) = (dirs(own), dirs(its).into_iter());
    Ok(GroupPlace::record(its.filter(|place| !own.contains(place))))
}

/// Returns the layouts of this process and of another one, without the list of this process's mounts where cgroups are in the usual
/// place: the kernel takes longer to write that list than to look at twenty directories.
fn both(pid: u32) -> Result<(Layout, Layout), Error> {
    let (own, its) = (groups_of(std::process::id())?, groups_of(pid)?);
    if let Some(layouts) = usual(&own).and_then(|layout| Some((layout, usual(&its)?))) {
        return Ok(layouts);
    }
    let mounts = mounts()?;
    Ok((Layout::parse(&own, &mounts), Layout::parse(&its, &mounts)))
}

fn usual(groups: &str) -> Option<Layout> {
    Layout::standard(groups, Path::new(STANDARD))
}

/// Returns this process's mounts, through which every process's groups are seen.
fn mounts() -> Result<String, Error> {
    read("/proc/self/mountinfo".to_owned())
}

fn layout_of(pid: u32, mounts: &str) -> Result<Layout, Error> {
    Ok(Layout::parse(&groups_of(pid)?, mounts))
}

fn groups_of(pid: u32) -> Result<String, Error> {
    read(format!("/proc/{pid}/cgroup"))
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
    fn both_ways_find_the_same_groups() {
        let mounts = mounts().unwrap();
        for pid in [1, std::process::id()] {
            let (own, its) = both(pid).unwrap();
            assert_eq!(own, layout_of(std::process::id(), &mounts).unwrap());
            assert_eq!(its, layout_of(pid, &mounts).unwrap(), "{pid}");
        }
    }

    #[test]
    fn groups_of_the_caller_are_left_out() {
        assert_eq!(record_of(std::process::id()).unwrap(), "");
        record_of(u32::MAX >> 2).unwrap_err();
    }
}
