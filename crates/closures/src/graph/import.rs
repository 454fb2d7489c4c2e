//! Import: a root becomes nodes.

use super::debs::Unpacked;
use super::names::{Installed, add_listed, scan};
use super::parts::{Made, Root};
use super::place::{GraphRoot, forget_starts, keep_newer, lock, path_in, roots_dir};
use super::{GraphFault, host_settings};
use crate::contained::{Contained, Watched};
use crate::rootfs::Source;
use crate::{EngineError, Home, MachineError, open_store};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use tote_bundle::Image;
use tote_graph::{BASE, Draft, NodeKind, Part, seal, split};
use tote_image::Digest;
use tote_needs::{Contents, FileReference, Node, References, Tree};
use tote_rootfs::HostImage;
use tote_state::record;
use tote_store::{Ingest, Store, sha256};

/// Source of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphSource {
    /// An image of the store.
    Image(String),
    /// A directory with a root.
    Directory(String),
    /// Packages of this machine, and those that they depend on.
    Packages(Vec<String>),
    /// Files of packages, and directories of such files.
    Debs(Vec<String>),
    /// All packages of this machine.
    Host,
}

/// Result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphImported {
    /// Its record.
    pub root: GraphRoot,
    /// Nodes that were not there before.
    pub new: usize,
    /// Bytes that were written for them.
    pub written: u64,
    /// Dependencies of files of packages that none of them meets: each as a package, and what it depends on.
    pub unmet: Vec<(String, String)>,
}

impl GraphSource {
    /// Understands the words of the command: `deb:PACKAGE…`, `deb:PATH…`, `host`, a path, or an image. A name of a package has no
    /// slash, and a path has one.
    ///
    /// # Errors
    /// [`GraphFault::Mixed`].
    pub fn parse(words: &[String]) -> Result<Self, EngineError> {
        let first = words.first().map(String::as_str).unwrap_or_default();
        let packages: Vec<String> = words
            .iter()
            .filter_map(|word| word.strip_prefix("deb:"))
            .map(str::to_owned)
            .collect();
        if let Some(other) = words.iter().find(|word| !word.starts_with("deb:"))
            && words.len() > 1
        {
            return Err(GraphFault::Mixed(other.clone()).into());
        }
        let is_path = |word: &&String| word.contains('/');
        if let Some(other) = packages
            .iter()
            .find(|word| is_path(word) != is_path(&&packages[0]))
        {
            return Err(GraphFault::Mixed(format!("deb:{other}")).into());
        }
        Ok(match first {
            "host" => Self::Host,
            _ if packages.iter().any(|word| is_path(&word)) => Self::Debs(packages),
            _ if !packages.is_empty() => Self::Packages(packages),
            path if path.starts_with(['/', '.']) => Self::Directory(path.to_owned()),
            image => Self::Image(image.to_owned()),
        })
    }

    /// The name under which its nodes are kept.
    pub fn name(&self) -> String {
        match self {
            Self::Image(name) => name.clone(),
            Self::Directory(path) => absolute(path),
            Self::Debs(paths) => {
                let paths = paths.iter().map(|path| format!("deb:{}", absolute(path)));
                paths.collect::<Vec<_>>().join(" ")
            }
            Self::Packages(names) => format!("deb:{}", names.join(" deb:")),
            Self::Host => "host".to_owned(),
        }
    }
}

fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path);
    absolute.map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Names of a root, with the packages that have them.
pub(super) struct Inventory {
    pub tree: Tree,
    pub installed: Installed,
    pub(super) depends: Vec<Vec<usize>>,
}

