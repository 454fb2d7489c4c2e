//! Places in which tools find their libraries and data.

use super::tree::{PLACE, seen};
use rustix::fd::BorrowedFd;
use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};
use std::path::Path;
use tote_rootfs::{read_in_root, resolve_in};

/// Directories that linkers search without being told so.
pub(super) const STANDARD: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Number of directories at most.
const MOST: usize = 64;

/// Size of the largest list of directories that is read.
const LARGEST: usize = 64 << 10;

/// Directories of terminal descriptions.
const TERMINALS: [&str; 3] = ["/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"];

/// Places beside [`STANDARD`] that say which libraries there are.
pub(super) const CONFIGURED: [&str; 2] = ["/etc/ld.so.conf", "/etc/ld.so.conf.d"];

/// Returns the directories of libraries, as the session sees them, with colons between them.
pub(super) fn search_path(root: BorrowedFd<'_>) -> String {
    let mut dirs: Vec<String> = Vec::new();
    let configured = configured(root);
    for dir in STANDARD
        .iter()
        .copied()
        .chain(configured.iter().map(String::as_str))
    {
        let real = resolve_in(root, dir).ok().flatten();
        let Some(dir) = real.and_then(|dir| seen(&dir)) else {
            continue;
        };
        if !dirs.contains(&dir) && !dir[1..].contains(':') && dirs.len() < MOST {
            dirs.push(dir);
        }
    }
    dirs.join(":")
}

/// Reads the directories in the linker's configuration, glibc's or musl's.
fn configured(root: BorrowedFd<'_>) -> Vec<String> {
    let read = |path: &str| {
        let text = read_in_root(root, path, LARGEST).ok().flatten();
        text.map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let mut texts = vec![read(CONFIGURED[0])];
    let parts = CONFIGURED[1];
    texts.extend(
        names(root, parts)
            .iter()
            .filter(|name| name.ends_with(".conf"))
            .map(|name| read(&format!("{parts}/{name}"))),
    );
    let machine = std::env::consts::ARCH;
    texts.push(read(&format!("/etc/ld-musl-{machine}.path")));
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    let words = texts
        .iter()
        .flat_map(|text| text.split(['\n', ':', ' ', '\t', ',']));
    words
        .filter(|word| word.starts_with('/'))
        .map(str::to_owned)
        .collect()
}

fn names(root: BorrowedFd<'_>, dir: &str) -> Vec<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let opened = tote_sys::openat2(root, dir, flags, Mode::empty(), resolve);
    let entries = opened.and_then(Dir::new).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let mut names: Vec<String> = names.take(MOST).collect();
    names.sort();
    names
}

/// Returns variables for tools that look for their data only in fixed places: descriptions of terminals, and vim's own files.
pub(super) fn variables(root: BorrowedFd<'_>) -> Vec<String> {
    let is_there = |path: &str| matches!(resolve_in(root, Path::new(path)), Ok(Some(_)));
    let terminals = TERMINALS.into_iter().filter(|path| is_there(path));
    let terminals: Vec<String> = terminals.filter_map(|path| seen(Path::new(path))).collect();
    let mut env = Vec::new();
    if !terminals.is_empty() {
        // An empty entry stands for the places of the container's own programs, which come first.
        env.push(format!("TERMINFO_DIRS=:{}", terminals.join(":")));
    }
    let vim = "/usr/share/vim";
    let runtime = names(root, vim).into_iter().rfind(|name| {
        name.strip_prefix("vim")
            .is_some_and(|rest| rest.parse::<u32>().is_ok())
    });
    env.extend(runtime.map(|name| format!("VIMRUNTIME={PLACE}{vim}/{name}")));
    env
}
