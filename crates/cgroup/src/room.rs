//! Room in a delegated cgroup: its processes are moved down into a leaf, so that it can hand out controllers.

use crate::Layout;
use crate::error::Error;
use crate::file;
use rustix::fd::AsFd as _;
use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;

/// Name of the leaf, as podman's.
const LEAF: &str = "supervisor";

/// Moves the calling process down into a leaf of its own v2 cgroup if it is alone there: groups made afterwards then
/// have that cgroup for their parent, and lie within the delegated part. Without v2, or beside other processes, it
/// does nothing. True if the process was moved; a layout read before is outdated then.
///
/// # Errors
/// The cgroup was not delegated, or cannot be written to.
pub fn make_room(layout: &Layout, pid: u32) -> Result<bool, Error> {
    let Some(hierarchy) = layout.v2.as_ref().filter(|_| layout.v1.is_empty()) else {
        return Ok(false);
    };
    let own = hierarchy.own_dir();
    // The root of a hierarchy needs no room, and a leaf has some above it.
    if own == hierarchy.mount_point || own.ends_with(LEAF) {
        return Ok(false);
    }
    let fail = |source| Error::Read {
        path: own.clone(),
        source,
    };
    let dir = file::open_dir(&own).map_err(fail)?;
    let there = file::read_at(dir.as_fd(), "cgroup.procs").map_err(fail)?;
    if there.split_whitespace().any(|other| other != pid.to_string()) {
        return Ok(false);
    }
    let path = own.join(LEAF);
    let fail = |source| Error::Room {
        path: path.clone(),
        source,
    };
    match mkdirat(&dir, LEAF, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(fail(errno)),
    }
    let leaf = file::open_dir(&path).map_err(fail)?;
    file::write_at(leaf.as_fd(), "cgroup.procs", b"0").map_err(fail)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn layout(root: &std::path::Path, own: &str) -> Layout {
        let mountinfo = format!("30 20 0:26 / {} rw - cgroup2 cgroup2 rw", root.display());
        Layout::parse(&format!("0::/{own}\n"), &mountinfo)
    }

    #[test]
    fn whoever_is_alone_goes_down() {
        let root = tempfile::tempdir().unwrap();
        let unit = root.path().join("system.slice/web.service");
        let leaf = unit.join(LEAF);
        fs::create_dir_all(&leaf).unwrap();
        fs::write(unit.join("cgroup.procs"), "41\n").unwrap();
        fs::write(leaf.join("cgroup.procs"), "").unwrap();
        let at = |own| layout(root.path(), own);
        assert!(make_room(&at("system.slice/web.service"), 41).unwrap());
        assert_eq!(fs::read_to_string(leaf.join("cgroup.procs")).unwrap(), "0");
        assert!(!make_room(&at("system.slice/web.service/supervisor"), 41).unwrap());
        assert!(!make_room(&at(""), 41).unwrap());
        fs::write(unit.join("cgroup.procs"), "41\n42\n").unwrap();
        assert!(!make_room(&at("system.slice/web.service"), 41).unwrap());
        assert!(!make_room(&Layout::default(), 41).unwrap());
    }

    #[test]
    fn what_was_not_delegated() {
        let root = tempfile::tempdir().unwrap();
        let unit = root.path().join("web.service");
        fs::create_dir_all(&unit).unwrap();
        fs::write(unit.join("cgroup.procs"), "41\n").unwrap();
        // A kernel would have made the file with the directory.
        let error = make_room(&layout(root.path(), "web.service"), 41).unwrap_err();
        assert!(error.to_string().contains("web.service/supervisor"), "{error}");
    }
}