/// Imports a root. This process must have the ids of the files' owners.
///
/// # Errors
/// [`EngineError`]; what was imported before stays as it is.
pub fn graph_import(home: &Home, source: &GraphSource) -> Result<GraphImported, EngineError> {
    let _lock = lock(home)?;
    let store = open_store(home)?;
    let name = source.name();
    match source {
        GraphSource::Image(image) => {
            let source = Source::open(home, &Image::Stored(image.clone()))?;
            let root = Root {
                files: source.dir()?,
                before: None,
                is_host: false,
                keeps_times: true,
            };
            let id = store.resolve(image)?;
            import(
                home,
                (&store, Some(&id)),
                &name,
                root,
                &all_of(root.files, &name)?,
            )
        }
        GraphSource::Directory(path) => {
            let dir = open_dir(Path::new(path))?;
            let root = Root {
                files: dir.as_fd(),
                before: None,
                is_host: false,
                keeps_times: false,
            };
            import(home, (&store, None), &name, root, &all_of(root.files, &name)?)
        }
        GraphSource::Debs(places) => {
            let mut unpacked = Unpacked::of(home, places)?;
            let inventory = unpacked.inventory(&name)?;
            let made = import(home, (&store, None), &name, unpacked.root(), &inventory)?;
            // Elsewhere a package manager or the image's maker has seen to that.
            let unmet = tote_graph::packages::unmet(&inventory.installed.packages);
            Ok(GraphImported { unmet, ..made })
        }
        GraphSource::Packages(_) | GraphSource::Host => {
            let dir = open_dir(Path::new("/"))?;
            let skeleton = HostImage::prepare(&home.host_images()).map_err(MachineError::HostImage)?;
            let root = Root {
                files: dir.as_fd(),
                before: Some(skeleton.layer()),
                is_host: true,
                keeps_times: false,
            };
            let wanted = match source {
                GraphSource::Packages(names) => Some(names.as_slice()),
                _ => None,
            };
            let inventory = of_host(root, skeleton.layer(), wanted)?;
            import(home, (&store, None), &name, root, &inventory)
        }
    }
}

pub(super) fn open_dir(path: &Path) -> Result<OwnedFd, EngineError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    Ok(opened.map_err(|errno| GraphFault::Directory {
        path: path.to_owned(),
        source: errno.into(),
    })?)
}

pub(super) fn unreadable(root: &str) -> impl Fn(std::io::Error) -> EngineError + '_ {
    move |source| {
        let fault = GraphFault::File {
            root: root.to_owned(),
            path: "/".to_owned(),
            source,
        };
        fault.into()
    }
}

/// Everything that a root has.
pub(super) fn all_of(root: BorrowedFd<'_>, name: &str) -> Result<Inventory, EngineError> {
    let mut tree = Tree::default();
    scan(root, "", &[b"proc", b"sys", b"dev"], &mut tree).map_err(unreadable(name))?;
    let mut installed = Installed::read(root, name)?;
    installed.read_lists(root, name, &|_| true)?;
    let depends = tote_graph::packages::dependencies(&installed.packages);
    Ok(Inventory {
        tree,
        installed,
        depends,
    })
}

/// The host's packages that are wanted, with those that they depend on; all for `None`.
fn of_host(
    root: Root<'_>,
    skeleton: BorrowedFd<'_>,
    wanted: Option<&[String]>,
) -> Result<Inventory, EngineError> {
    let mut installed = Installed::read(root.files, "host")?;
    let depends = tote_graph::packages::dependencies(&installed.packages);
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    let mut queue: Vec<usize> = match wanted {
        None => (0..installed.packages.len()).collect(),
        Some(names) => {
            let mut queue = Vec::new();
            for name in names {
                let found = installed
                    .packages
                    .iter()
                    .position(|package| package.name == *name);
                queue.push(found.ok_or_else(|| GraphFault::NoPackage(name.clone()))?);
            }
            queue
        }
    };
    while let Some(at) = queue.pop() {
        if chosen.insert(at) {
            queue.extend(&depends[at]);
        }
    }
    installed.read_lists(root.files, "host", &|at| chosen.contains(&at))?;
    let mut tree = Tree::default();
    scan(skeleton, "", &[b"usr", b"proc", b"sys", b"dev"], &mut tree).map_err(unreadable("host"))?;
    for path in installed.lists.iter().flatten() {
        if !path.starts_with(b"/proc") && !path.starts_with(b"/dev") && !path.starts_with(b"/sys") {
            add_listed(root.files, path, &mut tree).map_err(|errno| unreadable("host")(errno.into()))?;
        }
    }
    Ok(Inventory {
        tree,
        installed,
        depends,
    })
}

