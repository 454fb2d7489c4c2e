use crate::StoreError;
use crate::dir::Dir;
use crate::image::Image;
use crate::ingest::Ingest;
use crate::key::Owners;
use crate::layer::{self, LayerArchive};
use crate::objects::Objects;
use crate::share::{HostFiles, ShareHost};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tote_image::{Algorithm, ChainId, Descriptor, Digest, Reference};
use tote_sys::MountRights;

/// How the names of lock files begin.
pub(crate) const LOCK: &str = ".lock-";

/// Where the names of images are.
const NAMES: &str = "names";
pub(crate) const IMAGES: &str = "images";

/// How a store behaves.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Who owns the files on disk.
    pub owners: Owners,
    /// What is shared with the host.
    pub share_host: ShareHost,
    /// With which rights overlays of its trees are mounted; `None` where that is not known to be one way.
    pub overlays: Option<MountRights>,
}

/// A store, open.
#[derive(Debug)]
pub struct Store {
    pub(crate) root: Dir,
    pub(crate) objects: Objects,
    pub(crate) layers: Dir,
    pub(crate) images: Dir,
    pub(crate) names: Dir,
    pub(crate) trees: Dir,
    pub(crate) trash: Dir,
    pub(crate) owners: Owners,
    pub(crate) overlays: Option<MountRights>,
    /// Whether there is something to sweep that could not be noted, for want of room.
    pub(crate) unnoted: AtomicBool,
    /// The id of this boot: what was written in another one may have been lost by a power cut.
    pub(crate) boot: String,
}

impl Store {
    /// Opens the store in a directory, which is made if it is not there (its parent must be).
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let root = match Dir::open(path) {
            Err(error) if error.errno() == Some(Errno::NOENT) => make(path)?,
            opened => opened?,
        };
        // For nobody else: an image may have set-id programs, and the path of its tree can be guessed (CVE-2021-41091).
        // What mounts a tree has the rights of the owner.
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
            layers: root.enter_or_make("layers", 0o700)?,
            images: root.enter_or_make(IMAGES, 0o700)?,
            names: root.enter_or_make(NAMES, 0o700)?,
            trash: root.enter_or_make("trash", 0o700)?,
            trees: root.enter_or_make("trees", 0o700)?,
            root,
            owners: options.owners,
            overlays: options.overlays,
            unnoted: AtomicBool::new(false),
            boot: boot_id(),
        })
    }

    /// Begins to add something. Waits while a sweep is going on.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn ingest(&self) -> Result<Ingest<'_>, StoreError> {
        Ingest::new(self)
    }

    /// The same for whoever adds an image at once: what is left of it when that process is killed is garbage, which the
    /// next sweep finds.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn ingest_at_once(&self) -> Result<Ingest<'_>, StoreError> {
        Ingest::marked(self)
    }

    pub(crate) fn layer_dir(&self, diff_id: &Digest) -> Result<Option<Dir>, StoreError> {
        match self.layers.enter(&sha256_hex(diff_id)?) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.errno() == Some(Errno::NOENT) || error.is_no_directory() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The uncompressed archive of a layer, byte for byte as it came.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`] and others.
    pub fn layer_archive(&self, diff_id: &Digest) -> Result<LayerArchive<'_>, StoreError> {
        let dir = self.layer_dir(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
        layer::archive(&dir, &self.objects)
    }

    /// The compressed forms of a layer that registries were seen to have.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`] and others.
    pub fn blobs(&self, diff_id: &Digest) -> Result<Vec<Descriptor>, StoreError> {
        let dir = self.layer_dir(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
        layer::blobs(&dir)
    }

    /// All names, with the ids of their images or indexes, sorted.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn names(&self) -> Result<Vec<(Reference, Digest)>, StoreError> {
        crate::names::all(&self.names)
    }

    /// The id of the image or index that a name stands for.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn named(&self, name: &Reference) -> Result<Option<Digest>, StoreError> {
        crate::names::get(&self.names, name)
    }

    /// Whether something in the store in a directory, which is not opened, goes by this name. What cannot be asked does not.
    #[must_use]
    pub fn is_named(path: &Path, name: &Reference) -> bool {
        crate::names::is_there(&path.join(NAMES), name)
    }

    /// Takes a name away. Says whether it was there; its image stays.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn untag(&self, name: &Reference) -> Result<bool, StoreError> {
        crate::names::remove(&self.names, name)
    }

    /// The image that a text means: a name, an id, or the beginning of one. Of an index, it is the image that is best for
    /// this machine, or else the first.
    ///
    /// # Errors
    /// [`StoreError::NoImage`], [`StoreError::Ambiguous`] and others.
    pub fn resolve(&self, text: &str) -> Result<Digest, StoreError> {
        crate::image::resolve(self, text)
    }

    /// As [`Store::resolve`], but the id of an index where the text stands for one.
    ///
    /// # Errors
    /// As [`Store::resolve`].
    pub fn find(&self, text: &str) -> Result<Digest, StoreError> {
        crate::image::find(self, text).map(|(id, _)| id)
    }

    /// An image by its id.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] and others.
    pub fn image(&self, id: &Digest) -> Result<Image, StoreError> {
        crate::image::read(self, id)
    }

    /// All images, in the order of their ids.
    ///
    /// # Errors
    /// [`StoreError::Io`], also where one image cannot be read: nothing is known about that one, and a list without it would
    /// say that it is not there. Damaged images are left out; [`Store::damaged_images`] names them.
    pub fn images(&self) -> Result<Vec<Image>, StoreError> {
        crate::image::all(self)
    }

    /// The name of the tree of an image, which all images of the same layers share.
    pub(crate) fn chain(layers: &[Digest]) -> Option<ChainId> {
        ChainId::of(layers, sha256).pop()
    }
}

/// The root may be asked for by a process whose umask is anything.
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

/// An empty id never equals one that was noted, so that everything is looked at.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// The digest of some bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> Digest {
    Digest::sha256(Sha256::digest(bytes).into())
}

/// What a digest is called as a file.
pub(crate) fn sha256_hex(digest: &Digest) -> Result<String, StoreError> {
    match digest.algorithm() {
        Algorithm::Sha256 => Ok(digest.hex()),
        Algorithm::Sha512 => Err(StoreError::Algorithm(*digest)),
    }
}
