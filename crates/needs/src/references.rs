//! Names in one file: the edges whose closure programs need.

use crate::Settings;
use crate::analysis::programs_of;
use crate::elf;
use crate::object::{Contents, object};
use crate::script::{FIRST_BYTES, script_line};
use crate::search::Search;
use crate::tree::{Node, Tree, join, parent};

/// A file that another one names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileReference {
    /// Path of the file, without links.
    pub to: Box<[u8]>,
    /// Links on the way to it.
    pub links: Vec<Box<[u8]>>,
    /// The name, as it stands in the file that needs it.
    pub name: Vec<u8>,
}

/// The search for what files name in a root.
pub struct References<'a> {
    tree: &'a Tree,
    contents: &'a dyn Contents,
    settings: &'a Settings,
    search: Search<'a>,
}

impl std::fmt::Debug for References<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("References").finish_non_exhaustive()
    }
}

impl<'a> References<'a> {
    /// Reads the configuration of the root's dynamic linker.
    #[must_use]
    pub fn new(tree: &'a Tree, contents: &'a dyn Contents, settings: &'a Settings) -> Self {
        Self {
            tree,
            contents,
            settings,
            search: Search::new(tree, contents, &settings.library_path),
        }
    }

    /// Returns the interpreter and the libraries of an ELF file, or the programs of a `#!` line. `DT_RPATH` of a program
    /// counts for its own libraries only.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(&self, path: &[u8]) -> std::io::Result<Vec<FileReference>> {
        let mut found = Vec::new();
        if !matches!(self.tree.get(path), Some(Node::File(size)) if *size > 0) {
            return Ok(found);
        }
        let first = self.contents.read(path, 0, FIRST_BYTES.max(elf::HEADER))?;
        if let Some(line) = script_line(&first) {
            found.extend(self.reference(line.program, line.program));
            if let Some(program) = line.by_env() {
                let dirs = self.settings.path.split(|byte| *byte == b':');
                let mut places = dirs.map(|dir| join(dir, program));
                found.extend(places.find_map(|place| self.reference(&place, program)));
            }
            return Ok(found);
        }
        let Some(object) = object(self.contents, path, &first)? else {
            return Ok(found);
        };
        if let Some(interpreter) = &object.interpreter {
            found.extend(self.reference(interpreter, interpreter));
        }
        for name in &object.needed {
            for place in self.search.find(name, (path, &object), &[]) {
                found.extend(self.reference(&place, name));
            }
        }
        Ok(found)
    }

    /// Returns the programs whose names a shell script has; none for another file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn shell_words(&self, path: &[u8]) -> std::io::Result<Vec<FileReference>> {
        if !matches!(self.tree.get(path), Some(Node::File(size)) if *size > 0) {
            return Ok(Vec::new());
        }
        let first = self.contents.read(path, 0, FIRST_BYTES)?;
        if !script_line(&first).is_some_and(|line| line.is_of_shell()) {
            return Ok(Vec::new());
        }
        let places = programs_of(self.tree, self.contents, self.settings, path)?;
        Ok(places
            .iter()
            .filter_map(|place| self.reference(place, place))
            .collect())
    }

    fn reference(&self, place: &[u8], name: &[u8]) -> Option<FileReference> {
        let found = self.tree.resolve(place)?;
        matches!(self.tree.get(&found.path), Some(Node::File(_))).then(|| FileReference {
            to: found.path,
            links: found.links,
            name: name.to_vec(),
        })
    }

    /// Returns where a path leads, and the links on the way.
    #[must_use]
    pub fn link(&self, path: &[u8]) -> Option<FileReference> {
        let target = match self.tree.get(path) {
            Some(Node::Link(target)) => target,
            _ => return None,
        };
        let found = self.tree.follow(parent(path), target)?;
        (self.tree.get(&found.path) != Some(&Node::Directory)).then(|| FileReference {
            to: found.path,
            links: found.links,
            name: target.to_vec(),
        })
    }
}
