//! Configuration of the dynamic linker: `ld.so.cache`, `ld.so.conf`, and musl's list of directories.

use crate::object::Contents;
use crate::pattern::Pattern;
use crate::tree::{Node, Tree, join, parent};
use std::collections::BTreeMap;

/// Maximum size of a cache in bytes, and of its entries.
const MAX_CACHE: usize = 16 << 20;
const MAX_ENTRIES: usize = 1 << 18;
/// Maximum size of a configuration file in bytes, depth and number of such files.
const MAX_CONF: usize = 64 << 10;
const MAX_DEPTH: usize = 8;
const MAX_FILES: usize = 256;

const OLD: &[u8] = b"ld.so-1.7.0\0";
const NEW: &[u8] = b"glibc-ld.so.cache1.1";
/// Lengths of the headers and entries in bytes.
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
const NEW_HEADER: usize = 48;
const NEW_ENTRY: usize = 24;

/// Libraries by name, each with its paths in the order of the cache.
pub(crate) type Cache = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Parses `ld.so.cache`; of a damaged one comes what can be read.
pub(crate) fn parse_cache(bytes: &[u8]) -> Cache {
    let mut cache = Cache::new();
    let Some(bytes) = new_part(bytes) else {
        return cache;
    };
    // Two bits of this byte tell the byte order, if the writer set them.
    let big = bytes.get(28).is_some_and(|flags| flags & 3 == 3);
    let number = |at: usize| -> Option<usize> {
        let field: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        let number = if big {
            u32::from_be_bytes(field)
        } else {
            u32::from_le_bytes(field)
        };
        usize::try_from(number).ok()
    };
    let text = |at: usize| -> Option<&[u8]> {
        let rest = bytes.get(at..)?;
        let end = rest.iter().take(4096).position(|byte| *byte == 0)?;
        (end > 0).then(|| &rest[..end])
    };
    let count = number(NEW.len()).unwrap_or(0).min(MAX_ENTRIES);
    for index in 0..count {
        let at = NEW_HEADER + index * NEW_ENTRY;
        let (Some(key), Some(value)) = (number(at + 4), number(at + 8)) else {
            break;
        };
        if let (Some(key), Some(value)) = (text(key), text(value)) {
            cache.entry(key.to_vec()).or_default().push(value.to_vec());
        }
    }
    cache
}

/// The newer format, which may follow the older one.
fn new_part(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.starts_with(NEW) {
        return Some(bytes);
    }
    bytes.strip_prefix(OLD)?;
    let count: [u8; 4] = bytes.get(OLD.len()..OLD_HEADER)?.try_into().ok()?;
    let count = usize::try_from(u32::from_le_bytes(count)).ok()?;
    let end = count.checked_mul(OLD_ENTRY)?.checked_add(OLD_HEADER)?;
    bytes
        .get(end.next_multiple_of(8)..)
        .filter(|rest| rest.starts_with(NEW))
}

/// Reads the cache of a root, if it has one.
pub(crate) fn cache_of(tree: &Tree, contents: &dyn Contents) -> Cache {
    read(tree, contents, b"etc/ld.so.cache", MAX_CACHE).map_or_else(Cache::new, |bytes| parse_cache(&bytes))
}

/// Reads the directories of `ld.so.conf` and of the files that it includes.
pub(crate) fn conf_of(tree: &Tree, contents: &dyn Contents) -> Vec<Vec<u8>> {
    let mut conf = Conf {
        tree,
        contents,
        dirs: Vec::new(),
        files: 0,
    };
    conf.file(b"etc/ld.so.conf", 0);
    conf.dirs
}

/// Reads musl's list of directories, if the root has one.
pub(crate) fn musl_of(tree: &Tree, contents: &dyn Contents) -> Vec<Vec<u8>> {
    let is_list = |path: &[u8]| path.ends_with(b".path");
    let lists = tree.beginning(b"etc/ld-musl-").filter(|(path, _)| is_list(path));
    let mut dirs = Vec::new();
    for (path, _) in lists.take(MAX_FILES) {
        let text = read(tree, contents, path, MAX_CONF).unwrap_or_default();
        dirs.extend(words(&text).map(<[u8]>::to_vec));
    }
    dirs
}