fn import(
    home: &Home,
    (store, expected): (&Store, Option<&Digest>),
    name: &str,
    root: Root<'_>,
    inventory: &Inventory,
) -> Result<GraphImported, EngineError> {
    let ingest = store.ingest_at_once()?;
    if let Some(image) = expected {
        ingest.expect(&store.image(image)?)?;
    }
    let parts = split(&inventory.tree, &inventory.installed.lists);
    let mut made: Vec<Made> = Vec::with_capacity(parts.len());
    for part in &parts {
        made.push(root.add(&ingest, &part.paths, part.package.is_some())?);
    }
    let written = made.iter().map(|made| made.layer.sizes.written).sum();
    let known: BTreeSet<_> = store.nodes()?.into_iter().map(|(id, _)| id).collect();
    let nodes = add_nodes(&ingest, &drafts(root, name, inventory, (&parts, &made))?)?;
    let record = GraphRoot {
        name: name.to_owned(),
        created: record::now(),
        nodes,
    };
    let path = path_in(roots_dir(home), name);
    keep_newer(name, &path)?;
    forget_starts(home)?;
    // Last: until now nothing has changed for others, and a killed import leaves garbage.
    record::write(&path, &record)?;
    let new = record.nodes.iter().filter(|id| !known.contains(id)).count();
    Ok(GraphImported {
        root: record,
        new,
        written,
        unmet: Vec::new(),
    })
}

/// Makes nodes of drafts, and puts their documents into the store.
pub(super) fn add_nodes(
    ingest: &Ingest<'_>,
    drafts: &[Draft],
) -> Result<Vec<tote_graph::NodeId>, EngineError> {
    let mut nodes = Vec::new();
    for (_, node) in seal(drafts, sha256) {
        nodes.push(ingest.node(&node.to_json())?);
    }
    nodes.sort();
    nodes.dedup();
    Ok(nodes)
}

fn drafts(
    root: Root<'_>,
    name: &str,
    inventory: &Inventory,
    (parts, made): (&[Part], &[Made]),
) -> Result<Vec<Draft>, EngineError> {
    let packages = &inventory.installed.packages;
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for part in parts {
        if let Some(package) = part.package {
            *counts.entry(&packages[package].name).or_default() += 1;
        }
    }
    let title = |package: usize| {
        let package = &packages[package];
        match counts.get(&*package.name) {
            Some(0 | 1) | None => package.name.clone(),
            _ => format!("{}:{}", package.name, package.architecture),
        }
    };
    let mut drafts: Vec<Draft> = parts
        .iter()
        .zip(made)
        .map(|(part, made)| Draft {
            name: part.package.map_or_else(|| part.name.clone(), title),
            version: part
                .package
                .map(|package| packages[package].version.clone())
                .unwrap_or_default(),
            kind: match part.package {
                Some(_) => NodeKind::Package,
                None => NodeKind::Directory,
            },
            layer: made.layer.diff_id,
            size: made.layer.sizes.size,
            files: made.layer.sizes.files,
            programs: made.programs.clone(),
            references: BTreeMap::new(),
        })
        .collect();
    let of_package: HashMap<usize, usize> = parts
        .iter()
        .enumerate()
        .filter_map(|(at, part)| part.package.map(|package| (package, at)))
        .collect();
    for (at, part) in parts.iter().enumerate() {
        let references = &mut drafts[at].references;
        if part.name != BASE {
            references.insert(0, "base".to_owned());
        }
        for depends in part
            .package
            .iter()
            .flat_map(|&package| &inventory.depends[package])
        {
            if let Some(to) = of_package.get(depends) {
                let why = format!("depends on {}", packages[*depends].name);
                references.entry(*to).or_insert(why);
            }
        }
    }
    let contents = Watched::new(OfRoot::new(root));
    add_files_references(&contents, inventory, parts, &mut drafts);
    contents
        .check()
        .map_err(|failure| GraphFault::of(name, failure))?;
    Ok(drafts)
}

