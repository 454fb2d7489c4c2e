//! Extended attributes: which of them belong to a file itself, and how they are read and set.

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Maximum bytes: the kernel limits a list of names (`XATTR_LIST_MAX`) and a value (`XATTR_SIZE_MAX`) to this size.
const MAX: usize = 64 << 10;

/// True if an attribute belongs to the file itself, and not to a file system or a host.
///
/// Users' attributes and file capabilities belong to the file. Overlayfs's do not: an image with `overlay.redirect`
/// or `overlay.metacopy` would make the kernel show other files. Labels of security modules and `trusted.*` belong
/// to the host. POSIX ACLs are left out too, because they contain user ids that would have to be translated.
pub(crate) fn travels(name: &[u8]) -> bool {
    name == b"security.capability" || name.starts_with(b"user.") && !name.starts_with(b"user.overlay.")
}

/// True if an attribute gives rights to whichever user runs the file.
pub(crate) fn gives_rights(name: &[u8]) -> bool {
    !name.starts_with(b"user.")
}

/// The relevant attributes of an open file.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    /// Attributes that belong to the file itself, sorted by name.
    pub(crate) own: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) overlay: Overlay,
}

/// Overlayfs's marks on a file or directory of an upper layer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overlay {
    /// True if the directory hides the one below.
    pub(crate) opaque: bool,
    /// True if the directory below has another name.
    pub(crate) redirect: bool,
    /// True if the content is in a layer below.
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
            // `x` means that some files below are whiteouts by attribute, which only nested overlays have.
            Some(b"opaque") => found.overlay.opaque = get(&fd, &name)?.as_deref() == Some(b"y"),
            Some(b"redirect") => found.overlay.redirect = true,
            Some(b"metacopy") => found.overlay.metacopy = true,
            _ => {}
        }
    }
    found.own.sort_unstable();
    Ok(found)
}

/// Lists all names of an open file's attributes; empty if the file system does not support attributes.
fn list(fd: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    // Most files have no attributes, and those of the others usually fit into this buffer.
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

/// Returns the value of an open file's attribute; `None` if the file does not have it.
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
