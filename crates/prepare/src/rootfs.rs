//! An image becomes a root.

use crate::apart::{among_owners, read_among_owners};
use crate::progress::Progress;
use crate::{EngineError, Home, ImageFault, MachineError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tote_bundle::{Image, ImageConfig};
use tote_image::Digest;
use tote_rootfs::{
    Directory, HostImage, OwnInodes, ReadError, Rootfs, Upper, read_content, read_content_in_root,
    read_in_root,
};
use tote_store::{Image as Stocked, Opened, Shift, Shifted, Store, Tree};
use tote_sys::{Errno, MountRights, best_effort};

/// An image that is ready to be mounted; holds its lock for as long as it is used.
#[derive(Debug)]
pub enum Source {
    /// This machine's own files.
    Host(HostImage),
    /// A directory.
    Directory(Directory),
    /// An image of the store.
    Stored(Box<Stored>),
    /// The tree of a build.
    Build(Box<BuildTree>),
}

/// Root of a step of a build: the layers so far, and a directory that becomes the next one.
#[derive(Debug)]
pub struct BuildTree {
    /// Settings of the image.
    pub config: ImageConfig,
    /// The layers, the topmost first.
    pub lowers: Vec<PathBuf>,
    /// The lowest of them for overlayfs, where there is such a tree.
    pub own_inodes: Option<OwnInodes>,
    /// Directory of the changed files.
    pub upper: PathBuf,
    /// Work directory of the overlay.
    pub work: PathBuf,
    /// The layers as one directory.
    pub view: OwnedFd,
    /// A directory with files that lose their names once they are mounted.
    pub secrets: PathBuf,
}

impl BuildTree {
    /// Takes their names from the secrets of a step, which has them mounted: should everybody be killed who clears up
    /// after the build, they are on no disk.
    pub fn unname_secrets(&self) {
        // What stays goes after the step.
        best_effort(std::fs::remove_dir_all(&self.secrets));
    }

    /// Layers and files of the root.
    pub fn rootfs(&self) -> Rootfs {
        Rootfs {
            lowers: self.lowers.clone(),
            own_inodes: self.own_inodes.clone(),
            upper: Upper::Dir {
                upper: self.upper.clone(),
                work: self.work.clone(),
                owned: false,
            },
            binds: Vec::new(),
        }
    }
}

/// An image of the store.
#[derive(Debug)]
pub struct Stored {
    id: Digest,
    config: ImageConfig,
    /// The tree; the directory stays as long as this is held.
    tree: Tree,
    /// A view with the contents of its files, once a caller has asked for it.
    view: OnceLock<OwnedFd>,
    /// Tree of the image with the owners for some containers, once it is to be shown with these.
    shifted: Option<Shifted>,
}

impl Stored {
    /// Id of the image.
    pub fn id(&self) -> &Digest {
        &self.id
    }

    /// The directory with its files, for reading.
    ///
    /// # Errors
    /// [`EngineError::Store`]: the kernel does not show it.
    pub fn view(&self) -> Result<BorrowedFd<'_>, EngineError> {
        let view = match self.view.get() {
            Some(view) => view,
            None => {
                let view = match &self.shifted {
                    Some(shifted) => shifted.view()?,
                    None => self.tree.view()?,
                };
                self.view.get_or_init(|| view)
            }
        };
        Ok(view.as_fd())
    }

    /// True if the names of its files are in a file, which only the kernel shows as a directory.
    pub fn is_file(&self) -> bool {
        self.tree.directory().is_none()
    }

    /// Reads a file without a mount: this is on the way of each start.
    fn read(&self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, ReadError> {
        if let Some(names) = self.tree.directory() {
            let content_of = |file| self.tree.content_of(file);
            return read_content_in_root(names, path, limit, &content_of);
        }
        let inside = || PathBuf::from(path);
        let opened = self.tree.open(path.as_bytes());
        match opened.map_err(|source| ReadError::Open {
            path: inside(),
            source,
        })? {
            Opened::Absent => Ok(None),
            Opened::NoFile => Err(ReadError::NotRegular { path: inside() }),
            Opened::Empty => Ok(Some(Vec::new())),
            Opened::Content(file) => read_content(file.as_fd(), &inside(), limit).map(Some),
        }
    }

    /// Where [`Stored::links`] makes that directory.
    pub fn links_path(&self) -> PathBuf {
        self.tree.links_path()
    }

    /// A directory with its files as they are on disk, for copying: links to what the store has. Made when
    /// it is first asked for.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn links(&self, home: &Home) -> Result<PathBuf, EngineError> {
        let path = self.tree.links_path();
        if tote_state::record::is_there(&path)? {
            return Ok(path);
        }
        if tote_images::has_ids(home) {
            let store = tote_images::open_store(home)?;
            return Ok(store.links(&store.image(&self.id)?, &self.tree)?);
        }
        among_owners(home, || {
            let store = tote_images::open_store(home)?;
            store.links(&store.image(&self.id)?, &self.tree)?;
            Ok(Vec::new())
        })?;
        Ok(path)
    }

    /// The image with the owners that files need on disk to be the image's own in such a container. Made when it is first asked for,
    /// unless nothing is to be made.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn shifted(&self, home: &Home, shift: Shift, dry: bool) -> Result<Shifted, EngineError> {
        self.with_owners(home, self.tree.shifted(shift), shift, dry)
    }

    /// Directory with these owners and ordinary files.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn shifted_copies(&self, home: &Home, shift: Shift, dry: bool) -> Result<PathBuf, EngineError> {
        let shifted = self.tree.shifted_copies(shift);
        Ok(self.with_owners(home, shifted, shift, dry)?.path)
    }

    fn with_owners(
        &self,
        home: &Home,
        shifted: Shifted,
        shift: Shift,
        dry: bool,
    ) -> Result<Shifted, EngineError> {
        if dry || tote_state::record::is_there(&shifted.path)? {
            return Ok(shifted);
        }
        let make = || {
            let store = tote_images::open_store(home)?;
            let progress = Progress::of("files of the image get their owners for keep-id");
            let tell = |done, of| progress.tell(done, of);
            Ok::<_, EngineError>(store.shift(&store.image(&self.id)?, &shifted, shift, &tell)?)
        };
        if tote_images::has_ids(home) {
            make()?;
        } else {
            among_owners(home, || make().map(|()| Vec::new()))?;
        }
        Ok(shifted)
    }

    /// Where [`Stored::disk`] makes that file.
    pub fn disk_path(&self) -> PathBuf {
        self.tree.disk_path()
    }

    /// The image as the disk of a virtual machine; made when it is first asked for.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn disk(&self, home: &Home) -> Result<PathBuf, EngineError> {
        let make = || {
            let store = tote_images::open_store(home)?;
            Ok::<_, EngineError>(store.disk(&store.image(&self.id)?, &self.tree)?)
        };
        let path = self.disk_path();
        if tote_state::record::is_there(&path)? {
            return Ok(path);
        }
        if tote_images::has_ids(home) {
            return make();
        }
        among_owners(home, || make().map(|_| Vec::new()))?;
        Ok(path)
    }

    fn open(home: &Home, name: &str) -> Result<Self, EngineError> {
        let store = tote_images::open_store(home)?;
        let image = store.image(&store.resolve(name)?)?;
        let tree = if tote_images::has_ids(home) {
            store.tree(&image)?
        } else {
            // Its files belong to ids of the user's ranges, whom only a process in a user namespace of them can make.
            match store.ready_tree(&image)? {
                Some(tree) => tree,
                None => Self::make_tree(home, &store, &image)?,
            }
        };
        Ok(Self {
            id: image.id,
            config: tote_images::runtime_config(&image.config.value().config),
            tree,
            view: OnceLock::new(),
            shifted: None,
        })
    }

    /// A directory that was lost with another boot, or removed by hand, is made again.
    fn make_tree(home: &Home, store: &Store, image: &Stocked) -> Result<Tree, EngineError> {
        let id = image.id.to_string();
        among_owners(home, || {
            Ok(tote_images::make_tree(home, &id).map(|()| Vec::new())?)
        })?;
        let ready = store.ready_tree(image)?;
        ready.ok_or(EngineError::Image(ImageFault::NoTree(id)))
    }
}

