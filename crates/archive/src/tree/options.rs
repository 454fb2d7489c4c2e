//! How a stream becomes a directory.

/// How [`extract`](crate::extract) treats what can be treated in several ways. The default is a layer's: owners as
/// in the archive, whiteouts applied, everything replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtractOptions {
    /// Whom everything belongs to.
    pub owner: Owner,
    /// What whiteouts do. Only a reader of layers returns them: see
    /// [`Reader::without_whiteouts`](crate::Reader::without_whiteouts).
    pub whiteouts: Whiteouts,
    /// What to do about device nodes.
    pub devices: Devices,
    /// What an entry may replace.
    pub overwrite: Overwrite,
    /// Leaves the root directory itself as it is, although the archive has an entry for it: docker's `ADD` and `cp`.
    pub keep_root: bool,
}

/// Whom extracted entries belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// Whom the archive says; that this is not permitted is an error.
    #[default]
    Archive,
    /// This user and group (`ADD --chown`).
    Fixed {
        /// User number.
        uid: u32,
        /// Group number.
        gid: u32,
    },
    /// Whoever extracts.
    Process,
}

/// What whiteouts do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whiteouts {
    /// They remove what was in the directory before the extraction began.
    #[default]
    Apply,
    /// They become overlayfs's own, for a directory that will be a lower layer: character devices 0/0 and an attribute.
    Overlay {
        /// The attribute is `user.overlay.opaque` instead of `trusted.overlay.opaque`: for mounts in user namespaces.
        user_xattr: bool,
    },
}

/// What to do about device nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// Make them; that this is not permitted is an error.
    #[default]
    Make,
    /// Make those that are permitted, as docker does in user namespaces.
    IfPermitted,
    /// Leave them out.
    Skip,
}

/// What an entry may replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Everything, a directory with all that is in it as well. Directories are merged.
    #[default]
    All,
    /// A directory is replaced by nothing else, and nothing else by a directory: docker's `ADD` and `cp`.
    SameKind,
}
