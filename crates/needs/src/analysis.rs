//! The set of needed files: a closure over references and rules.

use crate::object::{Contents, Object, library_names, object};
use crate::pattern::{Captures, Pattern};
use crate::script::{FIRST_BYTES, script_line, shell_words};
use crate::search::Search;
use crate::tables::rules::{RULES, UNLIKELY};
use crate::tree::{Node, Tree, join, parent};
use crate::{Reason, elf};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most places that libraries inherit from the objects that load them.
const MAX_INHERITED: usize = 64;
/// Most different inheritances with which one object is looked at.
const MAX_VISITS: usize = 8;

/// Name that is nowhere in a root, and the file that needs it.
pub type MissingName = (Box<[u8]>, Box<[u8]>);

/// Places where libraries are looked for.
type Places = Vec<Vec<u8>>;

/// File to look into, with the places that it inherits.
type Visit = (Box<[u8]>, Places);

/// Surroundings of the programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Value of `PATH`, for `#!` lines of env(1).
    pub path: Vec<u8>,
    /// Value of `LD_LIBRARY_PATH`.
    pub library_path: Vec<u8>,
    /// Value of `TZ`.
    pub zone: Vec<u8>,
    /// True if the locale is another than C or POSIX: then all locales are kept that the root has.
    pub locale: bool,
    /// True if only what is needed is kept; otherwise links and files that take no space are kept as well.
    pub only_needed: bool,
    /// True if a program is kept whose name a kept shell script in a directory of `PATH` has: scripts say so in no other way.
    pub shell_words: bool,
}

/// Needed objects of a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Path of each kept file, link and special file, with the first reason that was found. Directories are not here.
    pub kept: BTreeMap<Box<[u8]>, Reason>,
    /// Libraries and interpreters that are nowhere in the root: the name, and the file that needs it.
    pub missing: BTreeSet<MissingName>,
    /// Files that could not be read.
    pub unread: BTreeSet<Box<[u8]>>,
}

/// Computes what the `seeds` need. Seeds that the tree does not have count for nothing; of a seed that is a directory
/// everything below is kept.
#[must_use]
pub fn needs<'a>(
    tree: &Tree,
    contents: &dyn Contents,
    seeds: impl IntoIterator<Item = (&'a [u8], Reason)>,
    settings: &Settings,
) -> Needs {
    let mut analysis = Analysis {
        tree,
        contents,
        settings,
        search: Search::new(tree, contents, &settings.library_path),
        rules: rules(),
        queue: VecDeque::new(),
        visits: BTreeMap::new(),
        searched: BTreeSet::new(),
        applied: BTreeSet::new(),
        needs: Needs::default(),
    };
    for (path, reason) in seeds {
        analysis.seed(path, reason);
    }
    analysis.always();
    analysis.work();
    if !settings.only_needed {
        analysis.links();
    }
    analysis.needs
}

/// Most bytes of a shell script that are searched for names of programs.
const MAX_SCRIPT: usize = 4 << 20;

/// Returns the places of the programs whose names a shell script has: each is a file in a directory of `PATH`.
///
/// # Errors
/// The script cannot be read.
pub(crate) fn programs_of(
    tree: &Tree,
    contents: &dyn Contents,
    settings: &Settings,
    path: &[u8],
) -> std::io::Result<Vec<Vec<u8>>> {
    let text = contents.read(path, 0, MAX_SCRIPT)?;
    let dirs: Vec<&[u8]> = settings.path.split(|byte| *byte == b':').collect();
    let is_program = |place: &Vec<u8>| {
        let found = tree.resolve(place);
        found.is_some_and(|found| matches!(tree.get(&found.path), Some(Node::File(_))))
    };
    let place = |word: &[u8]| match word.starts_with(b"/") {
        true => Some(word.to_vec()).filter(|place| dirs.contains(&parent(place)) && is_program(place)),
        false => dirs.iter().map(|dir| join(dir, word)).find(is_program),
    };
    Ok(shell_words(&text).into_iter().filter_map(place).collect())
}

/// A rule with its patterns parsed.
struct Parsed {
    name: &'static str,
    when: Vec<Pattern>,
    keep: Vec<Pattern>,
}

fn rules() -> Vec<Parsed> {
    // The table's patterns are tested; an invalid one would mean nothing.
    let parse = |texts: &[&str]| {
        texts
            .iter()
            .filter_map(|text| Pattern::of_rule(text).ok())
            .collect()
    };
    let parsed = RULES.iter().map(|rule| Parsed {
        name: rule.name,
        when: parse(rule.when),
        keep: parse(rule.keep),
    });
    parsed.collect()
}

