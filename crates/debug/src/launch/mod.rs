//! Tools that run although their linker, libraries and interpreters are not where they expect them.
//!
//! In a session whose root is the container's tree, the tools are in a directory of it. The kernel and the dynamic linker
//! look for what a program needs from the root on, so a dynamic tool would find the container's libraries or none. So
//! [`PLACE`] has the tools' layout, but in the place of their programs small ones (file `program.rs`) that call the tools' own
//! linker with the tools' libraries. Every other directory is a link to the tools themselves, where programs
//! find their data by their own place. No file of the tools is changed, none is copied, and nothing is mounted elsewhere.

mod cache;
mod key;
mod libraries;
mod program;
mod tree;

pub use cache::forget;

pub(super) use tree::{ASIDE, ENTRIES, PLACE, ToolsTree};

use crate::{EngineError, Home};
use key::Key;
use program::{Word, program};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tote_rootfs::{Executable, Needs, executable_in, resolve_in};
use tote_sandbox::WrittenFile;
use tree::{PROGRAMS, seen};

/// Number of interpreters of interpreters, as the kernel has it.
const DEPTH: usize = 4;

/// The tools' layout with programs that can be started, as a directory that stays for as long as this is held.
pub(super) struct Launchers {
    /// Layer that the session's root is made of.
    pub layer: PathBuf,
    /// Variables by which the tools find their data.
    pub env: Vec<String>,
    _lock: OwnedFd,
}

impl Launchers {
    /// Finds the launchers of these tools, or makes them.
    ///
    /// # Errors
    /// [`EngineError::State`] if they cannot be written.
    pub(crate) fn open(home: &Home, tools: &ToolsTree<'_>) -> Result<Self, EngineError> {
        let dirs = directories(tools);
        let libraries = libraries::search_path(tools.root);
        let mut key = Key::of(tools, &dirs).map_err(EngineError::file("look at", "/"))?;
        // Written into each program.
        key.state.extend(libraries.as_bytes());
        let (layer, lock) = cache::open(home, &key, &|| Layout::new(tools, &dirs, libraries.clone()))?;
        Ok(Self {
            layer,
            env: libraries::variables(tools.root),
            _lock: lock,
        })
    }
}

/// Lists the directories of programs, each once and without links.
fn directories(tools: &ToolsTree<'_>) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for dir in tools.search.split(':').filter(|dir| dir.starts_with('/')) {
        if let Ok(Some(dir)) = resolve_in(tools.root, dir)
            && !dirs.contains(&dir)
        {
            dirs.push(dir);
        }
    }
    dirs
}

/// The files of launchers.
#[derive(Default)]
struct Layout {
    files: Vec<WrittenFile>,
    /// Symbolic links: text and path.
    links: Vec<(String, String)>,
}

impl Layout {
    /// Looks at the programs in these directories. A file or directory that cannot be read is left out, as one that is not
    /// there.
    fn new(tools: &ToolsTree<'_>, dirs: &[PathBuf], libraries: String) -> Self {
        let mut survey = Survey {
            root: tools.root,
            top: tools.top,
            libraries,
            linkers: BTreeMap::new(),
            needed: BTreeMap::new(),
            made: Self::default(),
        };
        survey.outlines(dirs);
        dirs.iter().for_each(|dir| survey.programs(dir));
        survey.made
    }
}

struct Survey<'a> {
    root: BorrowedFd<'a>,
    top: BorrowedFd<'a>,
    /// Directories of libraries, as the session sees them.
    libraries: String,
    /// Linkers by their paths: the options that each has.
    linkers: BTreeMap<PathBuf, Linker>,
    /// Linkers and interpreters by the paths that programs have for them.
    needed: BTreeMap<PathBuf, Option<Executable>>,
    made: Layout,
}

/// A dynamic linker of the tools.
#[derive(Clone, Copy)]
struct Linker {
    /// True if it can be given the name of the program.
    takes_name: bool,
    /// True if it can be told to leave the container's list of libraries alone.
    ignores_cache: bool,
}

/// Size of the largest linker that is searched for its options.
const LARGEST_LINKER: usize = 16 << 20;

