//! Files of the host that are to belong to a user of a container.

use crate::apart::among_owners;
use crate::user::Ids;
use crate::{Caller, EngineError, Home};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tote_sandbox::MapOrigin;
use tote_spec::IdMapping;

/// File that could not be given, and the reason.
type Failed = (PathBuf, std::io::Error);

/// Returns a user and a group of the container as this process knows them; `None` if the container does not have them.
pub fn outside(ids: &Ids, (uid, gid): (u32, u32)) -> Option<(u32, u32)> {
    match (&ids.maps, &ids.mapping) {
        (Some(maps), _) => IdMapping::outside(&maps.uid, uid).zip(IdMapping::outside(&maps.gid, gid)),
        (None, MapOrigin::Own(maps)) => {
            ((maps.uid.0, maps.gid.0) == (uid, gid)).then_some((maps.uid.1, maps.gid.1))
        }
        (None, _) => Some((uid, gid)),
    }
}

/// Gives a file, or a tree of files, to its new owner, by ids as this process knows them.
///
/// # Errors
/// What `fault` makes of the file that could not be given; those of a process among the owners.
pub fn give(
    home: &Home,
    source: &Path,
    owner: (u32, u32),
    fault: impl Fn(PathBuf, std::io::Error) -> EngineError,
) -> Result<(), EngineError> {
    let give = |owner| give_here(source, owner).map_err(|(path, source)| fault(path, source));
    if home.caller != Caller::User {
        return give(owner);
    }
    // A tree that is the user's already needs no process that could give it.
    if is_given(source, owner) {
        return Ok(());
    }
    let inside = tote_images::ranges(0, 0)
        .and_then(|maps| IdMapping::inside(&maps.uid, owner.0).zip(IdMapping::inside(&maps.gid, owner.1)));
    among_owners(home, || give(inside.unwrap_or(owner)).map(|()| Vec::new())).map(drop)
}

/// True if this caller can see that every file has that owner.
fn is_given(source: &Path, owner: (u32, u32)) -> bool {
    let mut all = true;
    let seen = each(source, &mut |dir, name, flags| {
        let stat = rustix::fs::statat(dir, name, flags)?;
        all &= (stat.st_uid, stat.st_gid) == owner;
        Ok(())
    });
    seen.is_ok() && all
}

/// Gives each file of a tree to its new owner; files that have the owner stay untouched, with their set-user-ID bits.
fn give_here(source: &Path, (uid, gid): (u32, u32)) -> Result<(), Failed> {
    each(source, &mut |dir, name, flags| {
        let stat = rustix::fs::statat(dir, name, flags)?;
        if (stat.st_uid, stat.st_gid) == (uid, gid) {
            return Ok(());
        }
        rustix::fs::chownat(
            dir,
            name,
            Some(Uid::from_raw(uid)),
            Some(Gid::from_raw(gid)),
            flags,
        )
    })
}

/// Visitor of a file: directory, name in it, flags under which the name is that file and no other.
type Visit<'a> = dyn FnMut(&OwnedFd, &Path, AtFlags) -> Result<(), Errno> + 'a;

/// Visits a tree, each directory before its files. No link is followed: containers write to the tree meanwhile.
fn each(source: &Path, visit: &mut Visit<'_>) -> Result<(), Failed> {
    let failed = |path: &Path, errno: Errno| -> Failed { (path.to_owned(), errno.into()) };
    // The source itself may be a link, as for the mount.
    let top = rustix::fs::openat(CWD, source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| failed(source, errno))?;
    visit(&top, Path::new(""), AtFlags::EMPTY_PATH).map_err(|errno| failed(source, errno))?;
    let mut above = Vec::new();
    let mut path = source.to_owned();
    match list(&top, Path::new(".")) {
        Ok(opened) => above.push(opened),
        Err(Errno::NOTDIR) => return Ok(()),
        Err(errno) => return Err(failed(source, errno)),
    }
    while let Some((dir, entries)) = above.last_mut() {
        let Some(entry) = entries.read() else {
            above.pop();
            path.pop();
            continue;
        };
        let entry = entry.map_err(|errno| failed(&path, errno))?;
        let name = Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
        if matches!(name.as_os_str().as_bytes(), b"." | b"..") {
            continue;
        }
        match visit(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            // It was removed meanwhile.
            Err(Errno::NOENT) => continue,
            visited => visited.map_err(|errno| failed(&path.join(name), errno))?,
        }
        if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            match list(dir, name) {
                Ok(opened) => {
                    path.push(name);
                    above.push(opened);
                }
                Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
                Err(errno) => return Err(failed(&path.join(name), errno)),
            }
        }
    }
    Ok(())
}

/// Opens a directory and its list.
fn list(dir: impl AsFd, name: &Path) -> Result<(OwnedFd, Dir), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let entries = Dir::read_from(&opened)?;
    Ok((opened, entries))
}
