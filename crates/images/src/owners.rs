//! Ids that own the files of images, and the right of a process to give files to them.

use crate::{Caller, Home, ImagesError, subid};
use rustix::fd::AsFd as _;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use std::path::Path;
use tote_runtime::Maps;
use tote_spec::IdMapping;

/// Returns the id maps of a user's containers; `None` unless the user has ranges of ids and the programs that assign
/// them exist. The user's own ids map to `own_uid` and `own_gid` inside.
pub fn ranges(own_uid: u32, own_gid: u32) -> Option<Maps> {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if uid == 0 {
        return nested_ranges(own_uid, own_gid);
    }
    let name = login_name(uid);
    let uid_ranges = subid::parse(&read_or_empty("/etc/subuid"), &name, uid);
    let gid_ranges = subid::parse(&read_or_empty("/etc/subgid"), &name, uid);
    if uid_ranges.is_empty() || gid_ranges.is_empty() || !helpers_exist() {
        return None;
    }
    Some(Maps {
        uid: subid::map(own_uid, uid, &uid_ranges),
        gid: subid::map(own_gid, gid, &gid_ranges),
        privileged: false,
    })
}

/// Returns these maps for a process that has moved to a user namespace with these ranges, where the caller is root.
fn nested_ranges(own_uid: u32, own_gid: u32) -> Option<Maps> {
    let map = |file, own| {
        let ranges = subid::beyond_root(&own_map(file));
        (!ranges.is_empty()).then(|| subid::map(own, 0, &ranges))
    };
    Some(Maps {
        uid: map("uid_map", own_uid)?,
        gid: map("gid_map", own_gid)?,
        privileged: true,
    })
}

/// Returns the ids of a caller as the machine has them, also in a process that has moved to a user namespace.
#[must_use]
pub fn caller_ids(caller: Caller) -> (u32, u32) {
    let (uid, gid) = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let outside = |file, id| {
        let root = IdMapping::outside(&own_map(file), 0);
        root.filter(|_| caller == Caller::User && id == 0).unwrap_or(id)
    };
    (outside("uid_map", uid), outside("gid_map", gid))
}

/// A map of this process's user namespace.
fn own_map(file: &str) -> Vec<IdMapping> {
    IdMapping::read(&read_or_empty(&format!("/proc/self/{file}")))
}

/// True if [`enter_ids`] would change nothing: this process may give files to all owners that images name, or the
/// files all belong to the caller.
pub fn has_ids(home: &Home) -> bool {
    home.caller != Caller::User || rustix::process::geteuid().is_root() || ranges(0, 0).is_none()
}

/// Gives this process the right to files of every id of the caller's ranges, as containers have it. Root has it
/// already, and a user without ranges has one id. Afterwards the process is root of a user namespace of its own. The
/// process must have one thread.
///
/// # Errors
/// [`ImagesError::Owners`] of newuidmap(1), and [`ImagesError::Kernel`].
pub fn enter_ids(home: &Home) -> Result<(), ImagesError> {
    let Some(maps) = (home.caller == Caller::User).then(|| ranges(0, 0)).flatten() else {
        return Ok(());
    };
    let namespace = tote_runtime::user_namespace(&maps)?;
    move_into_thread_name_spaces(namespace.as_fd(), ThreadNameSpaceType::USER).map_err(|source| {
        ImagesError::Kernel {
            attempt: "enter a user namespace for the image's owners",
            source,
        }
    })
}

/// Moves this process into a user namespace with a single id, the caller's, as its root.
///
/// # Errors
/// [`ImagesError::Kernel`].
pub fn enter_one_id() -> Result<(), ImagesError> {
    let failed = |source| ImagesError::Kernel {
        attempt: "enter a user namespace",
        source,
    };
    let namespace = tote_sys::user_namespace(0).map_err(failed)?;
    move_into_thread_name_spaces(namespace.as_fd(), ThreadNameSpaceType::USER).map_err(failed)
}

/// True if this process's user namespace has more than one user id, so that files can belong to several.
#[must_use]
pub fn has_many_ids() -> bool {
    let map = read_or_empty("/proc/self/uid_map");
    !matches!(map.split_whitespace().collect::<Vec<_>>()[..], [_, _, "1"])
}

fn read_or_empty(path: &str) -> String {
    // absence: a name that is not found has no range, and one id is not taken for many where ranges are needed
    std::fs::read_to_string(path).unwrap_or_default()
}

fn login_name(uid: u32) -> String {
    let passwd = read_or_empty("/etc/passwd");
    let uid = uid.to_string();
    passwd
        .lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == uid).then(|| name.to_owned())
        })
        .unwrap_or_default()
}

fn is_file(path: &Path) -> bool {
    // absence: a program that is not found is named by the error of what needs it
    std::fs::metadata(path).is_ok_and(|found| found.is_file())
}

fn helpers_exist() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    ["newuidmap", "newgidmap"]
        .iter()
        .all(|name| std::env::split_paths(&path).any(|dir| is_file(&dir.join(name))))
}
