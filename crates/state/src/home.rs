//! The state root: the place of everything that tote keeps.
//!
//! ```text
//! ROOT/                     /var/lib/tote, or $XDG_DATA_HOME/tote for a user; `--root` says otherwise
//! ├── mnt/                  an empty directory: each container's mount namespace puts its root here
//! ├── host/                 skeletons of the `host` image (rootfs crate)
//! ├── store/                images (store crate)
//! ├── live/NAME.network     an empty file that exists while that network is up
//! ├── live/ID.mounted       the boot and the mount namespace in which `mount` has mounted the container at `mounts/ID`
//! ├── mounts/ID/            a directory at which that container's root is mounted
//! ├── live/ID               one file for each container that a process works on or watches, locked while it does;
//! │                         for `run --rm` in the foreground, its content is that of the two records below
//! ├── names/NAME            a symbolic link whose text is the id in base 64: creating it reserves the name
//! ├── containers/ID/        a container that was created
//! │   ├── container.json    the options of `create`
//! │   ├── state.json        its present state
//! │   ├── config.json       the spec of its last start
//! │   ├── notify/run/       the socket by which its program tells the host's init that it is ready (sd_notify)
//! │   ├── removing          an empty file: its removal has begun
//! │   ├── copying           an empty file, locked by a `cp` while that has the container's files mounted
//! │   └── upper/ work/      files that it wrote
//! ├── events                the events, a line of JSON each; events.1 holds the older ones
//! ├── build/                created by the first build
//! │   ├── cache/KEY         the configuration of the image that a step made, as JSON
//! │   ├── hashes/KEY        digests of a context's files, with their sizes and times
//! │   ├── kept/ID           an empty file: this image is kept only for the build cache
//! │   ├── mounts/KEY/       directories of RUN --mount=type=cache
//! │   └── work/ID/          files of a running build, locked while it runs
//! ├── pods/ID/              a pod that was created
//! ├── templates/            files that storage drivers make once for each image (driver crate)
//! ├── launchers/            programs that start the tools of `debug --view target` sessions (engine crate)
//! ├── filters/              filters of system calls that sessions of `debug` have compiled (engine crate)
//! ├── tools/                what sessions of `debug --keep` write in containers of other engines (engine crate)
//! ├── pools/NAME/           sandboxes that wait for a program; see `pool`
//! ├── networks/             created by the first network; `.lock` guards changes, `.forwarding` lists changed settings
//! │   └── NAME/             `network.json`, and in `leases/` a link for each address, whose text names the container
//! ├── graph/                created by the first closure; `.lock` guards changes
//! │   ├── roots/HASH        what was imported, by the hash of its name: the ids of its nodes
//! │   ├── profiles/NAME     a profile: its generations, and which is the current one
//! │   └── starts/HASH       the image of a closure, by the hash of what was asked for, and what the closure was made of
//! ├── vm/                   created by `vm setup`; `kernel` names the one in use
//! │   ├── kernels/HASH/     `vmlinux`, `modules.cpio` and `kernel.json`, by the hash of the first two
//! │   └── programs/FILE/    this program as attendants have it, the disk with it for guests, and initramfs that lead there
//! ├── secrets/NAME.json     created by the first secret: what it is called, and its bytes
//! └── volumes/NAME/         a volume: its files in `_data/`; `volume.json` if it has more properties than its name
//! ```
//! ROOT is 0700, so that other users reach nothing below it by any name. Every directory in it is 0700 and every
//! file 0600 as well, except for those that a container sees: the tops of `upper`, of `_data` and of the like, and
//! all below them.
//!
//! Every name is a function of the id, so the rest of a killed command can be found and removed: an unlocked file
//! in `live/` tells that there is something to look for. Files are put in place by rename(2); only a locked one in
//! `live/` is written in place.

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

/// Permission bits of all users except a file's owner.
const OTHERS: u32 = 0o077;

/// Names that may be in a directory that becomes a state root: those that a killed command may have created there,
/// and the one that every new ext4 has.
const NAMES: [&str; 7] = [
    "lost+found",
    "mnt",
    "host",
    "live",
    "names",
    "containers",
    "volumes",
];

/// Privilege of the caller, as far as the kernel cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Root of the machine.
    Root,
    /// Root of a user namespace, for example in a container.
    NestedRoot,
    /// Any other user.
    User,
}

/// The state root.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
    /// Privilege of the caller.
    pub caller: Caller,
    /// Kind of sharing between new images and the host, if an option gives it.
    share_host: Option<ShareHost>,
    /// Configuration of storage, read at first use.
    storage: OnceLock<StorageConfig>,
}

/// True if the path is a directory. A directory that cannot be examined counts as missing; creating it will then
/// report the reason.
fn is_directory(path: &Path) -> bool {
    // absence: its making reports the reason
    std::fs::metadata(path).is_ok_and(|found| found.is_dir())
}

