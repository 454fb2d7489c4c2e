//! Where tote keeps what it must remember.
//!
//! ```text
//! ROOT/                     /var/lib/tote, or $XDG_DATA_HOME/tote for a user; `--root` says otherwise
//! ├── mnt/                  an empty directory: each container's mount namespace puts its root here
//! ├── host/                 skeletons of the `host` image (rootfs crate)
//! ├── store/                images (store crate)
//! ├── live/NAME.network     an empty file: that network is up
//! ├── live/ID               one file for each container that somebody works on or watches, locked as long as that lives;
//! │                         of a container of `run --rm` in the foreground also what is in the two records below
//! ├── names/NAME            a symbolic link whose text is the id in base 64: its creation is what makes a name unique
//! ├── containers/ID/        a container that was created
//! │   ├── container.json    what was asked for
//! │   ├── state.json        what it is
//! │   ├── config.json       the spec of its last start
//! │   ├── notify/run/       the socket that its program tells the host's init by (sd_notify)
//! │   ├── removing          an empty file: its removal has begun
//! │   ├── copying           an empty file, locked by a `cp` as long as that has it mounted
//! │   └── upper/ work/      what it wrote
//! ├── events                what happened, a line of JSON each; events.1 is the one before
//! ├── build/                made by the first build
//! │   ├── cache/KEY         the configuration of the image that a step made, as JSON
//! │   ├── hashes/KEY        what files of a context hashed to, with the states that they were in
//! │   ├── kept/ID           an empty file: this image is there only for builds to go on from
//! │   ├── mounts/KEY/       directories of RUN --mount=type=cache
//! │   └── work/ID/          what a build that goes on has made; locked as long as it does
//! ├── pools/NAME/           sandboxes that wait for a program; see `pool`
//! ├── networks/             made by the first network; `.lock` is held while one changes, `.forwarding` names changed settings
//! │   └── NAME/             `network.json`, and in `leases/` a link for each address, whose text is the container
//! └── volumes/NAME/         a volume: its files in `_data/`; `volume.json` where more is known of it than its name
//! ```
//! ROOT is 0700, so that no other user reaches anything below it by whatever name; every directory in it is 0700 and every
//! file 0600 as well, but for what a container sees: the tops of `upper`, of `_data` and of the like, and all below them.
//!
//! Every name is a function of the id, so whatever a killed command left can be found and removed: an unlocked file in
//! `live/` says that there is something to look for. Files come by
//! rename(2); only a locked one in `live/` is written in place.

use crate::config::{self, StorageConfig};
use crate::{StateError, closed};
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tote_bundle::{ContainerId, Name};
use tote_store::ShareHost;
use tote_sys::Errno;

/// The permissions of everybody but a file's owner.
const OTHERS: u32 = 0o077;

/// What may be in a directory that becomes a state root: what a command that was killed has made there, and what every
/// new ext4 has.
const NAMES: [&str; 7] = [
    "lost+found",
    "mnt",
    "host",
    "live",
    "names",
    "containers",
    "volumes",
];

/// Who runs tote, as far as the kernel cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Root of the machine.
    Root,
    /// Root of a user namespace, a container perhaps.
    NestedRoot,
    /// Anybody else.
    User,
}

/// The state root.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
    /// Who runs tote.
    pub caller: Caller,
    /// What new images share with the host, if that was said.
    share_host: Option<ShareHost>,
    /// What the configuration says of storage, once somebody has asked.
    storage: OnceLock<StorageConfig>,
}

/// Whether there is a directory at that path. One that cannot be looked at counts as missing: making it says why.
fn is_directory(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_dir())
}

impl Home {
    /// Finds the state root, closes it to other users, and makes what is missing of it.
    ///
    /// # Errors
    /// [`StateError::Home`] when it cannot be made or closed, [`StateError::HomeOwner`] and [`StateError::HomeInUse`]
    /// for a directory that is there and is something else.
    pub fn open(root: Option<&Path>) -> Result<Self, StateError> {
        let caller = caller();
        let root = match root {
            Some(root) => std::path::absolute(root).map_err(|source| StateError::Home {
                attempt: "find",
                path: root.to_owned(),
                source,
            })?,
            None => default_root(caller)?,
        };
        let home = Self {
            root,
            caller,
            share_host: None,
            storage: OnceLock::new(),
        };
        // Two looks on the usual path: `volumes` is the last directory that is made, so it says that all are there.
        let own = rustix::process::geteuid().as_raw();
        let is_closed =
            std::fs::metadata(&home.root).is_ok_and(|found| found.mode() & OTHERS == 0 && found.uid() == own);
        if !is_closed || !is_directory(&home.volumes()) {
            home.make()?;
        }
        Ok(home)
    }

