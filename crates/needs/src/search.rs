//! The search of the dynamic linker for libraries, ld.so(8).

use crate::cache::{Cache, cache_of, conf_of, musl_of};
use crate::elf::Machine;
use crate::object::{Contents, Object, machine};
use crate::tree::{Node, Tree, join, parent};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Directories in which libraries are looked for last: those of glibc, of Debian's builds of it, and of musl.
const DEFAULT: [&str; 8] = [
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
    "/lib/{multiarch}",
    "/usr/lib/{multiarch}",
    "/lib32",
];
/// Debian's names of machines.
const MULTIARCH: [&str; 9] = [
    "x86_64-linux-gnu",
    "aarch64-linux-gnu",
    "i386-linux-gnu",
    "arm-linux-gnueabihf",
    "arm-linux-gnueabi",
    "riscv64-linux-gnu",
    "powerpc64le-linux-gnu",
    "s390x-linux-gnu",
    "x86_64-linux-musl",
];
/// Values of `$LIB`, besides those names.
const LIB: [&str; 2] = ["lib64", "lib"];
/// Most places of a list that are looked at.
const MAX_PLACES: usize = 64;

/// The search in a root.
pub(crate) struct Search<'a> {
    tree: &'a Tree,
    contents: &'a dyn Contents,
    cache: Cache,
    library_path: Vec<Vec<u8>>,
    /// Directories of configuration and convention.
    dirs: Vec<Vec<u8>>,
    machines: RefCell<BTreeMap<Box<[u8]>, Option<Machine>>>,
}

impl<'a> Search<'a> {
    /// Reads the configuration of a root. `library_path` is the value of `LD_LIBRARY_PATH`.
    pub(crate) fn new(tree: &'a Tree, contents: &'a dyn Contents, library_path: &[u8]) -> Self {
        let mut dirs = conf_of(tree, contents);
        dirs.extend(musl_of(tree, contents));
        for dir in DEFAULT {
            match dir.strip_suffix("{multiarch}") {
                Some(dir) => dirs.extend(MULTIARCH.map(|name| format!("{dir}{name}").into_bytes())),
                None => dirs.push(dir.as_bytes().to_vec()),
            }
        }
        // Most roots have few of them.
        dirs.retain(|dir| tree.resolve(dir).is_some());
        Self {
            tree,
            contents,
            cache: cache_of(tree, contents),
            library_path: places(library_path),
            dirs,
            machines: RefCell::default(),
        }
    }

    /// Finds a library for the object at `path`; `inherited` are the places of `DT_RPATH` of the objects that load it.
    /// There may be several: variants for processors.
    pub(crate) fn find(
        &self,
        name: &[u8],
        (path, object): (&[u8], &Object),
        inherited: &[Vec<u8>],
    ) -> Vec<Box<[u8]>> {
        let origin = join(b"/", parent(path));
        if name.contains(&b'/') {
            return self
                .expand(name, &origin)
                .iter()
                .filter_map(|path| self.fits(path, object.machine))
                .collect();
        }
        let own = object
            .runpath
            .is_empty()
            .then_some(&object.rpath)
            .into_iter()
            .flatten();
        let before = own.chain(inherited);
        let before = before
            .take(MAX_PLACES)
            .flat_map(|place| self.expand(place, &origin));
        let given = self.library_path.iter().cloned();
        let after = object
            .runpath
            .iter()
            .take(MAX_PLACES)
            .flat_map(|place| self.expand(place, &origin));
        for dir in before.chain(given).chain(after) {
            let found = self.in_dir(&dir, name, object.machine);
            if !found.is_empty() {
                return found;
            }
        }
        let mut found: Vec<Box<[u8]>> = Vec::new();
        for path in self.cache.get(name).into_iter().flatten() {
            found.extend(self.fits(path, object.machine));
        }
        if !found.is_empty() {
            return found;
        }
        for dir in &self.dirs {
            let found = self.in_dir(dir, name, object.machine);
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Returns the library of a directory, and its variants for processors.
    fn in_dir(&self, dir: &[u8], name: &[u8], machine: Machine) -> Vec<Box<[u8]>> {
        let mut found: Vec<Box<[u8]>> = self.fits(&join(dir, name), machine).into_iter().collect();
        if let Some(real) = self.tree.resolve(dir) {
            let variants = join(&real.path, b"glibc-hwcaps");
            let is_variant = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next() == Some(name);
            if self.tree.get(&variants) == Some(&Node::Directory) {
                let paths = self.tree.below(&variants);
                let paths = paths.iter().filter(|path| is_variant(path));
                found.extend(paths.filter_map(|path| self.fits(path, machine)));
            }
        }
        found
    }

    /// Returns the path as it was asked for, if it leads to an ELF file for that machine.
    fn fits(&self, path: &[u8], machine: Machine) -> Option<Box<[u8]>> {
        let found = self.tree.resolve(path)?;
        if !matches!(self.tree.get(&found.path), Some(Node::File(_))) {
            return None;
        }
        let mut machines = self.machines.borrow_mut();
        let of = *machines
            .entry(found.path.clone())
            .or_insert_with(|| self::machine(self.contents, &found.path));
        (of == Some(machine)).then(|| path.into())
    }

    /// Replaces `$ORIGIN`, `$LIB` and `$PLATFORM`.
    fn expand(&self, place: &[u8], origin: &[u8]) -> Vec<Vec<u8>> {
        if !place.contains(&b'$') {
            return vec![place.to_vec()];
        }
        let place = replace(place, &[b"$ORIGIN", b"${ORIGIN}"], origin);
        if !place.contains(&b'$') {
            return vec![place];
        }
        let libs = MULTIARCH.iter().map(|name| format!("lib/{name}"));
        let libs = libs.chain(LIB.iter().map(ToString::to_string));
        libs.map(|lib| {
            let place = replace(&place, &[b"$LIB", b"${LIB}"], lib.as_bytes());
            replace(&place, &[b"$PLATFORM", b"${PLATFORM}"], b"x86_64")
        })
        .collect()
    }
}

fn replace(text: &[u8], names: &[&[u8]], value: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, after)) = rest.split_first() {
        match names.iter().find_map(|name| rest.strip_prefix(*name)) {
            Some(after) if *first == b'$' => {
                out.extend_from_slice(value);
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

/// Splits a list of directories as ld.so does.
fn places(list: &[u8]) -> Vec<Vec<u8>> {
    let is_between = |byte: &u8| matches!(byte, b':' | b';');
    list.split(is_between)
        .filter(|place| !place.is_empty())
        .take(MAX_PLACES)
        .map(<[u8]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_replaced() {
        for (text, replaced) in [
            ("$ORIGIN/../lib", "/opt/bin/../lib"),
            ("${ORIGIN}", "/opt/bin"),
            ("$ORIGINAL", "/opt/binAL"),
            ("/x$", "/x$"),
            ("", ""),
        ] {
            let found = super::replace(text.as_bytes(), &[b"$ORIGIN", b"${ORIGIN}"], b"/opt/bin");
            assert_eq!(found, replaced.as_bytes(), "{text}");
        }
    }
}
