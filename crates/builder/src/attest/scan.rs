//! Search for the packages of a tree in the records of their managers. The tree is hostile: no link is followed out
//! of it, and files and depths have limits.

use super::spdx::BillOfMaterials;
use crate::EngineError;
use crate::{BuildFault, inside};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use tote_graph::packages::{self, Package};
use tote_sys::reachable;

/// Limit of a package manager's list, in bytes; Debian's are some megabytes.
const LIST_MAX: usize = 256 << 20;
/// Limit of a single package's own description, in bytes.
const DESCRIPTION_MAX: usize = 4 << 20;
/// Limit of nested directories.
const DEPTH_MAX: usize = 64;
/// Limit of listed packages.
const PACKAGES_MAX: usize = 200_000;
/// Directories of the kernel, which contain no packages.
const PASSED_OVER: [&[u8]; 3] = [b"proc", b"sys", b"dev"];

/// Searches a root file system for packages.
///
/// # Errors
/// Fails if a list cannot be read, or is too long.
pub(super) fn scan(root: &OwnedFd) -> Result<BillOfMaterials, EngineError> {
    let mut found = Vec::new();
    if let Some(text) = read(root, "var/lib/dpkg/status", LIST_MAX)? {
        found.extend(packages::dpkg(&text));
    }
    // Images without a package manager have one file for each package.
    for name in names(root, b"var/lib/dpkg/status.d")? {
        let name = String::from_utf8_lossy(&name).into_owned();
        if !name.ends_with(".md5sums")
            && let Some(text) = read(root, &format!("var/lib/dpkg/status.d/{name}"), LIST_MAX)?
        {
            found.extend(packages::dpkg(&text));
        }
    }
    for list in ["lib/apk/db/installed", "usr/lib/apk/db/installed"] {
        if let Some(text) = read(root, list, LIST_MAX)? {
            found.extend(packages::apk(&text));
        }
    }
    let mut walk = Walk { root, found };
    walk.below(&[], 0)?;
    let mut found = walk.found;
    found.sort();
    found.dedup();
    let mut release = None;
    for path in ["etc/os-release", "usr/lib/os-release"] {
        if release.is_none() {
            release = read(root, path, DESCRIPTION_MAX)?;
        }
    }
    Ok(BillOfMaterials {
        packages: found,
        distribution: packages::distribution(&release.unwrap_or_default()),
    })
}

fn read(root: &OwnedFd, path: &str, limit: usize) -> Result<Option<String>, EngineError> {
    let bytes = tote_rootfs::read_in_root(root, path, limit).map_err(BuildFault::Packages)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Lists the names in a directory; none if it is missing.
fn names(root: &OwnedFd, path: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut names = entries(path, inside::open(root, path, OFlags::RDONLY | OFlags::DIRECTORY))?;
    names.sort();
    Ok(names.into_iter().map(|(name, _)| name).collect())
}

/// Lists an opened directory, with whether each entry is one as well; nothing if its path leads to none.
fn entries(path: &[u8], dir: Result<OwnedFd, Errno>) -> Result<Vec<(Vec<u8>, bool)>, EngineError> {
    let failed = |errno: Errno| BuildFault::Source {
        path: String::from_utf8_lossy(path).into_owned(),
        source: errno.into(),
    };
    let Some(dir) = reachable(dir).map_err(failed)? else {
        return Ok(Vec::new());
    };
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::read_from(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            entries.push((name.to_vec(), entry.file_type() == FileType::Directory));
        }
    }
    Ok(entries)
}

/// Search for the records of the package managers of languages.
struct Walk<'a> {
    root: &'a OwnedFd,
    found: Vec<Package>,
}

impl Walk<'_> {
    fn below(&mut self, path: &[u8], depth: usize) -> Result<(), EngineError> {
        if depth > DEPTH_MAX || self.found.len() > PACKAGES_MAX {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let entries = entries(path, inside::open_straight(self.root, path, flags))?;
        let is_modules = inside::split(path).1 == b"node_modules" || is_scope(path);
        for (name, is_dir) in entries {
            let below = match path {
                [] => name.clone(),
                path => [path, b"/", &name].concat(),
            };
            if is_dir && !(path.is_empty() && PASSED_OVER.contains(&&*name)) {
                let python = match &*name {
                    name if name.ends_with(b".dist-info") => Some("METADATA"),
                    name if name.ends_with(b".egg-info") => Some("PKG-INFO"),
                    _ => None,
                };
                if let Some(file) = python {
                    self.describe(&below, file, packages::python);
                    continue;
                }
                if is_modules && !name.starts_with(b"@") {
                    self.describe(&below, "package.json", packages::node);
                }
                self.below(&below, depth + 1)?;
            } else if name.ends_with(b".egg-info") {
                self.describe(&below, "", packages::python);
            }
        }
        Ok(())
    }

    /// Reads the description of one package. An unreadable file is skipped.
    fn describe(&mut self, path: &[u8], file: &str, parse: fn(&str) -> Option<Package>) {
        let path = String::from_utf8_lossy(path);
        let path = format!("{path}/{file}");
        if let Ok(Some(text)) = read(self.root, path.trim_end_matches('/'), DESCRIPTION_MAX) {
            self.found.extend(parse(&text));
        }
    }
}

/// True for `node_modules/@SCOPE`.
fn is_scope(path: &[u8]) -> bool {
    let (above, name) = inside::split(path);
    name.starts_with(b"@") && inside::split(above).1 == b"node_modules"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_where_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("var/lib/dpkg/status.d/base", "Package: base\nVersion: 1\n");
        write("var/lib/dpkg/status.d/base.md5sums", "0 a\n");
        write("usr/lib/apk/db/installed", "P:musl\nV:2\n\n");
        write("usr/lib/os-release", "ID=x\n");
        write(
            "opt/v/site-packages/a-1.dist-info/METADATA",
            "Name: a\nVersion: 3\n",
        );
        write("opt/v/site-packages/b.egg-info", "Name: b\nVersion: 4\n");
        write("app/node_modules/c/package.json", r#"{"name":"c","version":"5"}"#);
        write(
            "app/node_modules/@s/d/package.json",
            r#"{"name":"@s/d","version":"6"}"#,
        );
        write(
            "app/node_modules/c/lib/package.json",
            r#"{"name":"no","version":"7"}"#,
        );
        write("app/package.json", r#"{"name":"app","version":"8"}"#);
        write("proc/e.egg-info", "Name: e\nVersion: 9\n");
        // Links are not followed: neither in a circle nor out of the tree.
        std::os::unix::fs::symlink("..", dir.path().join("app/up")).unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        let root = crate::view::open(dir.path(), OFlags::RDONLY).unwrap();
        let bill = scan(&root).unwrap();
        let names: Vec<_> = bill
            .packages
            .iter()
            .map(|found| format!("{}@{}", found.name, found.version))
            .collect();
        assert_eq!(names, ["base@1", "musl@2", "a@3", "b@4", "@s/d@6", "c@5"]);
        assert_eq!(bill.distribution.0, "x");
    }
}