    /// Closes the state root, also one that an older version has made, and makes what is missing in it.
    fn make(&self) -> Result<(), StateError> {
        let fail = |attempt, path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Home {
                attempt,
                path,
                source,
            }
        };
        if let Some(parent) = self.root.parent() {
            let mut parents = std::fs::DirBuilder::new();
            let made = parents.recursive(true).mode(0o755).create(parent);
            made.map_err(fail("make", &self.root))?;
        }
        closed::directory(&self.root).map_err(fail("make", &self.root))?;
        let dir = std::fs::File::open(&self.root).map_err(fail("open", &self.root))?;
        let found = dir.metadata().map_err(fail("look at", &self.root))?;
        self.belongs_to_caller(&found)?;
        let is_complete = self.has_state() && self.root.parent().is_some();
        if !is_complete {
            self.may_become_state_root()?;
        }
        if found.mode() & OTHERS != 0 {
            let mode = std::fs::Permissions::from_mode(0o700);
            match dir.set_permissions(mode) {
                // Nothing can be written there either; a list of what is there may still be wanted.
                Err(error) if is_complete && error.kind() == ErrorKind::ReadOnlyFilesystem => {}
                set => set.map_err(fail("close to other users", &self.root))?,
            }
        }
        for path in [
            self.attach_point(),
            self.host_images(),
            self.live(),
            self.names(),
            self.containers(),
            self.volumes(),
        ] {
            closed::directory(&path).map_err(fail("make", &path))?;
        }
        Ok(())
    }

    /// Whether it is a state root by now.
    fn has_state(&self) -> bool {
        is_directory(&self.live()) && is_directory(&self.names())
    }

    /// Refuses a directory that is somebody else's, also a state root: its owner decides what its records say, and the
    /// caller would start what they describe with the caller's rights.
    fn belongs_to_caller(&self, found: &std::fs::Metadata) -> Result<(), StateError> {
        if found.uid() == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        Err(StateError::HomeOwner {
            path: self.root.clone(),
            uid: found.uid(),
        })
    }

    /// Refuses a directory that has files which are not tote's: closing `/tmp` or a home directory to everybody else would
    /// break more than it protects.
    fn may_become_state_root(&self) -> Result<(), StateError> {
        let path = || self.root.clone();
        let entries = std::fs::read_dir(&self.root).map_err(|source| StateError::Home {
            attempt: "list",
            path: path(),
            source,
        })?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            if !name.to_str().is_some_and(|name| NAMES.contains(&name)) {
                // Another command has just made it one, and goes on with its work.
                if self.has_state() {
                    return Ok(());
                }
                let (path, name) = (path(), name.display().to_string());
                return Err(StateError::HomeInUse { path, name });
            }
        }
        Ok(())
    }

    /// Sets what new images share with the host's `/usr`: `reflink`, `hardlink` or `never`.
    ///
    /// # Errors
    /// [`StateError::ShareHost`] for another word.
    pub fn share_host(&mut self, how: &str) -> Result<(), StateError> {
        let known = config::share_host(how);
        self.share_host = Some(known.ok_or_else(|| StateError::ShareHost(how.to_owned()))?);
        Ok(())
    }

    /// What new images share with the host: what was said, or else is configured.
    ///
    /// # Errors
    /// As [`Home::storage_config`].
    pub fn shared_with_host(&self) -> Result<ShareHost, StateError> {
        match self.share_host {
            Some(said) => Ok(said),
            None => Ok(self.storage_config()?.share_host.unwrap_or_default()),
        }
    }

    /// The configuration of storage, read once.
    ///
    /// # Errors
    /// [`StateError::Config`] and [`StateError::File`].
    pub fn storage_config(&self) -> Result<&StorageConfig, StateError> {
        if let Some(known) = self.storage.get() {
            return Ok(known);
        }
        let read = StorageConfig::read()?;
        Ok(self.storage.get_or_init(|| read))
    }

    /// Whether it is where this caller's is, unless somebody says otherwise.
    #[must_use]
    pub fn is_default(&self) -> bool {
        default_root(self.caller).is_ok_and(|usual| usual == self.root)
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a mount namespace puts its root.
    #[must_use]
    pub fn attach_point(&self) -> PathBuf {
        self.root.join("mnt")
    }

    /// Skeletons of the `host` image.
    #[must_use]
    pub fn host_images(&self) -> PathBuf {
        self.root.join("host")
    }

    /// Files of containers being worked on.
    #[must_use]
    pub fn live(&self) -> PathBuf {
        self.root.join("live")
    }

    /// Links from names to ids.
    #[must_use]
    pub fn names(&self) -> PathBuf {
        self.root.join("names")
    }

    /// Directories of containers.
    #[must_use]
    pub fn containers(&self) -> PathBuf {
        self.root.join("containers")
    }

    /// One of them.
    #[must_use]
    pub fn container(&self, id: &ContainerId) -> PathBuf {
        self.containers().join(id.as_str())
    }

    /// Directories of pods; made with the first one.
    #[must_use]
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// One of them.
    #[must_use]
    pub fn pod(&self, id: &ContainerId) -> PathBuf {
        self.pods().join(id.as_str())
    }

    /// What happened.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.root.join("events")
    }

    /// Images; the store makes it when there is one.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// What storage drivers make once for an image.
    #[must_use]
    pub fn templates(&self) -> PathBuf {
        self.root.join("templates")
    }

    /// What builds remember, and where they work.
    #[must_use]
    pub fn builds(&self) -> PathBuf {
        self.root.join("build")
    }

    /// Pools; made by the first one.
    #[must_use]
    pub fn networks(&self) -> PathBuf {
        self.root.join("networks")
    }

    /// Pools.
    #[must_use]
    pub fn pools(&self) -> PathBuf {
        self.root.join("pools")
    }

    /// One of them.
    #[must_use]
    pub fn pool(&self, name: &Name) -> PathBuf {
        self.pools().join(name.as_str())
    }

    /// Named volumes.
    #[must_use]
    pub fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }
}