struct Conf<'a> {
    tree: &'a Tree,
    contents: &'a dyn Contents,
    dirs: Vec<Vec<u8>>,
    files: usize,
}

impl Conf<'_> {
    fn file(&mut self, path: &[u8], depth: usize) {
        self.files += 1;
        if depth >= MAX_DEPTH || self.files > MAX_FILES {
            return;
        }
        let text = read(self.tree, self.contents, path, MAX_CONF).unwrap_or_default();
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
            let mut words = words(line);
            match words.next() {
                Some(b"include") => {
                    for pattern in words {
                        self.include(parent(path), pattern, depth);
                    }
                }
                Some(b"hwcap") | None => {}
                Some(first) => self
                    .dirs
                    .extend([first].into_iter().chain(words).map(<[u8]>::to_vec)),
            }
        }
    }

    fn include(&mut self, dir: &[u8], pattern: &[u8], depth: usize) {
        let whole = match pattern.strip_prefix(b"/") {
            Some(absolute) => absolute.to_vec(),
            None => join(dir, pattern),
        };
        let Some(pattern) = std::str::from_utf8(&whole)
            .ok()
            .and_then(|text| Pattern::parse(text).ok())
        else {
            return;
        };
        let prefix = pattern.prefix().0;
        let found: Vec<Box<[u8]>> = self
            .tree
            .beginning(&prefix)
            .filter(|(path, _)| pattern.matches(path))
            .map(|(path, _)| path.into())
            .collect();
        for path in found {
            self.file(&path, depth + 1);
        }
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b':' | b',');
    text.split(is_space).filter(|word| !word.is_empty())
}

fn read(tree: &Tree, contents: &dyn Contents, path: &[u8], limit: usize) -> Option<Vec<u8>> {
    let found = tree.resolve(path)?;
    match tree.get(&found.path) {
        Some(Node::File(_)) => contents.read(&found.path, 0, limit).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = NEW.to_vec();
        bytes.extend_from_slice(&u32::try_from(entries.len()).unwrap().to_le_bytes());
        bytes.resize(NEW_HEADER, 0);
        let mut strings = Vec::new();
        let base = NEW_HEADER + entries.len() * NEW_ENTRY;
        for (key, value) in entries {
            let mut place = |text: &str| {
                let at = u32::try_from(base + strings.len()).unwrap();
                strings.extend_from_slice(text.as_bytes());
                strings.push(0);
                at
            };
            let (key, value) = (place(key), place(value));
            bytes.extend_from_slice(&3u32.to_le_bytes());
            bytes.extend_from_slice(&key.to_le_bytes());
            bytes.extend_from_slice(&value.to_le_bytes());
            bytes.extend_from_slice(&[0; 12]);
        }
        bytes.extend_from_slice(&strings);
        bytes
    }

    #[test]
    fn caches() {
        let whole = cache(&[("libc.so.6", "/lib/libc.so.6"), ("libm.so.6", "/lib/libm.so.6")]);
        let parsed = parse_cache(&whole);
        assert_eq!(parsed[b"libm.so.6".as_slice()], [b"/lib/libm.so.6"]);
        let mut old = OLD.to_vec();
        old.extend_from_slice(&1u32.to_le_bytes());
        old.extend_from_slice(&[0; OLD_ENTRY]);
        old.resize(old.len().next_multiple_of(8), 0);
        old.extend_from_slice(&whole);
        assert_eq!(parse_cache(&old), parsed);
        // No bytes make the parser panic.
        for end in 0..whole.len() {
            parse_cache(&whole[..end]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                parse_cache(&changed);
            }
        }
    }
}
