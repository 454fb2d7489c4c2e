//! Paths inside a container, as text.

use crate::error::PlanError;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Converts a text for the kernel; `what` names it in the error.
pub(crate) fn cstring(what: &'static str, text: &str) -> Result<CString, PlanError> {
    CString::new(text).map_err(|_| PlanError::Nul {
        what,
        text: text.to_owned(),
    })
}

/// Converts a path for the kernel, as [`cstring`] does a text.
pub(crate) fn cstring_path(what: &'static str, path: &Path) -> Result<CString, PlanError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| PlanError::Nul {
        what,
        text: path.display().to_string(),
    })
}

/// Returns a path without `.`, `..` and doubled slashes; a relative one is taken from `/`.
///
/// Links are not resolved: the result serves for comparisons with known paths. The kernel resolves the paths that are
/// used.
pub(crate) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns the place of a mount inside the container. Some callers write the path on the host, which begins with the
/// root's.
pub(crate) fn destination(path: &str, root: Option<&Path>) -> Result<String, PlanError> {
    let cleaned = clean(path);
    let below = root.and_then(|root| {
        let rest = Path::new(&cleaned).strip_prefix(root).ok()?;
        (root != Path::new("/") && root.is_absolute()).then(|| clean(&rest.to_string_lossy()))
    });
    let inside = below.unwrap_or(cleaned);
    if inside == "/" {
        return Err(PlanError::Invalid(format!(
            "mount {path:?} is on the top of rootfs"
        )));
    }
    Ok(inside)
}

/// Returns the mount points in a `mountinfo` text at which the host's procfs and sysfs can be seen whole, except
/// those below the container's root. [`crate::Switch::Move`] hides them.
#[must_use]
pub fn whole_proc_and_sys(mountinfo: &str, root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let Some((mount, fs)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = mount.split(' ');
        let (Some("/"), Some(point)) = (fields.nth(3), fields.next()) else {
            continue;
        };
        let point = Path::new(OsStr::from_bytes(&unescape(point))).to_path_buf();
        if matches!(fs.split(' ').next(), Some("proc" | "sysfs")) && !point.starts_with(root) {
            found.push(point);
        }
    }
    found
}

/// Decodes the octal escapes of proc_pid_mountinfo(5).
fn unescape(text: &str) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let Some((&first, rest)) = bytes.split_first() {
        let digits = rest.get(..3).filter(|_| first == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes = match code {
            Some(byte) => {
                result.push(byte);
                &rest[3..]
            }
            None => {
                result.push(first);
                rest
            }
        };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleaning() {
        for (path, cleaned) in [
            ("/proc/", "/proc"),
            ("//proc/./x", "/proc/x"),
            ("proc", "/proc"),
            ("/a/../../proc", "/proc"),
            ("", "/"),
            ("/..", "/"),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }

    #[test]
    fn destinations() {
        let root = Some(Path::new("/bundle/rootfs"));
        for (path, inside) in [
            ("/bundle/rootfs/mnt/x", "/mnt/x"),
            ("/bundle/rootfs2/x", "/bundle/rootfs2/x"),
            ("mnt", "/mnt"),
        ] {
            assert_eq!(destination(path, root).unwrap(), inside);
        }
        for path in ["/", "/x/..", "/bundle/rootfs/"] {
            assert!(destination(path, root).is_err(), "{path}");
        }
    }

    #[test]
    fn mounts_to_hide() {
        let text = "22 1 0:20 / /proc rw - proc proc rw\n\
            23 1 0:21 / /sys rw shared:7 - sysfs sysfs rw\n\
            24 1 0:20 /sys /x rw - proc proc rw\n\
            25 1 0:20 / /b\\040c/proc rw - proc proc rw\n\
            26 1 0:30 / /r/proc rw - proc proc rw\n\
            broken\n";
        let found = whole_proc_and_sys(text, Path::new("/r"));
        assert_eq!(
            found,
            [Path::new("/proc"), Path::new("/sys"), Path::new("/b c/proc")]
        );
    }
}
