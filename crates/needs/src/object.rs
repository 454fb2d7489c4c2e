//! ELF files of a root: their names of other files.

use crate::elf::{self, Machine, Table};
use std::collections::BTreeSet;

/// Maximum length of a name in bytes, the kernel's `PATH_MAX`.
const MAX_NAME: usize = 4096;
/// Maximum number of bytes of a file that are searched for names of libraries.
const MAX_TEXT: u64 = 512 << 20;
/// Maximum number of such names in a file.
const MAX_NAMES: usize = 4096;
/// Bytes that are searched at once, and the longest name that is found where two such pieces meet.
const PIECE: usize = 1 << 20;
const OVERLAP: usize = 256;

/// Reader of the files of a root.
pub trait Contents {
    /// Reads up to `length` bytes of a regular file from `offset`; fewer only at its end. The path has no leading slash,
    /// and no symbolic link is on it.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self, path: &[u8], offset: u64, length: usize) -> std::io::Result<Vec<u8>>;
}

/// Names in an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) machine: Machine,
    pub(crate) interpreter: Option<Vec<u8>>,
    pub(crate) needed: Vec<Vec<u8>>,
    /// Places of `DT_RPATH`; they count for the libraries of libraries too.
    pub(crate) rpath: Vec<Vec<u8>>,
    /// Places of `DT_RUNPATH`, which makes `DT_RPATH` void.
    pub(crate) runpath: Vec<Vec<u8>>,
}

/// Reads the machine of a file; `None` if it is not ELF.
pub(crate) fn machine(contents: &dyn Contents, path: &[u8]) -> Option<Machine> {
    let header = contents.read(path, 0, elf::HEADER).ok()?;
    Some(elf::program_headers(&header)?.machine)
}

/// Reads an ELF file; `None` for another file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn object(contents: &dyn Contents, path: &[u8], header: &[u8]) -> std::io::Result<Option<Object>> {
    let Some(table) = elf::program_headers(&header[..header.len().min(elf::HEADER)]) else {
        return Ok(None);
    };
    let bytes = contents.read(path, table.offset, table.length)?;
    let mut object = Object {
        machine: table.machine,
        interpreter: None,
        needed: Vec::new(),
        rpath: Vec::new(),
        runpath: Vec::new(),
    };
    if let Some((offset, length)) = elf::interp(table, &bytes) {
        let length = usize::try_from(length).unwrap_or(MAX_NAME).min(MAX_NAME);
        object.interpreter = text(contents.read(path, offset, length)?);
    }
    linked(contents, path, (table, &bytes), &mut object)?;
    Ok(Some(object))
}

fn linked(
    contents: &dyn Contents,
    path: &[u8],
    (table, bytes): (Table, &[u8]),
    object: &mut Object,
) -> std::io::Result<()> {
    let Some((offset, length)) = elf::dynamic_section(table, bytes) else {
        return Ok(());
    };
    let section = contents.read(path, offset, length)?;
    let Some(dynamic) = elf::dynamic(table, &section) else {
        return Ok(());
    };
    let Some(strings) = elf::offset_of(table, bytes, dynamic.strings) else {
        return Ok(());
    };
    let name = |at: u64| -> std::io::Result<Option<Vec<u8>>> {
        let Some(at) = strings.checked_add(at) else {
            return Ok(None);
        };
        Ok(text(contents.read(path, at, MAX_NAME)?))
    };
    for at in dynamic.needed {
        object.needed.extend(name(at)?);
    }
    let places = |at: Option<u64>| -> std::io::Result<Vec<Vec<u8>>> {
        let list = at.map_or(Ok(None), name)?.unwrap_or_default();
        Ok(list
            .split(|byte| *byte == b':')
            .filter(|place| !place.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    };
    object.runpath = places(dynamic.runpath)?;
    if object.runpath.is_empty() {
        object.rpath = places(dynamic.rpath)?;
    }
    Ok(())
}

/// Cuts a text off at its NUL; `None` for one that is empty or does not end.
fn text(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(0));
    (!bytes.is_empty()).then_some(bytes)
}

/// Finds the names of libraries in the text of a file, which a program may give to dlopen(3), and paths below the
/// directories where programs have programs of their own.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn library_names(contents: &dyn Contents, path: &[u8]) -> std::io::Result<BTreeSet<Vec<u8>>> {
    let (mut names, mut at, mut before) = (BTreeSet::new(), 0, Vec::new());
    while at < MAX_TEXT && names.len() < MAX_NAMES {
        let piece = contents.read(path, at, PIECE)?;
        if piece.is_empty() {
            break;
        }
        at += piece.len() as u64;
        before.extend_from_slice(&piece);
        names_in(&before, &mut names);
        paths_in(&before, &mut names);
        before.drain(..before.len().saturating_sub(OVERLAP));
    }
    Ok(names)
}

