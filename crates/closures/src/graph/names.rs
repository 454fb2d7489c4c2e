//! The names of a root: what it has, and to which packages that belongs.

use super::GraphFault;
use crate::EngineError;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use tote_graph::packages::{self, Package};
use tote_needs::{Node, Tree};
use tote_rootfs::ReadError;

/// Limit of a package manager's list in bytes.
const LIST_MAX: usize = 256 << 20;
/// Directory of the packages of an image without a package manager.
const APART: &str = "var/lib/dpkg/status.d";
/// Limit of nested directories.
const DEPTH_MAX: usize = 64;
/// Size that stands for one that was not looked at.
const SOME: u64 = 1;

/// Packages of a root, each with its paths in its own words.
#[derive(Debug, Default)]
pub(super) struct Installed {
    pub packages: Vec<Package>,
    pub(super) lists: Vec<Vec<Vec<u8>>>,
}

impl Installed {
    /// Reads the packages of a root named `name`; those of dpkg that `wanted` is false for have no lists.
    pub(super) fn read(root: BorrowedFd<'_>, name: &str) -> Result<Self, EngineError> {
        let mut installed = Self::default();
        if let Some(text) = read(root, name, "var/lib/dpkg/status")? {
            installed.packages = packages::dpkg(&text);
        }
        for file in described_apart(root, name)? {
            let text = read(root, name, &format!("{APART}/{file}"))?;
            let found = packages::dpkg(&text.unwrap_or_default()).into_iter().next();
            installed.packages.extend(found);
        }
        for list in ["lib/apk/db/installed", "usr/lib/apk/db/installed"] {
            if let Some(text) = read(root, name, list)? {
                installed.packages.extend(packages::apk(&text));
            }
        }
        Ok(installed)
    }

    /// Reads the lists of the packages with these numbers; the others get none.
    pub(super) fn read_lists(
        &mut self,
        root: BorrowedFd<'_>,
        name: &str,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<(), EngineError> {
        self.lists = Vec::new();
        let mut apk = Vec::new();
        for list in ["lib/apk/db/installed", "usr/lib/apk/db/installed"] {
            if let Some(text) = read(root, name, list)? {
                apk.extend(packages::apk_files(&text));
            }
        }
        let mut apk = apk.into_iter();
        for (at, package) in self.packages.iter().enumerate() {
            if package.kind == packages::PackageKind::Alpine {
                self.lists
                    .push(apk.next().filter(|_| wanted(at)).unwrap_or_default());
                continue;
            }
            let mut list = Vec::new();
            if wanted(at) {
                let places = [
                    format!("var/lib/dpkg/info/{}:{}.list", package.name, package.architecture),
                    format!("var/lib/dpkg/info/{}.list", package.name),
                    format!("{APART}/{}.md5sums", package.name),
                ];
                for place in places {
                    if let Some(text) = read(root, name, &place)? {
                        list = match place.ends_with(".md5sums") {
                            true => packages::md5sums(&text),
                            false => text.lines().map(|line| line.as_bytes().to_vec()).collect(),
                        };
                        break;
                    }
                }
            }
            self.lists.push(list);
        }
        Ok(())
    }
}

/// Lists the packages of an image without a package manager, which has one file for each, and maybe one with sums beside it.
fn described_apart(root: BorrowedFd<'_>, name: &str) -> Result<Vec<String>, EngineError> {
    let failed = |source: Errno| GraphFault::Packages {
        root: name.to_owned(),
        source: ReadError::Open {
            path: APART.into(),
            source,
        },
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let dir = tote_builder::open_straight(root, APART.as_bytes(), flags);
    let Some(dir) = tote_sys::visible(dir).map_err(failed)? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in Dir::read_from(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // The name of a package is of ASCII.
        names.extend(std::str::from_utf8(entry.file_name().to_bytes()).map(str::to_owned));
    }
    names.retain(|name| !name.starts_with('.') && !name.ends_with(".md5sums"));
    names.sort();
    Ok(names)
}

fn read(root: BorrowedFd<'_>, name: &str, path: &str) -> Result<Option<String>, EngineError> {
    let bytes = tote_rootfs::read_in_root(root, path, LIST_MAX);
    let bytes = bytes.map_err(|source| GraphFault::Packages {
        root: name.to_owned(),
        source,
    })?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Adds the names below a directory of a root to a tree. Directories that are `skipped`, and those that this process may not
/// open, are left out. Sizes are not looked at.
pub(super) fn scan(
    root: BorrowedFd<'_>,
    below: &str,
    skipped: &[&[u8]],
    tree: &mut Tree,
) -> std::io::Result<()> {
    let mut open = vec![(below.as_bytes().to_vec(), 0)];
    while let Some((path, depth)) = open.pop() {
        list(root, &path, &mut |child, node| {
            if node == Node::Directory && depth < DEPTH_MAX && !skipped.contains(&child) {
                open.push((child.to_vec(), depth + 1));
            }
            tree.insert(child, node);
        })?;
    }
    Ok(())
}

/// Adds the names in a directory to a tree, in which directories are unread.
pub(super) fn read_names(root: BorrowedFd<'_>, path: &[u8], tree: &mut Tree) -> std::io::Result<()> {
    list(root, path, &mut |child, node| match node {
        Node::Directory => tree.insert_unread(child),
        node => tree.insert(child, node),
    })
}

/// Tells the names in a directory of a root; none of one that is gone, or that this process may not open.
fn list(root: BorrowedFd<'_>, path: &[u8], tell: &mut dyn FnMut(&[u8], Node)) -> std::io::Result<()> {
    let here = if path.is_empty() { b"." } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Some(opened) = tote_sys::visible(rustix::fs::openat(root, here, flags, Mode::empty()))? else {
        return Ok(());
    };
    let mut dir = Dir::new(opened)?;
    let mut child = path.to_vec();
    if !path.is_empty() {
        child.push(b'/');
    }
    let length = child.len();
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        child.truncate(length);
        child.extend_from_slice(name);
        let node = match entry.file_type() {
            FileType::Directory => Node::Directory,
            FileType::RegularFile => Node::File(SOME),
            FileType::Symlink => match target_at(dir.fd()?, name)? {
                Some(link) => link,
                None => continue,
            },
            FileType::Unknown => match node_at(dir.fd()?, name)? {
                Some(node) => node,
                None => continue,
            },
            _ => Node::Special,
        };
        tell(&child, node);
    }
    Ok(())
}

/// Looks at one name of a directory; `None` if nothing is there, or a socket.
fn node_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Node>, Errno> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    let Some(stat) = tote_sys::visible(stat)? else {
        return Ok(None);
    };
    Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Node::Directory,
        FileType::RegularFile => Node::File(u64::try_from(stat.st_size).unwrap_or_default()),
        FileType::Symlink => return target_at(dir, name),
        FileType::Socket => return Ok(None),
        _ => Node::Special,
    }))
}

