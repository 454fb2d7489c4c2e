//! Closures of programs of the host, beside what its dynamic linker says.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read the host's files and run its ldd"
)]

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use tote_needs::{Contents, Node, Reason, References, Settings, Tree, needs};

/// The host's root, as far as programs and libraries are in it.
struct Host(std::os::fd::OwnedFd);

impl Contents for Host {
    fn read(&self, path: &[u8], offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = loop {
            match rustix::fs::openat2(&self.0, path, flags, Mode::empty(), resolve) {
                // Something on the machine was renamed while the kernel resolved a `..`.
                Err(Errno::AGAIN) => {}
                opened => break opened?,
            }
        };
        let (mut bytes, mut filled) = (vec![0; length], 0);
        let file = std::fs::File::from(file);
        while filled < length {
            match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

fn add(tree: &mut Tree, path: &Path, depth: usize) {
    use std::os::unix::ffi::OsStrExt as _;
    let key = path.as_os_str().as_bytes();
    let key = key.strip_prefix(b"/").unwrap_or(key);
    let Ok(stat) = std::fs::symlink_metadata(path) else {
        return;
    };
    if stat.is_symlink() {
        let target = std::fs::read_link(path).unwrap_or_default();
        tree.insert(key, Node::Link(target.as_os_str().as_bytes().into()));
    } else if stat.is_dir() {
        tree.insert(key, Node::Directory);
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries.filter(|_| depth > 0) {
            add(tree, &entry.path(), depth - 1);
        }
    } else {
        tree.insert(key, Node::File(stat.len()));
    }
}

/// Programs of the host that are known to have libraries of many kinds, and forty more from the whole range.
fn some_programs(tree: &Tree) -> BTreeSet<String> {
    let all: Vec<String> = tree
        .iter()
        .filter(|(path, node)| path.starts_with(b"usr/bin/") && matches!(node, Node::File(_)))
        .filter_map(|(path, _)| Some(format!("/{}", std::str::from_utf8(path).ok()?)))
        .collect();
    let known = ["bash", "apt-get", "perl", "openssl", "ls"].map(|name| format!("/usr/bin/{name}"));
    let known = known.into_iter().filter(|path| all.contains(path));
    let step = (all.len() / 40).max(1);
    let programs: BTreeSet<String> = all.iter().step_by(step).cloned().chain(known).collect();
    programs
}

/// Returns the libraries and the dynamic linker of a program, as ldd(1) finds them; none for scripts and static programs.
fn said_by_ldd(program: &str) -> Vec<String> {
    let said = std::process::Command::new("ldd").arg(program).output();
    let Some(said) = said.ok().filter(|said| said.status.success()) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let paths = text
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let real = paths.filter_map(|path| std::fs::canonicalize(path).ok()?.to_str().map(str::to_owned));
    real.collect()
}

/// Libraries that ldd names for programs of the host are in their closures.
#[test]
fn closures_have_what_ldd_finds() {
    if !Path::new("/usr/bin/ldd").exists() {
        println!("skipped: needs ldd");
        return;
    }
    let mut tree = Tree::default();
    for (dir, depth) in [("/bin", 1), ("/lib", 4), ("/lib64", 2), ("/usr", 0), ("/etc", 2)] {
        add(&mut tree, Path::new(dir), depth);
    }
    for (dir, depth) in [
        ("/usr/bin", 1),
        ("/usr/sbin", 1),
        ("/usr/lib", 4),
        ("/usr/lib64", 2),
    ] {
        add(&mut tree, Path::new(dir), depth);
    }
    let host = Host(std::fs::File::open("/").unwrap().into());
    let settings = Settings {
        only_needed: true,
        ..Settings::default()
    };
    let search = References::new(&tree, &host, &settings);
    let mut compared = 0;
    for program in some_programs(&tree) {
        let libraries = said_by_ldd(&program);
        let found = needs(&tree, &host, [(program.as_bytes(), Reason::Command)], &settings);
        // The closure over single references has the same.
        let (mut seen, mut queue) = (BTreeSet::new(), vec![tree.target(program.as_bytes()).unwrap()]);
        while let Some(path) = queue.pop() {
            if seen.insert(path.clone()) {
                queue.extend(search.of(&path).unwrap().into_iter().map(|found| found.to));
            }
        }
        for real in libraries {
            let key = real.trim_start_matches('/').as_bytes();
            assert!(
                found.kept.contains_key(key),
                "{program} needs {real}: {:?}",
                found.missing
            );
            assert!(seen.contains(key), "{program} references {real}");
            compared += 1;
        }
    }
    assert!(compared > 20, "ldd told of {compared} libraries");
}

/// A file that every name of a small root has.
struct Same<'a>(&'a [u8]);

impl Contents for Same<'_> {
    fn read(&self, _path: &[u8], offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        Ok(self.0[from..self.0.len().min(from.saturating_add(length))].to_vec())
    }
}

/// Numbers that follow one another without a pattern, always the same ones.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end.max(1) as u64).unwrap_or_default()
    }
}

