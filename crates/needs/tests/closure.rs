//! Closures of small roots, and of files that an enemy wrote.

use std::collections::BTreeMap;
use tote_needs::{Contents, Needs, Node, Reason, Settings, Tree, needs};

/// Files in memory.
#[derive(Default)]
struct Memory(BTreeMap<Vec<u8>, Vec<u8>>);

impl Contents for Memory {
    fn read(&self, path: &[u8], offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let whole = self.0.get(path).ok_or(std::io::ErrorKind::NotFound)?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(whole.len());
        Ok(whole[from..whole.len().min(from.saturating_add(length))].to_vec())
    }
}

/// Makes a root. A value that begins with `->` is a link; `dir` is a directory.
fn root(entries: &[(&str, &[u8])]) -> (Tree, Memory) {
    let (mut tree, mut memory) = (Tree::default(), Memory::default());
    for (path, value) in entries {
        for (slash, _) in path.match_indices('/') {
            if tree.get(&path.as_bytes()[..slash]).is_none() {
                tree.insert(&path.as_bytes()[..slash], Node::Directory);
            }
        }
        let node = match value.strip_prefix(b"->") {
            Some(target) => Node::Link(target.into()),
            None if *value == b"dir" => Node::Directory,
            None => Node::File(value.len() as u64),
        };
        tree.insert(path.as_bytes(), node);
        memory.0.insert(path.as_bytes().to_vec(), value.to_vec());
    }
    (tree, memory)
}

fn seeds<'a>(paths: &[&'a str]) -> Vec<(&'a [u8], Reason)> {
    paths
        .iter()
        .map(|path| (path.as_bytes(), Reason::Command))
        .collect()
}

fn kept(needs: &Needs) -> Vec<String> {
    needs
        .kept
        .iter()
        .map(|(path, reason)| format!("{}: {reason}", path.escape_ascii()))
        .collect()
}

/// A 64-bit ELF file with these needed libraries, `DT_RPATH` or `DT_RUNPATH`, interpreter and further text.
fn elf(interpreter: &str, needed: &[&str], (tag, places): (u64, &str), text: &str) -> Vec<u8> {
    let (headers, base) = (64, 64 + 3 * 56);
    let mut strings = b"\0".to_vec();
    let mut place = |text: &str| {
        let at = strings.len() as u64;
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        at
    };
    let mut dynamic: Vec<u64> = needed.iter().flat_map(|name| [1, place(name)]).collect();
    if !places.is_empty() {
        dynamic.extend([tag, place(places)]);
    }
    let interp = place(interpreter);
    place(text);
    // The segment is mapped at 0x1000 beyond its offset.
    dynamic.extend([5, base + 0x1000, 0, 0]);
    let section = base + strings.len() as u64;
    let whole = section + 8 * dynamic.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    file[18] = 62;
    file[32..40].copy_from_slice(&u64::to_le_bytes(headers));
    file[54..58].copy_from_slice(&[56, 0, 3, 0]);
    let mut header = |kind: u32, offset: u64, length: u64| {
        file.extend_from_slice(&kind.to_le_bytes());
        file.extend_from_slice(&[0; 4]);
        for number in [offset, offset + 0x1000, 0, length, length, 0] {
            file.extend_from_slice(&number.to_le_bytes());
        }
    };
    header(1, 0, whole);
    header(2, section, 8 * dynamic.len() as u64);
    match interpreter {
        "" => header(4, 0, 0),
        name => header(3, base + interp, name.len() as u64 + 1),
    }
    file.extend_from_slice(&strings);
    for number in dynamic {
        file.extend_from_slice(&number.to_le_bytes());
    }
    file
}

const RPATH: u64 = 15;
const RUNPATH: u64 = 29;