fn names_in(bytes: &[u8], names: &mut BTreeSet<Vec<u8>>) {
    let mut from = 0;
    while let Some(found) = find(&bytes[from..], b".so") {
        let dot = from + found;
        from = dot + 3;
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+-./".contains(byte);
        let least = dot.saturating_sub(OVERLAP);
        let begin = bytes[least..dot]
            .iter()
            .rposition(|byte| !is_name(byte))
            .map_or(least, |place| least + place + 1);
        let digits = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let end = bytes[from..]
            .iter()
            .take(OVERLAP)
            .position(|byte| !digits(byte))
            .map_or(bytes.len(), |place| from + place);
        let name = &bytes[begin..end];
        let is_library = name.starts_with(b"lib") && !name.contains(&b'/') || name.starts_with(b"/");
        if is_library && !name.ends_with(b".") && names.len() < MAX_NAMES {
            names.insert(name.to_vec());
        }
    }
}

/// Finds paths below `/usr/lib` and `/usr/libexec` in a text.
fn paths_in(bytes: &[u8], names: &mut BTreeSet<Vec<u8>>) {
    const BELOW: &[u8] = b"/usr/lib";
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+-./".contains(byte);
    let mut from = 0;
    while let Some(found) = find(&bytes[from..], BELOW) {
        let begin = from + found;
        from = begin + BELOW.len();
        if begin > 0 && is_name(&bytes[begin - 1]) {
            continue;
        }
        let rest = bytes[from..].iter().take(OVERLAP - BELOW.len());
        if let Some(length) = rest.clone().position(|byte| !is_name(byte))
            && names.len() < MAX_NAMES
        {
            names.insert(bytes[begin..from + length].to_vec());
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_libraries_in_a_text() {
        let mut names = BTreeSet::new();
        let text = b"\0libgcc_s.so.1\0x libm.so.6: no\0/usr/lib/foo/libbar.so\0no.so\0lib.txt\0lib%s.so\0";
        names_in(text, &mut names);
        let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
        assert_eq!(names, ["/usr/lib/foo/libbar.so", "libgcc_s.so.1", "libm.so.6"]);
    }

    #[test]
    fn paths_of_programs_in_a_text() {
        let mut names = BTreeSet::new();
        let text = b"\0program /usr/lib/squid/unlinkd\0/usr/libexec/%s/y z\0\"/usr/libexec/a\"/opt/usr/lib/b\0/usr/lib/end";
        paths_in(text, &mut names);
        let names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
        assert_eq!(
            names,
            ["/usr/lib/squid/unlinkd", "/usr/libexec/", "/usr/libexec/a"]
        );
    }

    /// A file whose names lie where two pieces meet.
    struct Long(usize);

    impl Contents for Long {
        fn read(&self, _: &[u8], offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
            let whole = [&vec![0; self.0][..], b"libfoo.so.2\0"].concat();
            let from = usize::try_from(offset).unwrap().min(whole.len());
            Ok(whole[from..whole.len().min(from + length)].to_vec())
        }
    }

    #[test]
    fn names_where_pieces_meet() {
        for before in [0, PIECE - 11, PIECE - 5, PIECE - 1, PIECE, 2 * PIECE - 3] {
            let names = library_names(&Long(before), b"x").unwrap();
            assert!(names.contains(b"libfoo.so.2".as_slice()), "{before}: {names:?}");
        }
    }
}
