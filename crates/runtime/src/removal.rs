//! Removal of files that a container has written under ids that only its user namespace has.

use crate::{Maps, RuntimeError};
use rustix::fd::AsFd as _;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use tote_sys::{Ancestry, Birth, Child, Endless, Errno, Event, IdMaps, Op, Parcel, Wait, Way, birth};

/// Removes a tree as root of a new user namespace with these maps; without maps, the caller is the only mapped user.
///
/// # Errors
/// [`RuntimeError::Clone`], `ErrandError::Map`, and [`RuntimeError::RemoveTree`]; the rest of the tree stays in
/// its place.
pub fn remove_tree(path: &Path, maps: Option<&Maps>) -> Result<(), RuntimeError> {
    let failed = |source| RuntimeError::RemoveTree {
        path: path.to_owned(),
        source,
    };
    let text = CString::new(path.as_os_str().as_bytes()).map_err(|_| failed(Errno::INVAL))?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let first = match maps {
        Some(_) => Op::Gate,
        None => Op::MapOneId(IdMaps {
            uid: (0, uid.as_raw()),
            gid: (0, gid.as_raw()),
        }),
    };
    let ids = Op::SetIds { uid: 0, gid: 0 };
    let ops = [first, ids, Op::RemoveTree(text), Op::Ready];
    // process: remover of a tree
    let child = birth(&Birth {
        ops: &ops,
        namespaces: rustix::thread::UnshareFlags::NEWUSER.bits().into(),
        ancestry: Ancestry::default(),
        cgroup: None,
        timings: false,
        seal: None,
        parcels: &[],
        way: Way::Copied,
    })
    .map_err(RuntimeError::Clone)?;
    let outcome = watch(&child, maps, &failed);
    let ended = Wait::endless(Endless::Worker).reap(child.pidfd.as_fd());
    outcome.and(ended.map(drop).map_err(RuntimeError::Wait))
}

fn watch(
    child: &Child,
    maps: Option<&Maps>,
    failed: &dyn Fn(Errno) -> RuntimeError,
) -> Result<(), RuntimeError> {
    if let Some(maps) = maps {
        let written = maps.write(child.pid);
        if written.is_err() {
            // Otherwise it would wait for the gate for ever.
            tote_sys::best_effort(rustix::process::pidfd_send_signal(
                &child.pidfd,
                rustix::process::Signal::KILL,
            ));
        }
        written?;
        let nothing = Parcel::default();
        child.open_gate(&nothing).map_err(failed)?;
    }
    match child.event().map_err(RuntimeError::Wait)? {
        Event::Ready => Ok(()),
        Event::Failed { errno, .. } => Err(failed(errno)),
        _ => Err(failed(Errno::CHILD)),
    }
}
