//! Files of the container's own whose places lie below a mount of the options.
//!
//! Written there they would be the host's: `-v /etc:/etc` would give the host another name. So such a file is written
//! into the container's directory and bound over its place, as docker does it.

use crate::files::Files;
use crate::network::Endpoint;
use crate::peer::Peers;
use crate::user::{Ids, root_outside};
use crate::{EngineError, Home};
use rustix::fd::AsRawFd as _;
use rustix::fs::{Mode, Uid};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use tote_bundle::{ContainerId, RunOptions};
use tote_spec::{Mount, Spec};

/// The directory of these files in the container's.
const OWN: &str = "own";

/// The files of the container's own that are to be written into its root. For each of those that lie below a mount the
/// spec gets a bind mount instead. A file is left out altogether where the mount has nothing at its place and is a
/// directory of the host: nothing may appear there.
///
/// # Errors
/// [`EngineError::State`], and [`EngineError::State`] of a time zone that the host has not.
pub fn files(
    home: &Home,
    (id, ids): (&ContainerId, &Ids),
    spec: &mut Spec,
    (options, peers, endpoints): (&RunOptions, &Peers, &[Endpoint]),
    dry: bool,
) -> Result<Files, EngineError> {
    let dir = home.container(id).join(OWN);
    let (mut files, mut mounts) = (Vec::new(), Vec::new());
    let mounted = |path: &str| spec.mounts.iter().any(|mount| mount.destination[1..] == *path);
    let mut callers = ids.caller.files(home, id);
    callers.retain(|(path, ..)| !mounted(path));
    for file in crate::spec::files((spec, home.caller), options, peers, endpoints)?
        .into_iter()
        .chain(callers)
    {
        let place = Path::new("/").join(file.0);
        let Some(below) = spec.mounts.iter().rfind(|mount| covers(mount, &place)) else {
            files.push(file);
            continue;
        };
        if !takes(home, id, below, &place) {
            continue;
        }
        let (_, mode, content) = file;
        let source = dir.join(place.file_name().unwrap_or_default());
        if !dry {
            let owner = root_outside(home.caller, ids);
            write(&source, mode, &content, owner).map_err(EngineError::file("write", &source))?;
        }
        let read_only = spec.root.as_ref().is_some_and(|root| root.readonly);
        mounts.push(mount(&source, &place, read_only));
    }
    spec.mounts.extend(mounts);
    Ok(files)
}

fn covers(mount: &Mount, place: &Path) -> bool {
    place != Path::new(&mount.destination) && place.starts_with(&mount.destination)
}

/// Whether there is a file to mount over, or one may be made: in memory, or in a volume.
fn takes(home: &Home, id: &ContainerId, below: &Mount, place: &Path) -> bool {
    let source = match (below.kind.as_deref(), &below.source) {
        (Some("tmpfs"), _) => return true,
        (Some("bind"), Some(source)) => Path::new(source),
        _ => return false,
    };
    let Ok(rest) = place.strip_prefix(&below.destination) else {
        return false;
    };
    let opened = below.subpath.as_deref();
    let opened = opened.map(|subpath| crate::volume::subpath::open(source, subpath));
    let directory = match &opened {
        Some(Ok(opened)) => PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd())),
        Some(Err(_)) => return false,
        None => source.to_owned(),
    };
    match directory.join(rest).symlink_metadata() {
        Ok(found) => found.is_file(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let is_volume = source.starts_with(home.volumes()) || source.starts_with(home.container(id));
            let read_only = |option: &String| matches!(option.as_str(), "ro" | "rro");
            is_volume && !below.options.iter().any(read_only)
        }
        // A caller who may not look there must not mount there either.
        Err(_) => false,
    }
}

fn mount(source: &Path, place: &Path, read_only: bool) -> Mount {
    let access = if read_only { "ro" } else { "rw" };
    Mount {
        destination: place.display().to_string(),
        kind: Some("bind".to_owned()),
        source: Some(source.display().to_string()),
        options: ["bind", "rprivate", access].map(str::to_owned).to_vec(),
        ..Mount::default()
    }
}

/// Writes a file whole, with that mode and owner, and makes the directories that it is in.
fn write(path: &Path, mode: u32, content: &[u8], owner: Option<u32>) -> std::io::Result<()> {
    // A container that leaves nothing has no directory yet.
    let dir = path.parent().unwrap_or(path);
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(mode);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    if let Some(owner) = owner {
        rustix::fs::fchown(&file, Some(Uid::from_raw(owner)), None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Directories of the host get no file; volumes, and what is in memory, do.
    #[test]
    fn where_a_file_may_be_bound() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(&dir.path().join("root"))).unwrap();
        let id = ContainerId::from_bytes([7; 32]);
        let (theirs, volume) = (dir.path().join("theirs"), home.volumes().join("v/_data"));
        for path in [&theirs, &volume] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(theirs.join("hosts"), "of the host\n").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", theirs.join("resolv.conf")).unwrap();
        let mount = |kind: &str, source: &Path, options: &[&str]| Mount {
            destination: "/etc".to_owned(),
            kind: Some(kind.to_owned()),
            source: Some(source.display().to_string()),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            ..Mount::default()
        };
        for (below, name, expected) in [
            (mount("bind", &theirs, &["rbind"]), "hosts", true),
            (mount("bind", &theirs, &["rbind", "rro"]), "hosts", true),
            (mount("bind", &theirs, &["rbind"]), "hostname", false),
            (mount("bind", &theirs, &["rbind"]), "resolv.conf", false),
            (mount("bind", &volume, &["rbind"]), "hosts", true),
            (mount("bind", &volume, &["rbind", "rro"]), "hosts", false),
            (mount("tmpfs", Path::new("tmpfs"), &[]), "hosts", true),
        ] {
            let place = Path::new("/etc").join(name);
            assert!(covers(&below, &place));
            assert_eq!(takes(&home, &id, &below, &place), expected, "{below:?} {name}");
        }
        let itself = Path::new("/etc");
        assert!(!covers(&mount("bind", &theirs, &[]), itself));
    }
}
