//! A root's paths become parts: packages, directories, and the base that everything stands on.

use std::collections::BTreeMap;
use tote_needs::{Node, Tree};

/// Name of the part with the links to directories at the top, and with the files that rules keep for every program.
pub const BASE: &str = "base";

/// Directories whose children are parts of their own, where no package has them.
const WIDE: [&[u8]; 7] = [b"home", b"media", b"mnt", b"opt", b"srv", b"usr", b"var"];
/// Directories that only a running container fills.
const EMPTY: [&[u8]; 5] = [b"dev", b"proc", b"run", b"sys", b"tmp"];
/// Files and directories of the base, where no package has them.
const OF_BASE: [&[u8]; 22] = [
    b"etc/passwd",
    b"etc/group",
    b"etc/shells",
    b"etc/nsswitch.conf",
    b"etc/hosts",
    b"etc/hostname",
    b"etc/resolv.conf",
    b"etc/ld.so.cache",
    b"etc/ld.so.conf",
    b"etc/localtime",
    b"etc/timezone",
    b"etc/os-release",
    b"etc/mtab",
    b"etc/ssl/certs/ca-certificates.crt",
    b"root",
    b"tmp",
    b"var/tmp",
    b"run",
    b"proc",
    b"sys",
    b"dev",
    b"var/run",
];

/// A part of a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Number of its package; `None` for a directory and for the base.
    pub package: Option<usize>,
    /// Name of a directory's part, or [`BASE`]; empty for a package.
    pub name: String,
    /// Its files, links and empty directories, sorted.
    pub paths: Vec<Box<[u8]>>,
}

/// Divides the paths of a root. `lists` are the paths that each package says it has, in the package's own words: where
/// `/bin` is a link, a package may have `/bin/ls`. Every path comes into one part; a directory belongs to a part only
/// where nothing is in it. Parts with empty directories only go to the base; other parts without paths are left out, but for the base, which is the first.
#[must_use]
pub fn split(tree: &Tree, lists: &[Vec<Vec<u8>>]) -> Vec<Part> {
    let mut owners: BTreeMap<Box<[u8]>, usize> = BTreeMap::new();
    for (package, list) in lists.iter().enumerate() {
        for path in list {
            if let Some(real) = tree.real(path) {
                owners.entry(real).or_insert(package);
            }
        }
    }
    // A link without a package belongs to the package of the file that it leads to: alternatives, links of scripts.
    for (path, node) in tree.iter() {
        if matches!(node, Node::Link(_))
            && !owners.contains_key(path)
            && let Some(owner) = tree.target(path).and_then(|target| owners.get(&target).copied())
        {
            owners.insert(path.into(), owner);
        }
    }
    let mut parts = vec![Part {
        name: BASE.to_owned(),
        ..Part::default()
    }];
    let mut packages: BTreeMap<usize, Part> = BTreeMap::new();
    let mut dirs: BTreeMap<String, Part> = BTreeMap::new();
    let mut paths = tree.iter().peekable();
    while let Some((path, node)) = paths.next() {
        let is_dir = *node == Node::Directory;
        let is_full = |next: &[u8]| next.starts_with(path) && next.get(path.len()) == Some(&b'/');
        // Names such as `a-b` sort between `a` and `a/b`, so only a search tells.
        if is_dir && (paths.peek().is_some_and(|(next, _)| is_full(next)) || tree.has_below(path)) {
            continue;
        }
        let is_link = matches!(node, Node::Link(_));
        let part = match owners.get(path) {
            _ if is_link && !path.contains(&b'/') => &mut parts[0],
            Some(package) => packages.entry(*package).or_insert_with(|| Part {
                package: Some(*package),
                ..Part::default()
            }),
            None if OF_BASE.contains(&path) => &mut parts[0],
            None => {
                let top = path.split(|byte| *byte == b'/').next().unwrap_or_default();
                if EMPTY.contains(&top) {
                    continue;
                }
                let name = format!("dir:/{}", String::from_utf8_lossy(directory(path, is_dir)));
                dirs.entry(name.clone()).or_insert_with(|| Part {
                    name,
                    ..Part::default()
                })
            }
        };
        part.paths.push(path.into());
    }
    parts.extend(packages.into_values());
    for part in dirs.into_values() {
        // Empty directories alone are no part: they are where something may be put.
        match part
            .paths
            .iter()
            .all(|path| tree.get(path) == Some(&Node::Directory))
        {
            true => parts[0].paths.extend(part.paths),
            false => parts.push(part),
        }
    }
    parts[0].paths.sort();
    parts
}

/// Returns the directory that gives a path without a package its part.
fn directory(path: &[u8], is_dir: bool) -> &[u8] {
    let mut names = path.split(|byte| *byte == b'/');
    let first = names.next().unwrap_or_default();
    let second = names.next().unwrap_or_default();
    let has_more = is_dir || names.next().is_some();
    match second {
        [] if is_dir => first,
        [] => b"",
        second if WIDE.contains(&first) && has_more => &path[..=first.len() + second.len()],
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_in_one_part() {
        let tree = Tree::from_iter([
            ("bin", Node::Link(b"usr/bin".as_slice().into())),
            ("usr", Node::Directory),
            ("usr/bin", Node::Directory),
            ("usr/bin/ls", Node::File(1)),
            ("usr/bin/own", Node::File(1)),
            ("usr/local", Node::Directory),
            ("usr/local/bin", Node::Directory),
            ("usr/local/bin/x", Node::File(1)),
            ("etc", Node::Directory),
            ("etc/passwd", Node::File(1)),
            ("etc/app", Node::Directory),
            ("etc-old", Node::Directory),
            ("var", Node::Directory),
            ("var/lib", Node::Directory),
            ("var/lib/ls", Node::Directory),
            ("tmp", Node::Directory),
            ("proc", Node::Directory),
            ("proc/1", Node::Directory),
            ("top", Node::File(1)),
            ("usr/bin/dir", Node::Link(b"/etc/dir".as_slice().into())),
            ("etc/dir", Node::Link(b"/bin/ls".as_slice().into())),
        ]);
        let lists = [vec![
            b"/bin/ls".to_vec(),
            b"/var/lib/ls".to_vec(),
            b"/gone".to_vec(),
        ]];
        let parts = split(&tree, &lists);
        let text: Vec<String> = parts
            .iter()
            .map(|part| {
                let paths: Vec<_> = part
                    .paths
                    .iter()
                    .map(|path| String::from_utf8_lossy(path))
                    .collect();
                format!("{:?} {}: {}", part.package, part.name, paths.join(" "))
            })
            .collect();
        assert_eq!(
            text,
            [
                "None base: bin etc-old etc/app etc/passwd tmp",
                "Some(0) : etc/dir usr/bin/dir usr/bin/ls var/lib/ls",
                "None dir:/: top",
                "None dir:/usr/bin: usr/bin/own",
                "None dir:/usr/local: usr/local/bin/x",
            ]
        );
    }
}
