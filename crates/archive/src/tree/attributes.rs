//! Extended attributes: which of them travel, and how they are read and set.

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// The kernel lists no more than this (`XATTR_LIST_MAX`), and no value is larger (`XATTR_SIZE_MAX`).
const MAX: usize = 64 << 10;

/// Whether an attribute is the file's own, and not that of a file system or of a host.
///
/// Users' attributes and file capabilities are. Overlayfs's are not: an image that brought `overlay.redirect` or
/// `overlay.metacopy` along would make the kernel show files that are not its own. Labels of security modules and
/// `trusted.*` belong to the host. (POSIX ACLs have numbers of users in them that nobody translates.)
pub(crate) fn travels(name: &[u8]) -> bool {
    name == b"security.capability" || name.starts_with(b"user.") && !name.starts_with(b"user.overlay.")
}

/// What an open file's attributes say.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    /// Those that travel, sorted by name.
    pub(crate) own: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) overlay: Overlay,
}

/// What overlayfs noted about a file or directory of an upper layer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overlay {
    /// The directory hides the one below.
    pub(crate) opaque: bool,
    /// The directory below has another name.
    pub(crate) redirect: bool,
    /// The content is in a layer below.
    pub(crate) metacopy: bool,
}

/// Reads the attributes of an open file.
pub(crate) fn read(fd: impl AsFd) -> Result<Attributes, Errno> {
    let mut found = Attributes::default();
    for name in list(&fd)? {
        if travels(&name) {
            if let Some(value) = get(&fd, &name)? {
                found.own.push((name, value));
            }
            continue;
        }
        let noted = name
            .strip_prefix(b"trusted.overlay.")
            .or(name.strip_prefix(b"user.overlay."));
        match noted {
            // `x` says that some files below are whiteouts by attribute, which only nested overlays have.
            Some(b"opaque") => found.overlay.opaque = get(&fd, &name)?.as_deref() == Some(b"y"),
            Some(b"redirect") => found.overlay.redirect = true,
            Some(b"metacopy") => found.overlay.metacopy = true,
            _ => {}
        }
    }
    found.own.sort_unstable();
    Ok(found)
}

/// All names of an open file's attributes; none where the file system has no such thing.
fn list(fd: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    // Most files have none, and the few of the others fit.
    let mut small = [0; 256];
    let mut large = Vec::new();
    let len = match rustix::fs::flistxattr(&fd, &mut small) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(Errno::RANGE) => {
            large = vec![0; MAX];
            rustix::fs::flistxattr(&fd, &mut *large)?
        }
        answer => answer?,
    };
    let bytes = if large.is_empty() {
        &small[..len]
    } else {
        &large[..len]
    };
    Ok(bytes
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}

/// The value of an open file's attribute, if it has that.
pub(crate) fn get(fd: impl AsFd, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0; 256];
    loop {
        match rustix::fs::fgetxattr(&fd, name, &mut *value) {
            Ok(len) => {
                value.truncate(len);
                return Ok(Some(value));
            }
            Err(Errno::RANGE) if value.len() < MAX => value.resize(MAX, 0),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

/// Sets an attribute of an open file.
pub(crate) fn set(fd: impl AsFd, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty())
}
