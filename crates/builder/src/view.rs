//! Layers as one directory, by overlayfs, without a mount point.

use crate::EngineError;
use crate::workspace::Scratch;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tote_rootfs::{OverlayOptions, OwnInodes};
use tote_store::Tree;

/// Number of a build's own directories that are stacked before they become one tree. With the tree below them, and
/// each given by a descriptor, they fit into one value of fsconfig(2), as kernels before 6.7 require.
const UPPERS_MAX: usize = 12;

/// Directories of some layers on disk: the store's tree of the lower ones, and the build's own above it.
#[derive(Clone, Debug)]
pub(crate) struct Lowers {
    tree: Rc<Tree>,
    /// Upper directories, the topmost first.
    uppers: Vec<PathBuf>,
}

impl Lowers {
    pub(crate) fn of(tree: Tree) -> Self {
        Self {
            tree: Rc::new(tree),
            uppers: Vec::new(),
        }
    }

    /// Adds a directory on top; `None` if the limit is reached.
    pub(crate) fn and(&self, upper: PathBuf) -> Option<Self> {
        if self.uppers.len() >= UPPERS_MAX {
            return None;
        }
        let mut uppers = vec![upper];
        uppers.extend_from_slice(&self.uppers);
        Some(Self {
            tree: Rc::clone(&self.tree),
            uppers,
        })
    }

    /// Lists the build's own directories, the topmost first.
    pub(crate) fn uppers(&self) -> &[PathBuf] {
        &self.uppers
    }

    /// Lists the directories, the topmost first. The lowest may have empty files; see [`Lowers::own_inodes`].
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let tree = [self.tree.path().to_owned()];
        self.uppers.iter().cloned().chain(tree).collect()
    }

    /// Form of the lowest directory, if overlayfs has to find the contents of its files.
    pub(crate) fn own_inodes(&self) -> Option<OwnInodes> {
        crate::rootfs::own_inodes(&self.tree)
    }

    /// Opens a read-only view of all directories.
    pub(crate) fn view(&self, in_user_namespace: bool) -> Result<OwnedFd, EngineError> {
        match self.paths().as_slice() {
            [_] => Ok(self.tree.view()?),
            paths => self.mount(paths, None, in_user_namespace).map_err(kernel),
        }
    }

    /// Opens a writable view of all directories; writes go to the scratch.
    pub(crate) fn writable(
        &self,
        scratch: &Scratch,
        in_user_namespace: bool,
    ) -> Result<OwnedFd, EngineError> {
        self.mount(&self.paths(), Some(scratch), in_user_namespace)
            .map_err(kernel)
    }

    fn mount(
        &self,
        paths: &[PathBuf],
        scratch: Option<&Scratch>,
        in_user_namespace: bool,
    ) -> Result<OwnedFd, Errno> {
        let own = self.tree.own_inodes();
        let contents = own.map(|own| own.contents.as_path());
        // The lowest layer, where it is a file.
        let names = self.tree.mounted_names()?;
        let mut paths = paths.to_vec();
        if let (Some(names), Some(lowest)) = (&names, paths.last_mut()) {
            *lowest = PathBuf::from(format!("/proc/self/fd/{}", names.as_raw_fd()));
        }
        mount((&paths, contents), scratch, in_user_namespace)
    }
}

fn kernel(source: Errno) -> EngineError {
    EngineError::Kernel {
        attempt: "put the layers of the build on each other",
        source,
    }
}

pub(crate) fn open(path: &Path, access: OFlags) -> Result<OwnedFd, Errno> {
    // A descriptor's name is a link.
    let is_held = path.starts_with("/proc/self/fd");
    let mut flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !is_held);
    rustix::fs::open(path, flags, Mode::empty())
}

/// Mounts directories, and the one that has the contents of files of the lowest, if these are elsewhere.
fn mount(
    (lowers, contents): (&[PathBuf], Option<&Path>),
    scratch: Option<&Scratch>,
    in_user_namespace: bool,
) -> Result<OwnedFd, Errno> {
    // Paths are given by descriptors, because fsconfig(2) limits the length.
    let mut held = Vec::new();
    let mut by_descriptor = |path: &Path| {
        let dir = open(path, OFlags::PATH)?;
        let name = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        held.push(dir);
        Ok::<_, Errno>(name)
    };
    let lowers = lowers
        .iter()
        .map(|path| by_descriptor(path))
        .collect::<Result<Vec<_>, _>>()?;
    let mut options = OverlayOptions::new(lowers).user_namespace(in_user_namespace);
    if let Some(contents) = contents {
        options = options.contents(by_descriptor(contents)?);
    }
    if let Some(scratch) = scratch {
        let (upper, work) = (by_descriptor(&scratch.upper)?, by_descriptor(&scratch.work)?);
        options = options.upper(upper, work).volatile(true);
    }
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options.parameters() {
        match value {
            Some(value) => fsconfig_set_string(&context, key, &*value)?,
            None => fsconfig_set_flag(&context, key)?,
        }
    }
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
