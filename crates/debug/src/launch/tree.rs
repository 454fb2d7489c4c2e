//! Tools that launchers are for, and their place in the session.

use rustix::fd::BorrowedFd;
use std::path::Path;

/// Directory of the tools' programs and data in a session whose root is the container's.
pub(crate) const PLACE: &str = "/.tote";

/// Directory of the tools themselves there.
pub(crate) const ASIDE: &str = "/.tote/.tools";

/// Number of entries of a root at most: a hostile container must not make a plan without end.
pub(crate) const ENTRIES: usize = 1024;

/// Number of programs at most: a hostile image must not make a plan without end.
pub(super) const PROGRAMS: usize = 8192;

/// The tools that launchers are for.
pub(crate) struct ToolsTree<'a> {
    pub root: BorrowedFd<'a>,
    /// Directory with the entries of the root directory that may be shown.
    pub top: BorrowedFd<'a>,
    /// True if `root` is this process's own root, where a link leads as it does for the tools.
    pub(crate) is_here: bool,
    /// Digest of a tree that never changes.
    pub(crate) fixed: Option<String>,
    /// Directories of programs, with colons between them.
    pub search: String,
}

/// Returns the path at which the session sees a file of the tools.
pub(super) fn seen(path: &Path) -> Option<String> {
    Some(format!("{ASIDE}{}", path.to_str()?))
}