/// Removes the skeletons of the host image that are of a state which the host no longer has, as far as no container runs
/// on them, and those whose maker is gone.
///
/// # Errors
/// [`EngineError::Machine`].
pub fn forget_skeletons(home: &Home) -> Result<(), EngineError> {
    let names = tote_state::record::names_in(&home.host_images())?;
    if names.iter().any(|name| name.starts_with('.')) {
        tote_rootfs::sweep_abandoned(&home.host_images()).map_err(MachineError::HostImage)?;
    }
    // A single one may well be that of today.
    if names.iter().filter(|name| name.starts_with("host-")).count() > 1 {
        let today = HostImage::prepare(&home.host_images()).map_err(MachineError::HostImage)?;
        tote_rootfs::sweep(&home.host_images(), &today).map_err(MachineError::HostImage)?;
    }
    Ok(())
}

/// The tree with inodes of its own that overlayfs is to show, where a tree has one.
pub fn own_inodes(tree: &Tree) -> Option<OwnInodes> {
    tree.own_inodes().map(shown_inodes)
}

fn shown_inodes(own: &tote_store::OwnInodes) -> OwnInodes {
    OwnInodes {
        tree: own.tree.clone(),
        fs: own.fs,
        contents: own.contents.clone(),
        user_namespace: own.rights != MountRights::Root,
    }
}

