//! `-v …:U` and `-v …:O`: files that become the container's user's, and writes that stay apart from the files.

use super::place::{anonymous_name, failed, make};
use super::{TreatmentFault, VolumeFault};
use crate::apart::among_owners;
use crate::user::Ids;
use crate::{Caller, EngineError, Home, owner};
use rustix::fs::{Gid, Mode, Uid};
use rustix::io::Errno;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tote_bundle::{ContainerId, RunOptions, Treatment};
use tote_rootfs::escape_overlay;
use tote_sandbox::MapOrigin;
use tote_spec::{Mount, Spec};
use tote_state::closed;
use tote_sys::visible;

/// Directories of the machine, whose files never change their owner as a whole; podman's list.
const MACHINES: [&str; 24] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/etc/pki",
    "/home",
    "/lib",
    "/lib64",
    "/media",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/spool",
];

/// Treats the files of mounts as the options ask, before a container starts: gives them to its user, or puts an empty
/// layer above them.
///
/// # Errors
/// [`TreatmentFault`].
pub fn treat(
    home: &Home,
    id: &ContainerId,
    (options, ids): (&RunOptions, &Ids),
    spec: &mut Spec,
) -> Result<(), EngineError> {
    for request in &options.mounts {
        let destination = &request.destination;
        let Some(mount) = spec
            .mounts
            .iter_mut()
            .find(|mount| mount.destination == *destination)
        else {
            continue;
        };
        match request.treatment {
            Treatment::Shared => {}
            Treatment::Chowned => {
                // A file system that is mounted for the container alone is not there yet.
                if let Some(source) = bound(mount) {
                    chown(home, ids, Path::new(source))?;
                }
            }
            Treatment::Overlaid => overlay(home, id, ids, mount)?,
        }
    }
    Ok(())
}

/// Returns the source of a bind mount.
fn bound(mount: &Mount) -> Option<&str> {
    let is_bind = mount.kind.as_deref().is_none_or(|kind| kind == "bind");
    mount.source.as_deref().filter(|_| is_bind)
}

/// Gives a tree to the user of the container.
fn chown(home: &Home, ids: &Ids, source: &Path) -> Result<(), EngineError> {
    let (uid, gid) = (ids.user.uid, ids.user.gid);
    let no_id = || {
        let path = source.display().to_string();
        VolumeFault::from(TreatmentFault::NoId { path, uid, gid })
    };
    let owner = owner::outside(ids, (uid, gid)).ok_or_else(no_id)?;
    let looked = |errno| {
        let (path, source) = (source.to_owned(), errno);
        VolumeFault::from(TreatmentFault::Chown { path, source })
    };
    if let Some(path) = machines(source).map_err(looked)? {
        let (uid, gid) = owner;
        return Err(VolumeFault::from(TreatmentFault::Machines { path, uid, gid }).into());
    }
    owner::give(home, source, owner, |path, source| {
        VolumeFault::from(TreatmentFault::Chown { path, source }).into()
    })
}

/// Returns the directory if it is the machine's or the caller's home, wherever links lead to it.
///
/// # Errors
/// Those of stat(2): what cannot be looked at may be the machine's.
fn machines(source: &Path) -> std::io::Result<Option<String>> {
    let inode = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let found = inode(source)?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    for machines in MACHINES.into_iter().map(PathBuf::from).chain(home) {
        if visible(inode(&machines))? == Some(found) {
            return Ok(Some(machines.display().to_string()));
        }
    }
    Ok(None)
}

/// Puts an empty layer above the source of a mount. What the container wrote before its last end is gone.
fn overlay(home: &Home, id: &ContainerId, ids: &Ids, mount: &mut Mount) -> Result<(), EngineError> {
    let refused = |path: &str, why| {
        let path = path.to_owned();
        VolumeFault::from(TreatmentFault::Overlay { path, why })
    };
    let Some(source) = bound(mount).map(ToOwned::to_owned) else {
        let why = "each container mounts this volume for itself: leave out O";
        return Err(refused(&mount.destination, why).into());
    };
    let found = std::fs::metadata(&source).map_err(layer(Path::new(&source)))?;
    if !found.is_dir() {
        return Err(refused(
            &source,
            "an overlay needs a directory: copy the file with 'tote cp', or mount it with ro",
        )
        .into());
    }
    let name = format!("overlay-{}", &anonymous_name(id, &mount.destination)[..12]);
    let place = home.container(id).join(name);
    crate::tree::remove_at(home, &place)?;
    closed::directory(&home.container(id)).map_err(failed(&place))?;
    let (upper, work) = (place.join("upper"), place.join("work"));
    make(&upper)?;
    make(&work)?;
    // The root of the overlay is as its upper layer has it.
    let mode = found.mode() & 0o7777;
    let owner = (found.uid(), found.gid());
    adopt(home, Path::new(&source), (&upper, owner, mode))?;
    let text = |path: &Path| String::from_utf8_lossy(&escape_overlay(path).into_vec()).into_owned();
    let kept = |option: &&String| matches!(option.as_str(), "noexec" | "nosuid" | "ro");
    let mut options: Vec<String> = mount.options.iter().filter(kept).cloned().collect();
    if mount.options.iter().any(|option| option == "rro") {
        options.push("ro".to_owned());
    }
    options.push(format!("lowerdir={}", text(Path::new(&source))));
    options.push(format!("upperdir={}", text(&upper)));
    options.push(format!("workdir={}", text(&work)));
    if home.caller != Caller::Root || !matches!(ids.mapping, MapOrigin::None) {
        // The overlay's own marks are attributes that only root of the machine may set otherwise.
        options.push("userxattr".to_owned());
    }
    mount.kind = Some("overlay".to_owned());
    mount.source = Some("overlay".to_owned());
    mount.options = options;
    Ok(())
}

/// Gives a layer the owner and the mode of the directory below it.
fn adopt(
    home: &Home,
    below: &Path,
    (upper, owner, mode): (&Path, (u32, u32), u32),
) -> Result<(), EngineError> {
    let own = std::fs::metadata(upper).map_err(layer(upper))?;
    let is_own = (own.uid(), own.gid()) == owner;
    if !is_own && home.caller == Caller::User {
        among_owners(home, || {
            let found = std::fs::metadata(below).map_err(layer(below))?;
            give_layer(upper, (found.uid(), found.gid()), mode)?;
            Ok(Vec::new())
        })?;
        return Ok(());
    }
    Ok(give_layer(upper, owner, mode)?)
}

fn give_layer(upper: &Path, (uid, gid): (u32, u32), mode: u32) -> Result<(), VolumeFault> {
    let given = rustix::fs::chown(upper, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    match given {
        // The container does not have the owner's id, and shows the directory as that of an overflow id.
        Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
        Err(errno) => return Err(layer(upper)(errno.into())),
    }
    rustix::fs::chmod(upper, Mode::from_raw_mode(mode)).map_err(|errno| layer(upper)(errno.into()))
}

fn layer(path: &Path) -> impl FnOnce(std::io::Error) -> VolumeFault {
    let path = path.to_owned();
    move |source| TreatmentFault::Layer { path, source }.into()
}
