//! Options of an extraction.

/// Options of [`extract`](crate::extract). The default is that of a layer: owners as in the archive, whiteouts
/// applied, everything replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtractOptions {
    /// Owner of the extracted entries.
    pub owner: Owner,
    /// Treatment of whiteouts. Only a reader of layers returns them: see
    /// [`Reader::without_whiteouts`](crate::Reader::without_whiteouts).
    pub whiteouts: Whiteouts,
    /// Treatment of device nodes.
    pub devices: Devices,
    /// Entries that may be replaced.
    pub overwrite: Overwrite,
    /// True if the root directory's own metadata stay, even if the archive has an entry for it: docker's `ADD` and
    /// `cp`.
    pub keep_root: bool,
}

/// Owner of the extracted entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// The owner in the archive; it is an error if the process may not set it.
    #[default]
    Archive,
    /// This user and group (`ADD --chown`).
    Fixed {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
    /// The process's own user and group, for directories that only this process and its like read.
    Process,
    /// The caller of a command, for directories outside of the state root, in which other users may run and open what is
    /// made: files are the process's own, and lose the rights that they would give to these users. They are not setuid or
    /// setgid, have no capabilities, and device nodes are left out whatever [`Devices`] says.
    Caller,
}

impl Owner {
    /// True if the entries keep rights that they give to whichever user runs or opens them.
    pub(crate) fn keeps_rights(self) -> bool {
        self != Self::Caller
    }
}

/// Treatment of whiteouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whiteouts {
    /// Remove the entries that the directory had before the extraction began.
    #[default]
    Apply,
    /// Create overlayfs's own whiteouts, for a directory that becomes a lower layer: character devices 0/0 and an
    /// attribute.
    Overlay {
        /// True if the attribute is `user.overlay.opaque` instead of `trusted.overlay.opaque`: for mounts in user
        /// namespaces.
        user_xattr: bool,
    },
}

/// Treatment of device nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// Create them; it is an error if the process may not.
    #[default]
    Make,
    /// Create those that the process may create, as docker does in user namespaces.
    IfPermitted,
    /// Leave them out.
    Skip,
}

/// Entries that may be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// All entries; a directory is removed with everything in it. Two directories are merged.
    #[default]
    All,
    /// Only entries of the same kind: a directory replaces nothing else, nor is it replaced: docker's `ADD` and
    /// `cp`.
    SameKind,
}
