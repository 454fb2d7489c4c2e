//! Packages of Debian that are files: unpacked side by side into one root, as dpkg(1) would.
//!
//! Their scripts do not run. What these make counts for nothing, but for the accounts, which every root needs.

use super::GraphFault;
use super::import::{Inventory, open_dir};
use super::names::{Installed, scan};
use super::parts::Root;
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use tote_archive::{
    DebianPackage, Devices, Entry, EntryPath, ExtractOptions, TransferError, extract, transfer, walk,
};
use tote_builder::{Workspace, make_dir};
use tote_graph::packages::{self, Package};
use tote_needs::Tree;

/// Directories of the top whose files are below `usr`, where distributions have links to these.
const MERGED: [&[u8]; 6] = [b"bin", b"sbin", b"lib", b"lib32", b"lib64", b"libx32"];
/// Files of the accounts, and where the package that has them keeps them for its script.
const ACCOUNTS: [(&str, &str); 2] = [
    ("etc/passwd", "usr/share/base-passwd/passwd.master"),
    ("etc/group", "usr/share/base-passwd/group.master"),
];

/// A root of packages; goes with the value.
pub(super) struct Unpacked {
    root: OwnedFd,
    packages: Vec<Package>,
    lists: Vec<Vec<Vec<u8>>>,
    _workspace: Workspace,
}

impl Unpacked {
    /// Unpacks packages, and all packages of directories. This process must have the ids of the files' owners.
    pub(super) fn of(home: &Home, places: &[String]) -> Result<Self, EngineError> {
        let files = files_of(places)?;
        // A killed import leaves its directory to the next one, and to builds.
        let workspace = Workspace::make(home, &|_| None)?;
        let place = workspace.path().join("root");
        make_dir(&place, 0o755)?;
        let root = open_dir(&place)?;
        let mut found: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
        let (mut packages, mut lists) = (Vec::new(), Vec::new());
        for file in &files {
            let apart = workspace.path().join(packages.len().to_string());
            make_dir(&apart, 0o755)?;
            let package = unpack(file, open_dir(&apart)?.as_fd())?;
            let key = (package.name.clone(), package.architecture.clone());
            if let Some(other) = found.insert(key, file.clone()) {
                return Err(GraphFault::Twice {
                    package: package.name,
                    files: [other, file.clone()],
                }
                .into());
            }
            lists.push(merge(file, open_dir(&apart)?.as_fd(), root.as_fd())?);
            packages.push(package);
            tote_sys::best_effort(tote_sys::remove_tree(&apart));
        }
        complete(root.as_fd()).map_err(|errno| EngineError::file("complete", &place)(errno))?;
        Ok(Self {
            root,
            packages,
            lists,
            _workspace: workspace,
        })
    }

    /// The root. Times are those of the packages; other files have none.
    pub(super) fn root(&self) -> Root<'_> {
        Root {
            files: self.root.as_fd(),
            before: None,
            is_host: false,
            keeps_times: false,
        }
    }

    /// Takes the names of the root and its packages.
    pub(super) fn inventory(&mut self, name: &str) -> Result<Inventory, EngineError> {
        let mut tree = Tree::default();
        let failed = super::import::unreadable(name);
        scan(self.root.as_fd(), "", &[], &mut tree).map_err(failed)?;
        let depends = packages::dependencies(&self.packages);
        Ok(Inventory {
            tree,
            installed: Installed {
                packages: std::mem::take(&mut self.packages),
                lists: std::mem::take(&mut self.lists),
            },
            depends,
        })
    }
}

/// Returns the files that were given, and those of directories, sorted by name.
fn files_of(places: &[String]) -> Result<Vec<PathBuf>, EngineError> {
    let mut files = Vec::new();
    for place in places {
        let path = Path::new(place);
        let entries = match std::fs::read_dir(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                files.push(path.to_owned());
                continue;
            }
            entries => entries.map_err(EngineError::file("open", path))?,
        };
        let before = files.len();
        for entry in entries {
            let entry = entry.map_err(EngineError::file("list", path))?.path();
            if entry.extension().is_some_and(|ending| ending == "deb") {
                files.push(entry);
            }
        }
        if files.len() == before {
            return Err(GraphFault::NoDebs(path.to_owned()).into());
        }
        files[before..].sort();
    }
    Ok(files)
}