/// True if a name in the text of an object is known to mean little.
fn is_unlikely(path: &[u8], name: &[u8]) -> bool {
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    UNLIKELY
        .iter()
        .any(|(object, other)| file == object.as_bytes() && name.starts_with(other.as_bytes()))
}

struct Analysis<'a> {
    tree: &'a Tree,
    contents: &'a dyn Contents,
    settings: &'a Settings,
    search: Search<'a>,
    rules: Vec<Parsed>,
    /// Files to look into, with the places that they inherit.
    queue: VecDeque<Visit>,
    visits: BTreeMap<Box<[u8]>, Vec<Places>>,
    /// Files whose text was searched for names of libraries.
    searched: BTreeSet<Box<[u8]>>,
    /// Rules with filled-in patterns that were carried out.
    applied: BTreeSet<(usize, Captures)>,
    needs: Needs,
}

impl Analysis<'_> {
    fn seed(&mut self, path: &[u8], reason: Reason) {
        match self.tree.resolve(path) {
            Some(found) if self.tree.get(&found.path) == Some(&Node::Directory) => {
                // A program that opens a directory reads its names, which stay.
                if matches!(reason, Reason::Used(_)) {
                    return;
                }
                for below in self.tree.below(&found.path) {
                    self.keep(&below, reason.clone(), &[]);
                }
            }
            _ => self.keep(path, reason, &[]),
        }
    }

    /// Keeps an object, and the links on the way to it.
    fn keep(&mut self, path: &[u8], reason: Reason, inherited: &[Vec<u8>]) {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let Some(found) = self.tree.resolve(path) else {
            // A link that leads nowhere is kept as it is.
            if matches!(self.tree.get(path), Some(Node::Link(_) | Node::Special)) {
                self.needs.kept.entry(path.into()).or_insert(reason);
            }
            return;
        };
        for link in found.links {
            let to = found.path.clone();
            self.needs.kept.entry(link).or_insert_with(|| Reason::Link(to));
        }
        match self.tree.get(&found.path) {
            Some(Node::File(_)) => self.keep_file(found.path, reason, inherited),
            Some(Node::Special) => _ = self.needs.kept.entry(found.path).or_insert(reason),
            _ => {}
        }
    }

    fn keep_file(&mut self, path: Box<[u8]>, reason: Reason, inherited: &[Vec<u8>]) {
        let is_new = !self.needs.kept.contains_key(&path);
        self.needs.kept.entry(path.clone()).or_insert(reason);
        let visits = self.visits.entry(path.clone()).or_default();
        let is_seen = visits.iter().any(|seen| seen == inherited);
        if !is_seen && visits.len() < MAX_VISITS {
            visits.push(inherited.to_vec());
            self.queue.push_back((path.clone(), inherited.to_vec()));
        }
        if is_new {
            self.rules_of(&path);
        }
    }

    fn work(&mut self) {
        while let Some((path, inherited)) = self.queue.pop_front() {
            let size = match self.tree.get(&path) {
                Some(Node::File(size)) => *size,
                _ => 0,
            };
            if size > 0 && self.look_into(&path, &inherited).is_err() {
                self.needs.unread.insert(path);
            }
        }
    }

    fn look_into(&mut self, path: &[u8], inherited: &[Vec<u8>]) -> std::io::Result<()> {
        let first = self.contents.read(path, 0, FIRST_BYTES.max(elf::HEADER))?;
        if let Some(line) = script_line(&first) {
            self.interpreter(line.program, path);
            if let Some(program) = line.by_env() {
                self.program(program, path);
            }
            let is_asked = self.settings.shell_words && self.is_in_path(path);
            if is_asked && line.is_of_shell() && self.searched.insert(path.into()) {
                for place in programs_of(self.tree, self.contents, self.settings, path)? {
                    self.keep(&place, Reason::Named(path.into()), &[]);
                }
            }
            return Ok(());
        }
        if let Some(object) = object(self.contents, path, &first)? {
            let handed = self.object(path, &object, inherited);
            if self.searched.insert(path.into()) {
                let names = library_names(self.contents, path)?;
                for name in names
                    .iter()
                    .filter(|name| !object.needed.contains(name) && !is_unlikely(path, name))
                {
                    for found in self.search.find(name, (path, &object), inherited) {
                        self.keep(&found, Reason::Named(path.into()), &handed);
                    }
                }
            }
        }
        Ok(())
    }

    /// True if a file is in a directory of `PATH`. Scripts elsewhere are for administrators and for the start of the system.
    fn is_in_path(&self, path: &[u8]) -> bool {
        let mut dirs = self.settings.path.split(|byte| *byte == b':');
        dirs.any(|dir| dir.strip_prefix(b"/") == Some(parent(path)))
    }

    /// Keeps the interpreter and the libraries of an object; returns the places that these inherit.
    fn object(&mut self, path: &[u8], object: &Object, inherited: &[Vec<u8>]) -> Vec<Vec<u8>> {
        if let Some(interpreter) = &object.interpreter {
            self.interpreter(interpreter, path);
        }
        let mut handed: Vec<Vec<u8>> = inherited.to_vec();
        let origin = join(b"/", parent(path));
        for place in &object.rpath {
            let place = String::from_utf8_lossy(place);
            let place = place.replace("${ORIGIN}", "$ORIGIN");
            let place = place
                .replace("$ORIGIN", &String::from_utf8_lossy(&origin))
                .into_bytes();
            if !handed.contains(&place) && handed.len() < MAX_INHERITED {
                handed.push(place);
            }
        }
        for name in &object.needed {
            let found = self.search.find(name, (path, object), inherited);
            if found.is_empty() {
                self.needs.missing.insert((name.as_slice().into(), path.into()));
            }
            for found in found {
                self.keep(&found, Reason::Needed(path.into()), &handed);
            }
        }
        handed
    }

    fn interpreter(&mut self, name: &[u8], of: &[u8]) {
        if self.tree.resolve(name).is_some() {
            self.keep(name, Reason::Interpreter(of.into()), &[]);
        } else {
            self.needs.missing.insert((name.into(), of.into()));
        }
    }

    /// Keeps the program that env(1) finds.
    fn program(&mut self, name: &[u8], of: &[u8]) {
        let dirs = self.settings.path.split(|byte| *byte == b':').map(<[u8]>::to_vec);
        let found = dirs
            .map(|dir| join(&dir, name))
            .find(|path| self.tree.resolve(path).is_some());
        match found {
            Some(path) => self.keep(&path, Reason::Interpreter(of.into()), &[]),
            None => _ = self.needs.missing.insert((name.into(), of.into())),
        }
    }

    /// Carries out the rules that hold without any file, and what the settings ask for.
    fn always(&mut self) {
        for index in 0..self.rules.len() {
            if self.rules[index].when.is_empty() {
                self.apply(index, &Captures::new(), b"");
            }
        }
        let zone = self
            .settings
            .zone
            .strip_prefix(b":")
            .unwrap_or(&self.settings.zone);
        if !zone.is_empty() {
            let path = join(b"usr/share/zoneinfo", zone);
            self.keep(&path, Reason::Rule("time zones", Box::default()), &[]);
        }
        if self.settings.locale {
            for dir in [b"usr/lib/locale".as_slice(), b"usr/share/i18n/charmaps"] {
                for path in self.tree.below(dir) {
                    self.keep(&path, Reason::Rule("locale", Box::default()), &[]);
                }
            }
        }
    }

    fn rules_of(&mut self, path: &[u8]) {
        for index in 0..self.rules.len() {
            let captures: Vec<Captures> = {
                let when = &self.rules[index].when;
                when.iter().filter_map(|pattern| pattern.captures(path)).collect()
            };
            for captures in captures {
                self.apply(index, &captures, path);
            }
        }
    }

    fn apply(&mut self, index: usize, captures: &Captures, path: &[u8]) {
        if !self.applied.insert((index, captures.clone())) {
            return;
        }
        let name = self.rules[index].name;
        let patterns: Vec<Pattern> = {
            let keep = &self.rules[index].keep;
            keep.iter().map(|pattern| pattern.filled(captures)).collect()
        };
        for pattern in patterns {
            let (prefix, is_whole) = pattern.prefix();
            let found: Vec<Box<[u8]>> = if is_whole {
                vec![prefix.into()]
            } else {
                self.tree
                    .beginning_in(&prefix, &|dir| pattern.leads_below(dir))
                    .filter(|(path, node)| **node != Node::Directory && pattern.matches(path))
                    .map(|(path, _)| path.into())
                    .collect()
            };
            for found in found {
                self.keep(&found, Reason::Rule(name, path.into()), &[]);
            }
        }
    }

    /// Keeps what takes no space: links to kept files and to directories, links out of the tree, empty files, devices.
    fn links(&mut self) {
        for (path, node) in self.tree.iter() {
            if self.needs.kept.contains_key(path) {
                continue;
            }
            let reason = match node {
                Node::Link(_) => match self.tree.resolve(path) {
                    None => Some(Reason::Outside),
                    Some(found) => {
                        let is_dir = self.tree.get(&found.path) == Some(&Node::Directory);
                        let is_kept = is_dir || self.needs.kept.contains_key(&found.path);
                        is_kept.then_some(Reason::Link(found.path))
                    }
                },
                Node::File(0) | Node::Special => Some(Reason::Empty),
                Node::File(_) | Node::Directory => None,
            };
            if let Some(reason) = reason {
                self.needs.kept.insert(path.into(), reason);
            }
        }
    }
}