impl Survey<'_> {
    fn link(&mut self, text: String, path: String) {
        self.made.links.push((text, path));
    }

    /// Lists a directory of the tools, without a hostile one's last entries.
    fn list(&self, dir: &Path) -> Vec<(String, FileType)> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let root = if dir == Path::new("/") {
            self.top
        } else {
            self.root
        };
        let opened = tote_sys::openat2(root, dir, flags, Mode::empty(), resolve);
        let entries = opened.and_then(Dir::new).into_iter().flatten().flatten();
        let may_be_program = |kind| !matches!(kind, FileType::Socket | FileType::Fifo);
        let names = entries
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, entry.file_type())
            })
            .filter(|(name, kind)| may_be_program(*kind) && !matches!(&**name, "." | ".."))
            .filter(|(name, _)| !name.contains(char::REPLACEMENT_CHARACTER));
        let mut names: Vec<_> = names.take(PROGRAMS).collect();
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        names
    }

    /// Plans the directories above those of programs: what is beside these in them is a link to the tools.
    fn outlines(&mut self, dirs: &[PathBuf]) {
        let above: BTreeSet<&Path> = dirs.iter().flat_map(|dir| dir.ancestors().skip(1)).collect();
        for dir in above
            .iter()
            .filter(|dir| !dirs.iter().any(|other| other == **dir))
        {
            for (name, _) in self.list(dir).into_iter().take(ENTRIES) {
                let path = dir.join(name);
                let is_own = |path: &PathBuf| dirs.contains(path) || above.contains(&**path);
                if is_own(&path) {
                    continue;
                }
                let real = resolve_in(self.root, &path).ok().flatten();
                // `bin` may be a link to `usr/bin`.
                let text = match real.filter(|real| *real != path) {
                    Some(real) if is_own(&real) => real.to_str().map(|real| format!("{PLACE}{real}")),
                    Some(real) => seen(&real),
                    None => seen(&path),
                };
                if let (Some(text), Some(path)) = (text, path.to_str()) {
                    self.link(text, format!("{PLACE}{path}"));
                }
            }
        }
    }

    fn programs(&mut self, dir: &Path) {
        for (name, kind) in self.list(dir) {
            if self.made.files.len() + self.made.links.len() >= PROGRAMS {
                return;
            }
            let path = dir.join(&name);
            // The directory is known to have no link in its path.
            let found = executable_in(self.root, &path, kind == FileType::RegularFile);
            let (Ok(Some(found)), Some(at)) = (found, path.to_str()) else {
                continue;
            };
            let at = format!("{PLACE}{at}");
            let words = match &found.needs {
                Needs::Nothing => None,
                _ => self.words(&found, Word::OwnName, DEPTH),
            };
            match (words, seen(&found.path)) {
                (Some((file, words)), _) => self.made.files.push(WrittenFile {
                    path: at,
                    mode: 0o755,
                    content: program(&file, &words),
                }),
                (None, Some(text)) => self.link(text, at),
                (None, None) => {}
            }
        }
    }

    /// Returns the file to execute for a program that is called `name`, and the words that come before its arguments. `None`
    /// if something that the program needs is not there.
    fn words(&mut self, found: &Executable, name: Word, depth: usize) -> Option<(String, Vec<Word>)> {
        let own = seen(&found.path)?;
        match &found.needs {
            Needs::Nothing => Some((own, vec![name])),
            Needs::Linker(path) => {
                let linker = self.needed(path)?;
                let options = self.linker(&linker.path);
                let file = seen(&linker.path)?;
                let mut words = vec![file.clone()];
                if options.ignores_cache {
                    words.push("--inhibit-cache".to_owned());
                }
                words.extend(["--library-path".to_owned(), self.libraries.clone()]);
                let mut words: Vec<Word> = words.into_iter().map(Word::Text).collect();
                if options.takes_name {
                    words.extend([Word::Text("--argv0".to_owned()), name]);
                }
                words.push(Word::Text(own));
                Some((file, words))
            }
            Needs::Interpreter { path, argument } => {
                let interpreter = self.needed(path)?;
                // An interpreter finds its data by the place at which it seems to be.
                let name = Word::Text(format!("{PLACE}{}", path.to_str()?));
                let (file, mut words) = self.words(&interpreter, name, depth.checked_sub(1)?)?;
                let argument = argument.as_ref().map(|argument| argument.to_str());
                if let Some(argument) = argument {
                    words.push(Word::Text(argument?.to_owned()));
                }
                words.push(Word::Text(own));
                Some((file, words))
            }
        }
    }

    /// Looks at a linker or an interpreter, once.
    fn needed(&mut self, path: &Path) -> Option<Executable> {
        if let Some(known) = self.needed.get(path) {
            return known.clone();
        }
        let found = executable_in(self.root, path, false).ok().flatten();
        self.needed.insert(path.to_owned(), found.clone());
        found
    }

    fn linker(&mut self, path: &Path) -> Linker {
        if let Some(known) = self.linkers.get(path) {
            return *known;
        }
        // Older ones lack options, and end when they meet one.
        let text = tote_rootfs::read_in_root(self.root, path, LARGEST_LINKER);
        let text = text.ok().flatten().unwrap_or_default();
        let has = |option: &[u8]| text.windows(option.len()).any(|window| window == option);
        let linker = Linker {
            takes_name: has(b"argv0"),
            ignores_cache: has(b"inhibit-cache"),
        };
        self.linkers.insert(path.to_owned(), linker);
        linker
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in [
            "usr/bin",
            "usr/lib/x",
            "usr/local/bin",
            "etc/alternatives",
            "lib64",
        ] {
            fs::create_dir_all(at(path)).unwrap();
        }
        symlink("usr/bin", at("bin")).unwrap();
        let file = |path: &str, text: &[u8]| {
            let file = fs::File::create_new(at(path)).unwrap();
            file.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
            std::io::Write::write_all(&mut &file, text).unwrap();
        };
        file("lib64/ld.so", b"--argv0 --inhibit-cache");
        file("usr/bin/static", b"no format");
        file("usr/bin/plain", &linked("/lib64/ld.so"));
        file("usr/bin/orphan", &linked("/lib64/none"));
        file("usr/bin/script", b"#!/bin/env  plain -x \n");
        symlink("plain", at("usr/bin/env")).unwrap();
        symlink("/etc/alternatives/edit", at("usr/bin/edit")).unwrap();
        symlink("/usr/bin/plain", at("etc/alternatives/edit")).unwrap();
        fs::write(at("usr/bin/readme"), "").unwrap();
        dir
    }

    fn tools<'a>(root: BorrowedFd<'a>, search: &str) -> ToolsTree<'a> {
        ToolsTree {
            root,
            top: root,
            is_here: false,
            fixed: None,
            search: search.to_owned(),
        }
    }

    fn layout(root: BorrowedFd<'_>, search: &str) -> Layout {
        let tools = tools(root, search);
        let dirs = directories(&tools);
        Layout::new(&tools, &dirs, libraries::search_path(root))
    }

    /// An ELF file with nothing but a linker.
    fn linked(linker: &str) -> Vec<u8> {
        let mut file = vec![0; 120];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        (file[32], file[54], file[56]) = (64, 56, 1);
        (file[64], file[72], file[96]) = (3, 120, u8::try_from(linker.len() + 1).unwrap());
        file.extend(linker.as_bytes());
        file.push(0);
        file
    }

    #[test]
    fn programs_have_their_linkers_and_libraries() {
        let dir = tree();
        let root = fs::File::open(dir.path()).unwrap();
        let made = layout(root.as_fd(), "/usr/local/bin:/usr/bin:/bin:relative:/none");
        let files: Vec<&str> = made.files.iter().map(|file| &*file.path).collect();
        let names = ["edit", "env", "plain", "script"].map(|name| format!("{PLACE}/usr/bin/{name}"));
        assert_eq!(files, names);
        let link = |path: &str| {
            let wanted = format!("{PLACE}/{path}");
            let found = made.links.iter().find(|(_, path)| *path == wanted);
            found.map(|(text, _)| text.replace(ASIDE, "A").replace(PLACE, "P"))
        };
        assert_eq!(link("bin").as_deref(), Some("P/usr/bin"));
        assert_eq!(link("usr/lib").as_deref(), Some("A/usr/lib"));
        assert_eq!(link("etc").as_deref(), Some("A/etc"));
        assert_eq!(link("usr"), None, "it is a directory");
        assert_eq!(link("usr/bin/static").as_deref(), Some("A/usr/bin/static"));
        assert_eq!(link("usr/bin/orphan").as_deref(), Some("A/usr/bin/orphan"));
        assert_eq!(link("usr/bin/readme"), None, "it is no program");
        let text = |name: &str| {
            let file = made.files.iter().find(|file| file.path.ends_with(name)).unwrap();
            String::from_utf8_lossy(&file.content).into_owned()
        };
        let linker = format!("{ASIDE}/lib64/ld.so\0--inhibit-cache\0--library-path\0");
        assert!(text("/plain").contains(&linker));
        assert!(text("/edit").contains(&format!("--argv0\0{ASIDE}/usr/bin/plain\0")));
        let expected =
            format!("--argv0\0{PLACE}/bin/env\0{ASIDE}/usr/bin/plain\0plain -x\0{ASIDE}/usr/bin/script\0");
        assert!(text("/script").contains(&expected), "{:?}", text("/script"));
    }

    #[test]
    fn links_stay_inside() {
        let dir = tree();
        symlink("../../../../../../bin/sh", dir.path().join("usr/bin/out")).unwrap();
        symlink("loop", dir.path().join("usr/bin/loop")).unwrap();
        let root = fs::File::open(dir.path()).unwrap();
        let made = layout(root.as_fd(), "/usr/bin");
        assert!(!made.files.iter().any(|file| file.path.ends_with("/out")));
        assert!(!made.links.iter().any(|(_, path)| path.ends_with("/loop")));
    }
    #[test]
    fn launchers_are_made_once_for_each_state_of_the_tools() {
        let (dir, state) = (tree(), tempfile::tempdir().unwrap());
        let home = Home::open(Some(&state.path().join("state"))).unwrap();
        let root = fs::File::open(dir.path()).unwrap();
        let open = |fixed: Option<&str>| {
            let fixed = fixed.map(str::to_owned);
            let tools = ToolsTree {
                fixed,
                ..tools(root.as_fd(), "/usr/bin")
            };
            Launchers::open(&home, &tools).unwrap()
        };
        let first = open(None);
        let launcher = |of: &Launchers, name: &str| of.layer.join(".tote/usr/bin").join(name);
        assert_eq!(
            launcher(&first, "plain").metadata().unwrap().permissions().mode() & 0o7777,
            0o755
        );
        assert!(first.layer.join(".tote/.tools").metadata().unwrap().is_dir());
        assert_eq!(open(None).layer, first.layer);
        // A program that is overwritten in its place, and one behind a link, leave the directory's time as it was.
        let plain = fs::File::options()
            .append(true)
            .open(dir.path().join("usr/bin/plain"));
        std::io::Write::write_all(&mut plain.unwrap(), b"x").unwrap();
        let second = open(None);
        assert_ne!(second.layer, first.layer);
        let alternative = dir.path().join("etc/alternatives/edit");
        fs::remove_file(&alternative).unwrap();
        symlink("/usr/bin/script", &alternative).unwrap();
        let third = open(None);
        assert_ne!(third.layer, second.layer);
        let text = fs::read(launcher(&third, "edit")).unwrap();
        assert!(String::from_utf8_lossy(&text).contains("/usr/bin/script"));
        assert!(
            launcher(&first, "plain").try_exists().unwrap(),
            "a session has it"
        );
        // Of tools that are known by a digest, nothing is looked at.
        let image = open(Some("digest"));
        fs::remove_file(dir.path().join("usr/bin/plain")).unwrap();
        assert_eq!(open(Some("digest")).layer, image.layer);
        drop((first, image));
        forget(&home).unwrap();
        let left = fs::read_dir(home.launchers()).unwrap().count();
        assert_eq!(left, 2, "second and third are held");
    }
}