/// Changes a file: numbers at the limits in its headers, single bytes anywhere, a part cut out or put elsewhere, an end.
fn change(file: &mut Vec<u8>, numbers: &mut Numbers) {
    const LIMITS: [u64; 8] = [0, 1, 7, 0x7fff_ffff, 0xffff_ffff, 1 << 63, u64::MAX, u64::MAX - 7];
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(file.len());
        match numbers.below(5) {
            0 => {
                let number = LIMITS[numbers.below(LIMITS.len())].to_le_bytes();
                let at = numbers.below(file.len().min(1024)) & !7;
                let end = file.len().min(at + 8);
                file[at..end].copy_from_slice(&number[..end - at]);
            }
            1 => file.truncate(at),
            2 => {
                let part = file[at..file.len().min(at + numbers.below(64))].to_vec();
                let to = numbers.below(file.len());
                file.splice(to..to, part);
            }
            _ => {
                if let Some(byte) = file.get_mut(at) {
                    *byte = numbers.0.to_le_bytes()[3];
                }
            }
        }
    }
}

/// Programs, scripts and the linker's cache of this machine, changed at random: no panic, an end, and nothing but paths of the root.
/// `cargo xtask fuzz needs` goes on from there.
#[test]
fn files_of_the_machine_that_were_changed() {
    const LONGEST: usize = 16 << 10;
    let mut files: Vec<Vec<u8>> = vec![std::fs::read(std::env::current_exe().unwrap()).unwrap()];
    files.extend(std::fs::read("/etc/ld.so.cache"));
    let programs = std::fs::read_dir("/usr/bin").unwrap();
    let mut programs: Vec<_> = programs.map(|entry| entry.unwrap().path()).collect();
    programs.sort();
    let is_short = |path: &&std::path::PathBuf| path.metadata().is_ok_and(|meta| meta.len() < LONGEST as u64);
    files.extend(
        programs
            .iter()
            .filter(is_short)
            .step_by(7)
            .filter_map(|path| std::fs::read(path).ok()),
    );
    files.iter_mut().for_each(|file| file.truncate(LONGEST));
    let settings = Settings {
        path: b"/bin:/lib".to_vec(),
        shell_words: true,
        ..Settings::default()
    };
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for round in 0..150 {
        let mut file = files[round % files.len()].clone();
        change(&mut file, &mut numbers);
        let mut tree = Tree::default();
        for dir in ["bin", "etc", "lib"] {
            tree.insert(dir.as_bytes(), Node::Directory);
        }
        for path in [
            "bin/a",
            "etc/ld.so.cache",
            "lib/libc.so.6",
            "lib/ld-linux-x86-64.so.2",
        ] {
            tree.insert(path.as_bytes(), Node::File(file.len() as u64));
        }
        tree.insert(b"bin/sh", Node::Link(b"a".as_slice().into()));
        let contents = Same(&file);
        let found = needs(&tree, &contents, [(&b"bin/a"[..], Reason::Command)], &settings);
        assert!(
            found.kept.keys().all(|path| tree.get(path).is_some()),
            "round {round}"
        );
        let search = References::new(&tree, &contents, &settings);
        let named = [
            search.of(b"bin/a").unwrap(),
            search.shell_words(b"bin/a").unwrap(),
        ]
        .concat();
        for reference in named {
            assert!(
                found.kept.contains_key(&reference.to),
                "round {round}: {reference:?}"
            );
        }
    }
}