#[test]
fn programs_need_interpreters_libraries_and_links() {
    let program = elf(
        "/lib64/ld.so",
        &["liba.so.1", "libgone.so"],
        (RUNPATH, "$ORIGIN/../lib"),
        "libnamed.so.3",
    );
    let (tree, memory) = root(&[
        ("usr/lib/ld-2.so", &elf("", &[], (0, ""), "")),
        ("usr/lib/liba.so.1", b"->liba.so.1.2"),
        ("usr/lib/liba.so.1.2", &elf("", &["libb.so"], (0, ""), "")),
        ("usr/lib/liba.so", b"->liba.so.1"),
        ("usr/lib/libb.so", &elf("", &["liba.so.1"], (0, ""), "")),
        ("usr/lib/libnamed.so.3", &elf("", &[], (0, ""), "")),
        ("usr/lib/libunused.so", &elf("", &[], (0, ""), "")),
        ("usr/bin/program", &program),
        ("usr/bin/other", &program),
        ("lib64", b"->usr/lib"),
        ("usr/lib/ld.so", b"->ld-2.so"),
        ("bin", b"->usr/bin"),
        ("usr/bin/p", b"->program"),
        ("usr/bin/o", b"->other"),
        ("lib", b"->usr/lib"),
        ("proc-link", b"->/proc/self/mounts"),
    ]);
    let found = needs(&tree, &memory, seeds(&["/bin/p"]), &Settings::default());
    assert_eq!(
        kept(&found),
        [
            "bin: link to /usr/bin/program",
            "lib: link to /usr/lib",
            "lib64: link to /usr/lib/ld-2.so",
            "proc-link: link out of the image",
            "usr/bin/p: link to /usr/bin/program",
            "usr/bin/program: the image's command",
            "usr/lib/ld-2.so: interpreter of /usr/bin/program",
            "usr/lib/ld.so: link to /usr/lib/ld-2.so",
            "usr/lib/liba.so: link to /usr/lib/liba.so.1.2",
            "usr/lib/liba.so.1: link to /usr/lib/liba.so.1.2",
            "usr/lib/liba.so.1.2: needed by /usr/bin/program",
            "usr/lib/libb.so: needed by /usr/lib/liba.so.1.2",
            "usr/lib/libnamed.so.3: named in /usr/bin/program",
        ]
    );
    let missing: Vec<_> = found
        .missing
        .iter()
        .map(|(name, _)| name.escape_ascii().to_string())
        .collect();
    assert_eq!(missing, ["libgone.so"]);
}

#[test]
fn libraries_are_looked_for_as_ld_so_does() {
    let library = || elf("", &[], (0, ""), "");
    let other = {
        let mut file = library();
        file[18] = 183;
        file
    };
    let cases: [(&str, Vec<u8>, &str, &str); 5] = [
        (
            "RPATH of the loader",
            elf("", &["libmid.so"], (RPATH, "/opt/r"), ""),
            "",
            "opt/r/libx.so",
        ),
        (
            "RUNPATH is not inherited",
            elf("", &["libmid.so"], (RUNPATH, "/opt/r"), ""),
            "",
            "usr/lib/libx.so",
        ),
        (
            "LD_LIBRARY_PATH",
            elf("", &["libx.so"], (RUNPATH, "/opt/r"), ""),
            "/opt/e",
            "opt/e/libx.so",
        ),
        (
            "before it the RPATH",
            elf("", &["libx.so"], (RPATH, "/opt/r"), ""),
            "/opt/e",
            "opt/r/libx.so",
        ),
        (
            "only for its machine",
            elf("", &["libx.so"], (RUNPATH, "/opt/m:/opt/r"), ""),
            "",
            "opt/r/libx.so",
        ),
    ];
    for (about, program, library_path, wanted) in cases {
        let (tree, memory) = root(&[
            ("p", &program),
            ("opt/r/libx.so", &library()),
            ("opt/e/libx.so", &library()),
            ("opt/m/libx.so", &other),
            ("usr/lib/libx.so", &library()),
            ("opt/r/libmid.so", &elf("", &["libx.so"], (0, ""), "")),
        ]);
        let settings = Settings {
            library_path: library_path.as_bytes().to_vec(),
            ..Settings::default()
        };
        let found = needs(&tree, &memory, seeds(&["p"]), &settings);
        let libraries: Vec<_> = kept(&found)
            .into_iter()
            .filter(|line| line.contains("libx"))
            .collect();
        assert_eq!(libraries.len(), 1, "{about}: {libraries:?}");
        assert!(libraries[0].starts_with(wanted), "{about}: {libraries:?}");
    }
}

