use crate::StoreError;
use crate::dir::Dir;
use crate::key::Owners;
use crate::layer::{self, LayerArchive};
use crate::objects::Objects;
use crate::recent::Recent;
use crate::share::{HostFiles, ShareHost};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tote_image::{Algorithm, ChainId, Descriptor, Digest};
use tote_sys::MountRights;

/// Prefix of the names of lock files.
pub(crate) const LOCK: &str = ".lock-";

/// Directory of the names of images.
pub(crate) const NAMES: &str = "names";
pub(crate) const IMAGES: &str = "images";

/// Options of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Ownership of the files on disk.
    pub owners: Owners,
    /// Kind of sharing with the host.
    pub share_host: ShareHost,
    /// Rights with which overlays of its trees are mounted; `None` if they vary.
    pub overlays: Option<MountRights>,
    /// Least number of inodes of a tree whose metadata are to be a file of EROFS, where the kernel mounts one. `None` for callers
    /// that may not mount it: only root of the machine may.
    pub erofs_from: Option<u64>,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    pub(crate) root: Dir,
    pub(crate) objects: Objects,
    pub(crate) recent: Recent,
    pub(crate) layers: Dir,
    pub(crate) images: Dir,
    pub(crate) names: Dir,
    pub(crate) trees: Dir,
    pub(crate) trash: Dir,
    pub(crate) owners: Owners,
    pub(crate) overlays: Option<MountRights>,
    /// Least number of inodes of a tree that is to be a file of EROFS; `None` if no tree may be.
    pub(crate) erofs_from: Option<u64>,
    /// True if there is something to sweep that could not be recorded, because the disk was full.
    pub(crate) unnoted: AtomicBool,
    /// Id of this boot: files written in another boot may have been lost by a power cut.
    pub(crate) boot: String,
}

impl Store {
    /// Opens the store in a directory, which is created if it is missing (its parent must exist).
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let root = match Dir::open(path) {
            Err(error) if error.errno() == Some(Errno::NOENT) => make(path)?,
            opened => opened?,
        };
        // Closed to other users: an image may have set-id programs, and the path of its tree can be guessed
        // (CVE-2021-41091). The process that mounts a tree has the owner's rights.
        let objects = root.enter_or_make("objects", 0o700)?;
        let device = rustix::fs::fstat(&objects)
            .map_err(root.failed("look at", "objects"))?
            .st_dev;
        Ok(Self {
            objects: Objects::new(
                objects,
                options.owners,
                HostFiles::new(options.share_host, device),
            ),
            recent: Recent::default(),
            layers: root.enter_or_make("layers", 0o700)?,
            images: root.enter_or_make(IMAGES, 0o700)?,
            names: root.enter_or_make(NAMES, 0o700)?,
            trash: root.enter_or_make("trash", 0o700)?,
            trees: root.enter_or_make("trees", 0o700)?,
            root,
            owners: options.owners,
            overlays: options.overlays,
            erofs_from: options
                .erofs_from
                .filter(|_| options.overlays == Some(MountRights::Root)),
            unnoted: AtomicBool::new(false),
            boot: boot_id(),
        })
    }

    pub(crate) fn layer_dir(&self, diff_id: &Digest) -> Result<Option<Dir>, StoreError> {
        match self.layers.enter(&sha256_hex(diff_id)?) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.errno() == Some(Errno::NOENT) || error.is_no_directory() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the uncompressed archive of a layer, byte for byte as it came.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`] and others.
    pub fn layer_archive(&self, diff_id: &Digest) -> Result<LayerArchive<'_>, StoreError> {
        let dir = self.layer_dir(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
        layer::archive(&dir, &self.objects)
    }

    /// Returns the compressed forms of a layer that were seen at registries.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`] and others.
    pub fn blobs(&self, diff_id: &Digest) -> Result<Vec<Descriptor>, StoreError> {
        let dir = self.layer_dir(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
        layer::blobs(&dir)
    }

    /// Returns the name of an image's tree, which all images of the same layers share.
    pub(crate) fn chain(layers: &[Digest]) -> Option<ChainId> {
        ChainId::of(layers, sha256).pop()
    }
}

/// Creates the root directory with mode 0700, whatever the umask.
fn make(path: &Path) -> Result<Dir, StoreError> {
    match rustix::fs::mkdir(path, rustix::fs::Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(StoreError::io("make", path.to_owned(), errno)),
    }
    let dir = Dir::open(path)?;
    let mode = rustix::fs::Mode::from_raw_mode(0o700);
    rustix::fs::fchmod(&dir, mode).map_err(dir.failed("set the mode of", ""))?;
    Ok(dir)
}

/// Returns the id of this boot. An empty id never equals a recorded one, so that everything is checked.
fn boot_id() -> String {
    // absence: an empty id is that of no boot
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Computes the digest of some bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> Digest {
    Digest::sha256(Sha256::digest(bytes).into())
}

/// Returns the name of a digest's file.
pub(crate) fn sha256_hex(digest: &Digest) -> Result<String, StoreError> {
    match digest.algorithm() {
        Algorithm::Sha256 => Ok(digest.hex()),
        Algorithm::Sha512 => Err(StoreError::Algorithm(*digest)),
    }
}
