//! The names of a root: what it has, and to which packages that belongs.

use super::GraphFault;
use crate::EngineError;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use tote_graph::packages::{self, Package};
use tote_needs::{Node, Tree};

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
        for file in described_apart(root) {
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
fn described_apart(root: BorrowedFd<'_>) -> Vec<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let dir = tote_builder::open_straight(root, APART.as_bytes(), flags);
    let entries = dir
        .and_then(|dir| Dir::read_from(&dir))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let mut names: Vec<String> = names
        .filter(|name| !name.starts_with('.') && !name.ends_with(".md5sums"))
        .collect();
    names.sort();
    names
}

fn read(root: BorrowedFd<'_>, name: &str, path: &str) -> Result<Option<String>, EngineError> {
    let bytes = tote_rootfs::read_in_root(root, path, LIST_MAX);
    let bytes = bytes.map_err(|source| GraphFault::Packages {
        root: name.to_owned(),
        source,
    })?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Adds the names below a directory of a root to a tree. Directories that are `skipped`, and those that cannot be opened,
/// are left out. Sizes are not looked at.
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

/// Tells the names in a directory of a root; none of one that cannot be opened.
fn list(root: BorrowedFd<'_>, path: &[u8], tell: &mut dyn FnMut(&[u8], Node)) -> std::io::Result<()> {
    let here = if path.is_empty() { b"." } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::openat(root, here, flags, Mode::empty()) else {
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
            FileType::Symlink => match rustix::fs::readlinkat(dir.fd()?, entry.file_name(), Vec::new()) {
                Ok(target) => Node::Link(target.to_bytes().into()),
                Err(_) => continue,
            },
            FileType::Unknown => match node_at(dir.fd()?, name) {
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
pub(super) fn node_at(dir: BorrowedFd<'_>, name: &[u8]) -> Option<Node> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Node::Directory,
        FileType::RegularFile => Node::File(u64::try_from(stat.st_size).unwrap_or_default()),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new()).ok()?;
            Node::Link(target.to_bytes().into())
        }
        FileType::Socket => return None,
        _ => Node::Special,
    })
}

/// Adds a path of a list, and the directories and links above it, to a tree: what there is of it in the root.
pub(super) fn add_listed(root: BorrowedFd<'_>, path: &[u8], tree: &mut Tree) {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let mut here: Vec<u8> = Vec::new();
    let count = names.clone().count();
    for (at, name) in names.enumerate() {
        if matches!(name, b"." | b"..") {
            return;
        }
        if !here.is_empty() {
            here.push(b'/');
        }
        here.extend_from_slice(name);
        let known = tree.get(&here).cloned();
        let node = match known {
            Some(node) => node,
            None => match node_at(root, &here) {
                Some(node) => {
                    tree.insert(&here, node.clone());
                    node
                }
                None => return,
            },
        };
        match node {
            Node::Directory => {}
            Node::Link(_) if at + 1 < count => {
                // Where that leads is in the tree, or becomes so.
                let Some(target) = follow_top(&here, &node) else {
                    return;
                };
                if tree.get(&target).is_none() {
                    match node_at(root, &target) {
                        Some(found) => tree.insert(&target, found),
                        None => return,
                    }
                }
                here = target;
            }
            _ => return,
        }
    }
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