impl Home {
    /// Finds the state root, closes it to other users, and creates its missing parts.
    ///
    /// # Errors
    /// [`StateError::Home`] if it cannot be created or closed, [`StateError::HomeOwner`] and
    /// [`StateError::HomeInUse`] if the directory exists and is something else.
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
        // Only two calls on the usual path: `volumes` is the last directory that is created, so if it exists all
        // do.
        let own = rustix::process::geteuid().as_raw();
        // absence: its making reports the reason
        let is_closed =
            std::fs::metadata(&home.root).is_ok_and(|found| found.mode() & OTHERS == 0 && found.uid() == own);
        if !is_closed || !is_directory(&home.volumes()) {
            home.make()?;
        }
        Ok(home)
    }

    /// Closes the state root, also one that an older version created, and creates its missing parts.
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
                // A read-only state root cannot be changed by others either, and a list of its content may still be
                // wanted.
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

    /// True if the directory is a state root by now.
    fn has_state(&self) -> bool {
        is_directory(&self.live()) && is_directory(&self.names())
    }

    /// Refuses a directory that belongs to another user, also a state root: its owner controls the records, and the
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

    /// Refuses a directory with files that are not tote's: closing `/tmp` or a home directory to other users would
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
                // Another command has just turned the directory into a state root and works in it.
                if self.has_state() {
                    return Ok(());
                }
                let (path, name) = (path(), name.display().to_string());
                return Err(StateError::HomeInUse { path, name });
            }
        }
        Ok(())
    }

    /// Sets the kind of sharing between new images and the host's `/usr`: `reflink`, `hardlink` or `never`.
    ///
    /// # Errors
    /// [`StateError::ShareHost`] for another word.
    pub fn share_host(&mut self, how: &str) -> Result<(), StateError> {
        let known = config::share_host(how);
        self.share_host = Some(known.ok_or_else(|| StateError::ShareHost(how.to_owned()))?);
        Ok(())
    }

    /// Returns the kind of sharing between new images and the host: from the option, else from the configuration.
    ///
    /// # Errors
    /// Those of [`Home::storage_config`].
    pub fn shared_with_host(&self) -> Result<ShareHost, StateError> {
        match self.share_host {
            Some(said) => Ok(said),
            None => Ok(self.storage_config()?.share_host.unwrap_or_default()),
        }
    }

    /// Returns the configuration of storage, which is read once.
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

    /// True if this is the caller's default state root.
    #[must_use]
    pub fn is_default(&self) -> bool {
        default_root(self.caller).is_ok_and(|usual| usual == self.root)
    }

    /// Returns the directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory on which a mount namespace mounts its root.
    #[must_use]
    pub fn attach_point(&self) -> PathBuf {
        self.root.join("mnt")
    }

    /// Returns the directory of the skeletons of the `host` image.
    #[must_use]
    pub fn host_images(&self) -> PathBuf {
        self.root.join("host")
    }

    /// Returns the directory of the files that are locked for containers in use.
    #[must_use]
    pub fn live(&self) -> PathBuf {
        self.root.join("live")
    }

    /// Returns the directory of the links from names to ids.
    #[must_use]
    pub fn names(&self) -> PathBuf {
        self.root.join("names")
    }

    /// Returns the directory of the containers.
    #[must_use]
    pub fn containers(&self) -> PathBuf {
        self.root.join("containers")
    }

    /// Returns the directory of a container.
    #[must_use]
    pub fn container(&self, id: &ContainerId) -> PathBuf {
        self.containers().join(id.as_str())
    }

    /// Returns the directory of the places at which containers are mounted, which is created with the first one.
    #[must_use]
    pub fn mounts(&self) -> PathBuf {
        self.root.join("mounts")
    }

    /// Returns the directory at which a container is mounted.
    #[must_use]
    pub fn mount(&self, id: &ContainerId) -> PathBuf {
        self.mounts().join(id.as_str())
    }

    /// Returns the directory of the pods, which is created with the first one.
    #[must_use]
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// Returns the directory of a pod.
    #[must_use]
    pub fn pod(&self, id: &ContainerId) -> PathBuf {
        self.pods().join(id.as_str())
    }

    /// Returns the file of the events.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.root.join("events")
    }

    /// Returns the directory of the images, which is created by the store with the first one.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// Returns the directory in which storage drivers keep what they make once for each image.
    #[must_use]
    pub fn templates(&self) -> PathBuf {
        self.root.join("templates")
    }

    /// Returns the directory of what sessions of `debug` keep for containers of other engines, which is created with the first.
    #[must_use]
    pub fn kept_tools(&self) -> PathBuf {
        self.root.join("tools")
    }

    /// Returns the directory of programs that start the tools of a `debug` session, which is created with the first ones.
    #[must_use]
    pub fn launchers(&self) -> PathBuf {
        self.root.join("launchers")
    }

    /// Returns the directory of filters that sessions of `debug` have compiled, which is created with the first one.
    #[must_use]
    pub fn filters(&self) -> PathBuf {
        self.root.join("filters")
    }

    /// Returns the directory of the build cache and of builds at work.
    #[must_use]
    pub fn builds(&self) -> PathBuf {
        self.root.join("build")
    }

    /// Returns the directory of the networks, which is created with the first one.
    #[must_use]
    pub fn networks(&self) -> PathBuf {
        self.root.join("networks")
    }

    /// Returns the directory of the pools.
    #[must_use]
    pub fn pools(&self) -> PathBuf {
        self.root.join("pools")
    }

    /// Returns the directory of a pool.
    #[must_use]
    pub fn pool(&self, name: &Name) -> PathBuf {
        self.pools().join(name.as_str())
    }

    /// Returns the directory of closures.
    #[must_use]
    pub fn graph(&self) -> PathBuf {
        self.root.join("graph")
    }

    /// Returns the directory of virtual machines' kernels, which `vm setup` creates.
    #[must_use]
    pub fn vm(&self) -> PathBuf {
        self.root.join("vm")
    }

    /// Returns the directory of the secrets.
    #[must_use]
    pub fn secrets(&self) -> PathBuf {
        self.root.join("secrets")
    }

    /// Returns the directory of the named volumes.
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

/// Reads the beginning of a file by a single read(2), which suffices for a short file.
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