/// Unpacks one package, and reads its description.
fn unpack(path: &Path, into: BorrowedFd<'_>) -> Result<Package, EngineError> {
    let failed = |source| GraphFault::Deb {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(EngineError::file("open", path))?;
    let mut package = DebianPackage::open(file).map_err(failed)?;
    let text = package.description().map_err(failed)?;
    let described = packages::dpkg(&text).into_iter().next();
    let described = described.ok_or_else(|| {
        failed(tote_archive::PackageError::Format(
            "its description has no name or no version",
        ))
    })?;
    let mut files = package.files().map_err(failed)?;
    extract(&mut files, into, &options()).map_err(|error| unpacked(path, error.into()))?;
    Ok(described)
}

fn options() -> ExtractOptions {
    ExtractOptions {
        devices: Devices::Skip,
        keep_root: true,
        ..ExtractOptions::default()
    }
}

fn unpacked(path: &Path, source: TransferError) -> GraphFault {
    GraphFault::Unpack {
        path: path.to_owned(),
        source: Box::new(source),
    }
}

/// Puts the files of one package into the root of all; returns their paths there.
fn merge(path: &Path, from: BorrowedFd<'_>, root: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut list = Vec::new();
    let entries = walk(from).without_links().filter_map(|found| match found {
        Ok((entry, file)) => {
            let entry = merged(entry)?;
            list.push(entry.path.as_bytes().to_vec());
            Some(Ok((entry, file)))
        }
        Err(error) => Some(Err(error)),
    });
    transfer(entries, root, &options(), &mut |_| {}).map_err(|error| unpacked(path, error))?;
    Ok(list)
}

/// An entry at its place below `usr`. `None` for the directories and links of the top that are made anyway.
fn merged(mut entry: Entry) -> Option<Entry> {
    let (is_moved, is_top) = {
        let mut names = entry.path.components();
        let is_moved = names.next().is_some_and(|top| MERGED.contains(&top));
        (is_moved, names.next().is_none())
    };
    if !is_moved {
        return Some(entry);
    }
    if is_top && !matches!(entry.kind, tote_archive::Kind::File { .. }) {
        return None;
    }
    // A path with four letters more than the limit stays where it is.
    if let Ok(path) = EntryPath::parse(&[b"usr/", entry.path.as_bytes()].concat()) {
        entry.path = path;
    }
    Some(entry)
}

/// Adds the links of the top, and accounts where no package has them.
fn complete(root: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    let is_there = |path: &[u8]| {
        let stat = rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW);
        tote_sys::reachable(stat).map(|stat| stat.is_some())
    };
    for top in MERGED {
        let target = [b"usr/", top].concat();
        if is_there(&target)? && !is_there(top)? {
            rustix::fs::symlinkat(&*target, root, top)?;
        }
    }
    for (path, source) in ACCOUNTS {
        if is_there(path.as_bytes())? || !is_there(source.as_bytes())? {
            continue;
        }
        let dir = Mode::from_raw_mode(0o755);
        match rustix::fs::mkdirat(root, "etc", dir) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let straight = |path: &str, flags| tote_builder::open_straight(root, path.as_bytes(), flags);
        let mut from = File::from(straight(source, OFlags::RDONLY | OFlags::NONBLOCK)?);
        let etc = straight("etc", OFlags::RDONLY | OFlags::DIRECTORY)?;
        let name = path.trim_start_matches("etc/");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = rustix::fs::openat(etc, name, flags, Mode::from_raw_mode(0o644))?;
        rustix::fs::fchmod(&to, Mode::from_raw_mode(0o644))?;
        let copied = std::io::copy(&mut from, &mut File::from(to));
        copied.map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_archive::Kind;

    #[test]
    fn files_of_the_top_come_below_usr() {
        let entry = |path: &str, kind: Kind| Entry::new(EntryPath::parse(path.as_bytes()).unwrap(), kind);
        let link = || Kind::Symlink {
            target: b"usr/lib".to_vec(),
        };
        let file = || Kind::File { size: 1 };
        for (path, kind, found) in [
            ("bin/sh", file(), Some("usr/bin/sh")),
            (
                "lib/x86_64-linux-gnu",
                Kind::Directory,
                Some("usr/lib/x86_64-linux-gnu"),
            ),
            ("lib64/ld.so", link(), Some("usr/lib64/ld.so")),
            ("lib", Kind::Directory, None),
            ("lib", link(), None),
            ("usr/lib", Kind::Directory, Some("usr/lib")),
            ("library/x", file(), Some("library/x")),
            ("etc/bin/x", file(), Some("etc/bin/x")),
        ] {
            let path_of = merged(entry(path, kind)).map(|entry| entry.path.to_string());
            assert_eq!(
                path_of.as_deref().map(|path| path.trim_start_matches('/')),
                found,
                "{path}"
            );
        }
    }

    #[test]
    fn places_are_files_and_directories() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        for name in ["b.deb", "a.deb", "a.txt"] {
            std::fs::write(place(name), "").unwrap();
        }
        std::fs::create_dir(place("none")).unwrap();
        let found = files_of(&[place("a.txt"), place("")]).unwrap();
        let names: Vec<_> = found
            .iter()
            .filter_map(|path| path.file_name()?.to_str())
            .collect();
        assert_eq!(names, ["a.txt", "a.deb", "b.deb"]);
        for (name, told) in [("none", "no file *.deb"), ("gone.deb", "gone.deb")] {
            let error = files_of(&[place(name)]).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