/// Reads a symbolic link; `None` if it is gone.
fn target_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Node>, Errno> {
    // Another entry may have taken the name since it was listed.
    let target = match rustix::fs::readlinkat(dir, name, Vec::new()) {
        Err(Errno::INVAL) => return Ok(None),
        target => tote_sys::visible(target)?,
    };
    Ok(target.map(|target| Node::Link(target.to_bytes().into())))
}

/// Adds a path of a list, and the directories and links above it, to a tree: what there is of it in the root.
pub(super) fn add_listed(root: BorrowedFd<'_>, path: &[u8], tree: &mut Tree) -> Result<(), Errno> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let mut here: Vec<u8> = Vec::new();
    let count = names.clone().count();
    for (at, name) in names.enumerate() {
        if matches!(name, b"." | b"..") {
            return Ok(());
        }
        if !here.is_empty() {
            here.push(b'/');
        }
        here.extend_from_slice(name);
        let known = tree.get(&here).cloned();
        let node = match known {
            Some(node) => node,
            None => match node_at(root, &here)? {
                Some(node) => {
                    tree.insert(&here, node.clone());
                    node
                }
                None => return Ok(()),
            },
        };
        match node {
            Node::Directory => {}
            Node::Link(_) if at + 1 < count => {
                // Where that leads is in the tree, or becomes so.
                let Some(target) = follow_top(&here, &node) else {
                    return Ok(());
                };
                if tree.get(&target).is_none() {
                    match node_at(root, &target)? {
                        Some(found) => tree.insert(&target, found),
                        None => return Ok(()),
                    }
                }
                here = target;
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Where a link of the top, such as `bin`, leads, if that is a plain path.
fn follow_top(path: &[u8], node: &Node) -> Option<Vec<u8>> {
    let Node::Link(target) = node else { return None };
    if path.contains(&b'/') {
        return None;
    }
    let target = target.strip_prefix(b"/").unwrap_or(target);
    let is_plain = !target.is_empty()
        && target
            .split(|byte| *byte == b'/')
            .all(|name| !matches!(name, b"" | b"." | b".."));
    is_plain.then(|| target.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;

    fn open(dir: &std::path::Path) -> rustix::fd::OwnedFd {
        rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn absent_directories_have_no_names() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        let root = open(dir.path());
        for absent in ["none", "file", "link", "file/below"] {
            let mut tree = Tree::default();
            scan(root.as_fd(), absent, &[], &mut tree).unwrap();
            assert_eq!(tree.iter().count(), 0, "{absent}");
            let mut tree = Tree::default();
            add_listed(root.as_fd(), absent.as_bytes(), &mut tree).unwrap();
        }
    }

    /// A path that is too long stands for every failure that says nothing about the file.
    #[test]
    fn failures_are_not_absence() {
        let dir = tempfile::tempdir().unwrap();
        let root = open(dir.path());
        let long = vec![b'x'; 300];
        let mut tree = Tree::default();
        let below = std::str::from_utf8(&long).unwrap();
        let scanned = scan(root.as_fd(), below, &[], &mut tree).unwrap_err();
        assert_eq!(
            scanned.raw_os_error(),
            Some(Errno::NAMETOOLONG.raw_os_error()),
            "{scanned}"
        );
        assert!(read_names(root.as_fd(), &long, &mut tree).is_err());
        assert_eq!(
            add_listed(root.as_fd(), &long, &mut tree),
            Err(Errno::NAMETOOLONG)
        );
    }
}