impl Source {
    /// Opens the root of an image.
    pub fn open(home: &Home, image: &Image) -> Result<Self, EngineError> {
        Ok(match image {
            Image::Host => {
                Self::Host(HostImage::prepare(&home.host_images()).map_err(MachineError::HostImage)?)
            }
            Image::Rootfs(given) => Self::Directory(Directory::open(Path::new(given)).map_err(|source| {
                EngineError::Machine(MachineError::Directory {
                    given: given.clone(),
                    source,
                })
            })?),
            Image::Stored(name) => Self::Stored(Box::new(Stored::open(home, name)?)),
        })
    }

    /// The image's settings for its containers.
    pub fn config(&self) -> ImageConfig {
        match self {
            Self::Stored(stored) => stored.config.clone(),
            Self::Build(tree) => tree.config.clone(),
            _ => ImageConfig::bare(),
        }
    }

    /// Shows an image of the store with the owners that such a container sees, in the numbers of the disk: those of the container's
    /// own files.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn shift(&mut self, home: &Home, shift: Shift) -> Result<(), EngineError> {
        if let Self::Stored(stored) = self {
            stored.shifted = Some(stored.shifted(home, shift, false)?);
            stored.view = OnceLock::new();
        }
        Ok(())
    }

    /// Leaves out the volumes of the image, for a container that is thrown away.
    pub fn forget_volumes(&mut self) {
        if let Self::Stored(stored) = self {
            stored.config.volumes.clear();
        }
    }

    /// The id of an image of the store.
    pub fn image_id(&self) -> Option<String> {
        match self {
            Self::Stored(stored) => Some(stored.id.to_string()),
            _ => None,
        }
    }

    /// The digest of the layers of an image of the store, in hexadecimal: its tree never changes.
    pub fn chain(&self) -> Option<&str> {
        match self {
            Self::Stored(stored) => stored.tree.chain(),
            _ => None,
        }
    }

    /// The name by which a tree of the store, which never changes, is told from others.
    pub fn tree_key(&self) -> Option<String> {
        self.chain().map(str::to_owned).or_else(|| self.image_id())
    }

    /// The content of a regular file of the image, if there is one: through directories, too, that their owner, another
    /// of the caller's ids, has closed.
    pub fn read(&self, home: &Home, path: &str) -> Result<Option<Vec<u8>>, EngineError> {
        let read = |limit| match self {
            Self::Host(image) => read_in_root(image.layer(), path, limit),
            Self::Directory(directory) => read_in_root(directory, path, limit),
            Self::Stored(stored) => stored.read(path, limit),
            Self::Build(tree) => read_in_root(&tree.view, path, limit),
        };
        read_among_owners(home, read, |error| {
            EngineError::Machine(MachineError::UserFile(error))
        })
    }

    /// Where files of the image are read before it is mounted.
    ///
    /// # Errors
    /// [`EngineError::Store`]: an image of the store cannot be shown as one directory.
    pub fn dir(&self) -> Result<BorrowedFd<'_>, EngineError> {
        Ok(match self {
            Self::Host(image) => image.layer(),
            Self::Directory(directory) => directory.as_fd(),
            Self::Stored(stored) => stored.view()?,
            Self::Build(tree) => tree.view.as_fd(),
        })
    }

    /// True if an image of the store has a file or directory of this path, whose links are followed in the image.
    ///
    /// # Errors
    /// [`EngineError::Store`]: the image cannot be read.
    pub fn has(&self, path: &str) -> Result<bool, EngineError> {
        let Self::Stored(stored) = self else {
            return Ok(false);
        };
        let Some(names) = stored.tree.directory() else {
            let found = stored.tree.open(path.as_bytes());
            let found = found.map_err(EngineError::file("look for", path))?;
            return Ok(!matches!(found, Opened::Absent));
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = tote_sys::openat2(names, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        Ok(!matches!(found, Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)))
    }

    /// The layers, and what is mounted on them.
    pub fn rootfs(&self) -> Rootfs {
        match self {
            Self::Host(image) => image.rootfs(Upper::None),
            Self::Directory(directory) => directory.rootfs(Upper::None),
            Self::Stored(stored) => Rootfs {
                lowers: vec![stored.tree.path().to_owned()],
                own_inodes: own_inodes(&stored.tree),
                upper: Upper::None,
                binds: Vec::new(),
            },
            Self::Build(tree) => tree.rootfs(),
        }
    }

    /// Layers and mounts for a container whose caller keeps these ids. The files of the machine, and of a directory, belong to whom they do.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn rootfs_for(&self, home: &Home, shift: Option<Shift>, dry: bool) -> Result<Rootfs, EngineError> {
        let (Self::Stored(stored), Some(shift)) = (self, shift) else {
            return Ok(self.rootfs());
        };
        let shifted = stored.shifted(home, shift, dry)?;
        Ok(Rootfs {
            lowers: vec![shifted.path],
            own_inodes: shifted.own_inodes.as_ref().map(shown_inodes),
            upper: Upper::None,
            binds: Vec::new(),
        })
    }
}
