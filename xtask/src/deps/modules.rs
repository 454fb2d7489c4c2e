//! The modules of a crate, one for each file, and the arrows between them.
//!
//! An arrow leads from the file that uses a name to the file that declares it: a name that a module only passes on
//! (`pub use`) is followed to its origin. Names of other crates, `mod` lines and imports of tests are ignored.

use super::tokens::{tokens, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// Path of a module below the crate's root, which has the empty path.
pub(crate) type Module = Vec<String>;

/// Arrows between the modules of a crate.
pub(crate) type Arrows = BTreeMap<Module, BTreeSet<Module>>;

/// Maximum number of modules through which a name is followed.
const MOST_HOPS: usize = 16;

/// A name that a `use` brings into a module, and the path that it stands for.
struct Import {
    path: Vec<String>,
    is_public: bool,
}

/// A file of a crate.
#[derive(Default)]
struct Source {
    imports: BTreeMap<String, Import>,
    /// Paths that end with `*`, without it.
    globs: Vec<Import>,
    /// Paths in the code itself.
    paths: BTreeSet<Vec<String>>,
    words: BTreeSet<String>,
    /// Names of functions, types and other items that the file declares.
    items: BTreeSet<String>,
}

/// The files of a crate.
pub(crate) struct Modules {
    sources: BTreeMap<Module, Source>,
}

impl Modules {
    /// Reads pairs of a path below `src`, such as `image/mod.rs`, and the text of that file.
    pub(crate) fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let sources = (files.into_iter())
            .filter_map(|(path, text)| Some((module(path)?, Source::read(text))))
            .collect();
        Self { sources }
    }

    /// Returns all arrows between files; a file without arrows is a key as well.
    pub(crate) fn arrows(&self) -> Arrows {
        (self.sources.iter())
            .map(|(module, source)| {
                let mut to: BTreeSet<_> = (self.used(module, source))
                    .filter_map(|path| self.home_of(module, path, 0))
                    .collect();
                to.remove(module);
                (module.clone(), to)
            })
            .collect()
    }

    /// Iterates over the paths that a file uses: those in its code, and its imports except those that it only
    /// passes on.
    fn used<'a>(&'a self, module: &'a [String], source: &'a Source) -> impl Iterator<Item = &'a [String]> {
        let imports = (source.imports.iter())
            .filter(|(name, import)| !import.is_public || source.words.contains(*name))
            .map(|(_, import)| &import.path);
        let globs = source.globs.iter().filter(|glob| !glob.is_public);
        let paths = source.paths.iter().filter(move |path| {
            let first = path.first().map_or("", String::as_str);
            matches!(first, "crate" | "self" | "super")
                || source.imports.contains_key(first)
                || self.child(module, first).is_some()
        });
        (imports.chain(globs.map(|glob| &glob.path)).chain(paths)).map(Vec::as_slice)
    }

    fn child(&self, module: &[String], name: &str) -> Option<Module> {
        let child = [module, &[name.to_owned()]].concat();
        self.sources.contains_key(&child).then_some(child)
    }

    /// Returns the file that declares the name at the end of a path; `None` for other crates and for paths that
    /// name only a module.
    fn home_of(&self, from: &[String], path: &[String], hops: usize) -> Option<Module> {
        if hops > MOST_HOPS {
            return None;
        }
        let (mut at, mut rest) = self.beginning(from, path)?;
        while let Some((name, behind)) = rest.split_first() {
            if let Some(child) = self.child(&at, name) {
                (at, rest) = (child, behind);
                continue;
            }
            let source = self.sources.get(&at)?;
            if let Some(import) = source.imports.get(name) {
                return self.home_of(&at, &[&import.path, behind].concat(), hops + 1);
            }
            let passed_on = source.globs.iter().find_map(|glob| {
                let home = self.module_of(&at, &glob.path)?;
                self.sources.get(&home)?.items.contains(name).then_some(home)
            });
            return Some(passed_on.unwrap_or(at));
        }
        None
    }

    /// Returns the module that a path names.
    fn module_of(&self, from: &[String], path: &[String]) -> Option<Module> {
        let (at, rest) = self.beginning(from, path)?;
        rest.iter().try_fold(at, |at, name| self.child(&at, name))
    }

    /// Returns the module that a path begins at, and its other words; `None` if it leads to another crate.
    fn beginning<'p>(&self, from: &[String], path: &'p [String]) -> Option<(Module, &'p [String])> {
        let (first, behind) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), behind)),
            "self" => Some((from.to_vec(), behind)),
            "super" => {
                let ups = path.iter().take_while(|word| *word == "super").count();
                let at = from.get(..from.len().checked_sub(ups)?)?;
                Some((at.to_vec(), path.get(ups..)?))
            }
            name if self.child(from, name).is_some() => Some((from.to_vec(), path)),
            name => {
                let import = self.sources.get(from)?.imports.get(name)?;
                (import.path != path).then(|| (from.to_vec(), path))
            }
        }
    }
}

/// Returns the module of a file; `None` for files of tests.
fn module(path: &str) -> Option<Module> {
    let mut words: Module = (path.strip_suffix(".rs")?.split('/'))
        .map(str::to_owned)
        .collect();
    if words.iter().any(|word| word == "tests") {
        return None;
    }
    if words.last().is_some_and(|last| last == "mod") || matches!(path, "lib.rs" | "main.rs") {
        words.pop();
    }
    Some(words)
}