#[test]
fn scripts_need_their_interpreters() {
    let (tree, memory) = root(&[
        ("app/start", b"#!/usr/bin/env -S py -u\n"),
        ("usr/local/bin/py", b"#! /bin/sh -e\n"),
        ("usr/bin/env", b"env"),
        ("usr/bin/dash", b"dash"),
        ("bin/sh", b"->../usr/bin/dash"),
        ("app/loop", b"#!/app/loop\n"),
        ("app/gone", b"#!/nowhere\n"),
    ]);
    let settings = Settings {
        path: b"/usr/local/bin:/usr/bin".to_vec(),
        ..Settings::default()
    };
    let found = needs(
        &tree,
        &memory,
        seeds(&["app/start", "app/loop", "app/gone"]),
        &settings,
    );
    let lines = kept(&found);
    for line in [
        "usr/local/bin/py: interpreter of /app/start",
        "usr/bin/env: interpreter of /app/start",
        "usr/bin/dash: interpreter of /usr/local/bin/py",
        "bin/sh: link to /usr/bin/dash",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:?}");
    }
    assert_eq!(found.missing.len(), 1, "{:?}", found.missing);
}

#[test]
fn rules_keep_what_belongs_together() {
    let (tree, memory) = root(&[
        ("usr/lib/python3.11/__pycache__/json.cpython-311.pyc", b"x"),
        ("usr/lib/python3.11/json.py", b"x"),
        ("usr/lib/python3.11/encodings/idna.py", b"x"),
        ("usr/lib/python3.11/unused.py", b"x"),
        ("app/node_modules/left/index.js", b"x"),
        ("app/node_modules/left/package.json", b"x"),
        ("app/node_modules/right/package.json", b"x"),
        ("etc/passwd", b"x"),
        ("etc/motd", b"x"),
        ("usr/share/zoneinfo/Europe/Berlin", b"x"),
        ("usr/share/zoneinfo/Europe/Paris", b"x"),
        ("srv/marker", b""),
    ]);
    let settings = Settings {
        zone: b":Europe/Berlin".to_vec(),
        ..Settings::default()
    };
    let used = [
        "usr/lib/python3.11/__pycache__/json.cpython-311.pyc",
        "app/node_modules/left/index.js",
    ];
    let found = needs(&tree, &memory, seeds(&used), &settings);
    let paths: Vec<_> = found
        .kept
        .keys()
        .map(|path| path.escape_ascii().to_string())
        .collect();
    assert_eq!(
        paths,
        [
            "app/node_modules/left/index.js",
            "app/node_modules/left/package.json",
            "etc/passwd",
            "srv/marker",
            "usr/lib/python3.11/__pycache__/json.cpython-311.pyc",
            "usr/lib/python3.11/encodings/idna.py",
            "usr/lib/python3.11/json.py",
            "usr/share/zoneinfo/Europe/Berlin",
        ]
    );
}

#[test]
fn every_rule_is_a_pattern() {
    for rule in &tote_needs::RULES {
        for text in rule.when.iter().chain(rule.keep) {
            // Rules have names in angle brackets, which a person's pattern does not have; the rest is the same.
            let plain: String = text
                .replace("<**", "**")
                .replace("<*", "*")
                .replace(['<', '>'], "");
            assert!(
                tote_needs::Pattern::parse(&plain).is_ok(),
                "{}: {text}",
                rule.name
            );
            assert!(!text.starts_with('/'), "{}: {text}", rule.name);
        }
    }
}