fn caller() -> Caller {
    if !rustix::process::geteuid().is_root() {
        return Caller::User;
    }
    // The first user namespace maps every id to itself; any other has a shorter or shifted map.
    let mut room = [0; 64];
    match begin_of(c"/proc/self/uid_map", &mut room) {
        Ok(map) if !map.split_ascii_whitespace().eq(["0", "0", "4294967295"]) => Caller::NestedRoot,
        _ => Caller::Root,
    }
}

/// What one read(2) gives of a short file.
fn begin_of<'a>(path: &CStr, room: &'a mut [u8]) -> Result<&'a str, Errno> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::io::read(file, &mut *room)?;
    std::str::from_utf8(&room[..length]).map_err(|_| Errno::INVAL)
}

fn default_root(caller: Caller) -> Result<PathBuf, StateError> {
    if caller != Caller::User {
        return Ok(PathBuf::from("/var/lib/tote"));
    }
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("tote"))
        .ok_or(StateError::NoHome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        let file = std::fs::File::open(path).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(mode))
            .unwrap();
    }

    #[test]
    fn a_state_root_is_closed_also_an_older_one() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("not/there");
        let home = Home::open(Some(&root)).unwrap();
        for dir in ["", "mnt", "host", "live", "names", "containers", "volumes"] {
            assert_eq!(mode(&root.join(dir)), 0o700, "{dir}");
        }
        assert_ne!(mode(&temp.path().join("not")) & 0o700, 0);
        for older in [0o711, 0o755, 0o777, 0o710] {
            set_mode(&root, older);
            std::fs::write(home.root().join("file of somebody's"), "").unwrap();
            Home::open(Some(&root)).unwrap();
            assert_eq!(mode(&root), 0o700, "{older:o}");
        }
    }

    #[test]
    fn what_is_something_else_becomes_no_state_root() {
        let temp = tempfile::tempdir().unwrap();
        set_mode(temp.path(), 0o755);
        std::fs::create_dir(temp.path().join("lost+found")).unwrap();
        std::fs::create_dir(temp.path().join("host")).unwrap();
        std::fs::create_dir(temp.path().join("etc")).unwrap();
        let refused = Home::open(Some(temp.path())).unwrap_err();
        assert!(matches!(&refused, StateError::HomeInUse { name, .. } if name == "etc"));
        assert_eq!(mode(temp.path()), 0o755);
        std::fs::remove_dir(temp.path().join("etc")).unwrap();
        Home::open(Some(temp.path())).unwrap();
        assert_eq!(mode(temp.path()), 0o700);
    }
}