impl Source {
    fn read(text: &str) -> Self {
        let tokens = without_tests(&tokens(text));
        let mut source = Self::default();
        let mut rest = tokens.as_slice();
        let mut before = "";
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            match *first {
                // Skip the `use<'a>` of a type.
                "use" if behind.first() != Some(&"<") => {
                    let end = behind.iter().position(|token| *token == ";");
                    let (tree, behind) = behind.split_at(end.unwrap_or(behind.len()));
                    // `)` ends the `(crate)` of a `pub(crate)`.
                    source.import(&[], tree, matches!(before, "pub" | ")"));
                    rest = behind;
                }
                word if is_word(word) => {
                    // Modules are left out, because a module often has the name of its main function.
                    if before != "mod" {
                        source.words.insert(word.to_owned());
                    }
                    if matches!(
                        before,
                        "fn" | "struct" | "enum" | "trait" | "const" | "static" | "type" | "mod"
                    ) {
                        source.items.insert(word.to_owned());
                    }
                    rest = source.path(word, behind);
                }
                _ => {}
            }
            before = first;
        }
        source
    }

    /// Records the path that begins with this word, if more words follow; returns the rest.
    fn path<'a, 'b>(&mut self, word: &str, mut rest: &'a [&'b str]) -> &'a [&'b str] {
        let mut path = vec![word.to_owned()];
        while let ["::", word, behind @ ..] = rest {
            if !is_word(word) {
                break;
            }
            self.words.insert((*word).to_owned());
            path.push((*word).to_owned());
            rest = behind;
        }
        if path.len() > 1 {
            self.paths.insert(path);
        }
        rest
    }

    /// Records the names of a `use`, from `a::{b, c as d}`.
    fn import(&mut self, above: &[String], tree: &[&str], is_public: bool) {
        let mut path = above.to_vec();
        let mut rest = tree;
        while let [word, "::", behind @ ..] = rest {
            path.push((*word).to_owned());
            rest = behind;
        }
        match rest {
            ["{", inner @ .., "}"] => {
                for part in parts(inner) {
                    self.import(&path, part, is_public);
                }
            }
            ["*"] => self.globs.push(Import { path, is_public }),
            [word, tail @ ..] => {
                if *word != "self" {
                    path.push((*word).to_owned());
                }
                let name = match tail {
                    ["as", name] => Some((*name).to_owned()),
                    _ => path.last().cloned(),
                };
                let import = Import { path, is_public };
                self.imports.extend(name.map(|name| (name, import)));
            }
            [] => {}
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Splits a list at its commas, but not within further braces.
fn parts<'a, 'b>(list: &'a [&'b str]) -> Vec<&'a [&'b str]> {
    let mut depth = 0_usize;
    list.split(|token| {
        match *token {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        *token == "," && depth == 0
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the arrows as `a::b > c`, sorted.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let arrows = Modules::read(files.iter().copied()).arrows();
        let name = |module: &Module| module.join("::");
        (arrows.iter())
            .flat_map(|(from, to)| to.iter().map(move |to| format!("{} > {}", name(from), name(to))))
            .collect()
    }

    #[test]
    fn an_arrow_leads_to_the_file_that_declares() {
        let files = [
            (
                "lib.rs",
                "mod a; mod b; mod c; pub use a::Deep; use tote_sys::Errno;",
            ),
            (
                "a/mod.rs",
                "mod d; pub use d::{Deep, Other as Known}; pub(crate) use d::*; pub fn own() {}",
            ),
            (
                "a/d.rs",
                "pub struct Deep; pub struct Other; pub fn glob() {} use super::own;",
            ),
            (
                "b.rs",
                "use crate::{Deep, a::{self, Known}}; fn x() { a::glob(); }",
            ),
            (
                "c.rs",
                "fn x() { crate::b::x(); super::a::own(); std::fs::read(); }",
            ),
        ];
        assert_eq!(arrows(&files), ["a::d > a", "b > a::d", "c > a", "c > b"]);
    }

    #[test]
    fn a_name_that_is_passed_on_and_used_is_an_arrow() {
        let files = [
            ("main.rs", "mod a; mod b;"),
            ("a.rs", "pub(crate) use crate::b::{One, Two}; fn x(_: One) {}"),
            (
                "b.rs",
                "pub struct One; pub struct Two; #[cfg(test)] mod tests { use crate::a::x; }",
            ),
            ("b/tests.rs", "use crate::a::x;"),
        ];
        assert_eq!(arrows(&files), ["a > b"]);
        let only_passed_on = [
            ("a.rs", "mod b; pub use b::{b, One};"),
            ("a/b.rs", "pub struct One; pub fn b() {}"),
        ];
        assert!(arrows(&only_passed_on).is_empty());
    }

    #[test]
    fn names_that_lead_to_themselves_end() {
        let files = [
            ("a.rs", "use super::b::X;"),
            ("b.rs", "pub use crate::a::X; fn f() -> X {}"),
        ];
        arrows(&files);
        arrows(&[("a.rs", "use super::super::super::X; use a::a; fn x() { a::b(); }")]);
    }
}