/// Adds the references of files: interpreters, libraries, programs of `#!` lines, targets of packages' links.
fn add_files_references(
    contents: &dyn Contents,
    inventory: &Inventory,
    parts: &[Part],
    drafts: &mut [Draft],
) {
    let owners: HashMap<&[u8], usize> = parts
        .iter()
        .enumerate()
        .flat_map(|(at, part)| part.paths.iter().map(move |path| (&**path, at)))
        .collect();
    let settings = host_settings();
    let search = References::new(&inventory.tree, contents, &settings);
    let is_essential = |at: usize| {
        let package = parts[at].package;
        package.is_some_and(|package| inventory.installed.packages[package].is_essential)
    };
    for (at, part) in parts.iter().enumerate() {
        for path in &part.paths {
            // A file that is closed to this process names nothing that could be found; the caller hears of other failures.
            let mut found = search.of(path).unwrap_or_default();
            if part.package.is_some() {
                found.extend(search.link(path));
            }
            // Packages depend on all that their scripts begin, but for what every system has.
            let is_program = drafts[at]
                .programs
                .iter()
                .any(|program| program.trim_start_matches('/').as_bytes() == &**path);
            let words = is_program.then(|| search.shell_words(path).unwrap_or_default());
            let mut add = |reference: &FileReference, counts: &dyn Fn(usize) -> bool| {
                let name = String::from_utf8_lossy(&reference.name);
                let places = std::iter::once(&reference.to).chain(&reference.links);
                for to in places.filter_map(|place| owners.get(&**place).copied()) {
                    if to != at && counts(to) {
                        let why = || format!("/{} names {name}", String::from_utf8_lossy(path));
                        drafts[at].references.entry(to).or_insert_with(why);
                    }
                }
            };
            found.iter().for_each(|reference| add(reference, &|_| true));
            for reference in words.iter().flatten() {
                add(reference, &is_essential);
            }
        }
    }
}

/// The contents of a root that may be two directories.
pub(super) struct OfRoot<'a> {
    root: Root<'a>,
    files: Contained<'a>,
    before: Option<Contained<'a>>,
}

impl<'a> OfRoot<'a> {
    pub(super) fn new(root: Root<'a>) -> Self {
        Self {
            root,
            files: Contained::new(root.files),
            before: root.before.map(Contained::new),
        }
    }
}

impl Contents for OfRoot<'_> {
    fn read(&self, path: &[u8], offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        match &self.before {
            Some(before) if !path.starts_with(b"usr/") && self.root.is_before(path)? => {
                before.read(path, offset, length)
            }
            _ => self.files.read(path, offset, length),
        }
    }
}

/// True if a path of a tree is a file with content.
pub(super) fn is_file(tree: &Tree, path: &[u8]) -> bool {
    matches!(tree.get(path), Some(Node::File(size)) if *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sources() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            GraphSource::parse(&words)
        };
        let texts = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        for (words, source, name) in [
            (&["host"][..], GraphSource::Host, "host"),
            (&["nginx:1"], GraphSource::Image("nginx:1".to_owned()), "nginx:1"),
            (&["/a"], GraphSource::Directory("/a".to_owned()), "/a"),
            (
                &["deb:a", "deb:b"],
                GraphSource::Packages(texts(&["a", "b"])),
                "deb:a deb:b",
            ),
            (
                &["deb:/a/x.deb"],
                GraphSource::Debs(texts(&["/a/x.deb"])),
                "deb:/a/x.deb",
            ),
        ] {
            let found = parse(words).unwrap();
            assert_eq!(found.name(), name);
            assert_eq!(found, source);
        }
        for words in [&["deb:a", "b"][..], &["deb:a", "deb:./b"], &["host", "deb:a"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