/// Every truncation and many changes of a program: no panic, no endless search, and nothing that is not there.
#[test]
fn hostile_files() {
    let program = elf(
        "/lib/ld.so",
        &["liba.so", "libb.so"],
        (RPATH, "$ORIGIN:/usr/lib"),
        "libc.so.9",
    );
    let check = |program: &[u8]| {
        let (tree, memory) = root(&[
            ("p", program),
            ("lib/ld.so", &elf("", &[], (0, ""), "")),
            ("usr/lib/liba.so", &elf("", &["libb.so"], (0, ""), "")),
            ("usr/lib/libb.so", &elf("/p", &["liba.so"], (0, ""), "")),
            ("a", b"->b"),
            ("b", b"->a"),
        ]);
        let found = needs(&tree, &memory, seeds(&["p", "a"]), &Settings::default());
        assert!(found.kept.keys().all(|path| tree.get(path).is_some()));
    };
    for end in 0..program.len() {
        check(&program[..end]);
    }
    for at in 0..program.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = program.clone();
            changed[at] = byte;
            check(&changed);
        }
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..2000 {
        let mut changed = program.clone();
        for _ in 0..8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = usize::try_from(state % changed.len() as u64).unwrap();
            changed[at] = state.to_le_bytes()[7];
        }
        check(&changed);
    }
}

/// Adds what is directly in a directory of the whole root to a part of it.
fn read_into(part: &mut Tree, whole: &Tree, dir: &[u8]) {
    for (path, node) in whole.iter() {
        let above = path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(&b""[..], |slash| &path[..slash]);
        if above == dir {
            match node {
                Node::Directory => part.insert_unread(path),
                node => part.insert(path, node.clone()),
            }
        }
    }
}

#[test]
fn a_root_that_is_read_on_demand_gives_the_same_answer() {
    let library = elf("", &[], (0, ""), "");
    let program = elf(
        "/lib64/ld.so",
        &["libc.so.6"],
        (RUNPATH, "$ORIGIN/../lib/own"),
        "libnamed.so.3",
    );
    let mut entries: Vec<(String, &[u8])> = vec![
        ("lib64".to_owned(), b"->usr/lib"),
        ("bin".to_owned(), b"->usr/bin"),
        ("usr/bin/program".to_owned(), &program),
        ("usr/bin/script".to_owned(), b"#!/usr/bin/env program\n"),
        ("usr/lib/ld.so".to_owned(), &library),
        ("usr/lib/x86_64-linux-gnu/libc.so.6".to_owned(), &library),
        ("usr/lib/x86_64-linux-gnu/libnss_files.so.2".to_owned(), &library),
        ("usr/lib/x86_64-linux-gnu/gconv/UTF-16.so".to_owned(), &library),
        ("usr/lib/own/libnamed.so.3".to_owned(), b"->../other/libnamed.so"),
        ("usr/lib/other/libnamed.so".to_owned(), &library),
        ("usr/share/zoneinfo/UTC".to_owned(), b"zone"),
        ("etc/passwd".to_owned(), b"root"),
    ];
    entries.extend((0..50).map(|number| (format!("usr/share/doc/p{number}/copyright"), &b"text"[..])));
    let entries: Vec<(&str, &[u8])> = entries.iter().map(|(path, value)| (&**path, *value)).collect();
    let (whole, memory) = root(&entries);
    let settings = Settings {
        path: b"/bin".to_vec(),
        only_needed: true,
        ..Settings::default()
    };
    let ask = |tree: &Tree| needs(tree, &memory, seeds(&["/bin/script"]), &settings);
    let mut part = Tree::default();
    read_into(&mut part, &whole, b"");
    let mut read = 0;
    let found = loop {
        let found = ask(&part);
        let asked = part.take_asked();
        if asked.is_empty() {
            break found;
        }
        read += asked.len();
        asked.iter().for_each(|dir| read_into(&mut part, &whole, dir));
    };
    assert!(
        found.kept.contains_key(&b"usr/lib/other/libnamed.so"[..]),
        "{:?}",
        kept(&found)
    );
    assert_eq!(found, ask(&whole));
    assert!(read < 20, "{read} directories were read");
    assert!(part.get(b"usr/share/doc/p1/copyright").is_none());
}
