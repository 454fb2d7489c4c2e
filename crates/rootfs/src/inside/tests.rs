//! Hostile roots and hostile executables.

#![expect(
    clippy::disallowed_methods,
    reason = "files are prepared in a directory of the test's own"
)]

use super::{
    Interpreter, InterpreterKind, LookupError, ReadError, interpreter_of, lookup_executable, read_in_root,
};
use rustix::fs::{CWD, FileType, Mode};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tote_needs::{elf, script_line};

fn root_with(files: &[(&str, u32, &[u8])]) -> (TempDir, File) {
    let root = tempfile::tempdir().unwrap();
    for (path, mode, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
    }
    let dir = File::open(root.path()).unwrap();
    (root, dir)
}

#[test]
fn symbolic_links_stay_inside_the_root() {
    let (root, dir) = root_with(&[("etc/real", 0o644, b"inside"), ("deep/er/x", 0o644, b"")]);
    for (link, target) in [
        ("etc/absolute", "/etc/real"),
        ("etc/up", "../../../../etc/real"),
        ("etc/passwd", "/etc/hostname"),
    ] {
        symlink(target, root.path().join(link)).unwrap();
    }
    for path in [
        "etc/real",
        "/etc/real",
        "etc/absolute",
        "/etc/up",
        "../../etc/real",
        "deep/er/../../etc/up",
    ] {
        assert_eq!(
            read_in_root(&dir, path, 100).unwrap().unwrap(),
            b"inside",
            "{path}"
        );
    }
    // The host most likely has such a file; the root does not.
    assert_eq!(read_in_root(&dir, "etc/passwd", 1000).unwrap(), None);
    assert_eq!(read_in_root(&dir, "etc/real/below", 1000).unwrap(), None);
}

#[test]
fn only_regular_files_of_bearable_size_are_read() {
    let (root, dir) = root_with(&[("big", 0o644, &[b'x'; 5000]), ("empty", 0o644, b"")]);
    rustix::fs::mknodat(CWD, root.path().join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    for path in ["fifo", "/"] {
        assert!(
            matches!(read_in_root(&dir, path, 10), Err(ReadError::NotRegular { .. })),
            "{path}"
        );
    }
    assert!(matches!(
        read_in_root(&dir, "big", 4999),
        Err(ReadError::TooLarge { limit: 4999, .. })
    ));
    assert_eq!(read_in_root(&dir, "big", 5000).unwrap().unwrap().len(), 5000);
    assert_eq!(
        read_in_root(&dir, "big", usize::MAX).unwrap().unwrap().len(),
        5000
    );
    assert_eq!(read_in_root(&dir, "empty", 0).unwrap().unwrap(), b"");
    assert!(matches!(
        read_in_root(&dir, "loop", 10),
        Err(ReadError::Open { .. })
    ));
}

#[test]
fn files_that_hide_their_size_are_read_to_the_limit() {
    let proc = File::open("/proc").unwrap();
    let whole = read_in_root(&proc, "version", 1 << 20).unwrap().unwrap();
    assert!(whole.starts_with(b"Linux version"));
    assert_eq!(
        read_in_root(&proc, "version", whole.len()).unwrap().unwrap(),
        whole
    );
    assert!(matches!(
        read_in_root(&proc, "version", whole.len() - 1),
        Err(ReadError::TooLarge { .. })
    ));
}

/// Builds a 64-bit little-endian executable with a `PT_LOAD` and, after it, a `PT_INTERP`.
fn elf64(interpreter: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 64 + 2 * 56];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[32..40].copy_from_slice(&64u64.to_le_bytes());
    file[54..58].copy_from_slice(&[56, 0, 2, 0]);
    file[64] = 1;
    file[120] = 3;
    file[128..136].copy_from_slice(&176u64.to_le_bytes());
    file[152..160].copy_from_slice(&(interpreter.len() as u64 + 1).to_le_bytes());
    file.extend_from_slice(interpreter);
    file.push(0);
    file
}

/// Builds a 32-bit big-endian executable with only a `PT_INTERP`.
fn elf32(interpreter: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 52 + 32];
    file[..6].copy_from_slice(b"\x7fELF\x01\x02");
    file[28..32].copy_from_slice(&52u32.to_be_bytes());
    file[42..46].copy_from_slice(&[0, 32, 0, 1]);
    file[55] = 3;
    file[56..60].copy_from_slice(&84u32.to_be_bytes());
    file[68..72].copy_from_slice(&(interpreter.len() as u32 + 1).to_be_bytes());
    file.extend_from_slice(interpreter);
    file.push(0);
    file
}

#[test]
fn interpreters_are_named_and_looked_for() {
    let (root, dir) = root_with(&[
        ("lib/ld.so", 0o755, b"ld"),
        ("bin/dynamic", 0o755, &elf64(b"/lib64/ld.so")),
        ("bin/foreign", 0o755, &elf32(b"/lib/ld.so.1")),
        ("bin/script", 0o755, b"#! /usr/bin/python3 -u\nprint()"),
        ("bin/text", 0o755, b"hello"),
        ("bin/empty", 0o755, b""),
    ]);
    symlink("lib", root.path().join("lib64")).unwrap();
    let some = |path: &str, kind, present| {
        Some(Interpreter {
            path: path.into(),
            kind,
            present,
        })
    };
    for (program, expected) in [
        ("/bin/dynamic", some("/lib64/ld.so", InterpreterKind::Elf, true)),
        ("/bin/foreign", some("/lib/ld.so.1", InterpreterKind::Elf, false)),
        (
            "/bin/script",
            some("/usr/bin/python3", InterpreterKind::Script, false),
        ),
        ("/bin/text", None),
        ("/bin/empty", None),
        ("/bin/absent", None),
    ] {
        assert_eq!(interpreter_of(&dir, program).unwrap(), expected, "{program}");
    }
}

#[test]
fn script_lines_are_read_as_the_kernel_reads_them() {
    let long = [&b"#!/"[..], &[b'x'; 300]].concat();
    for (first, name) in [
        (&b"#!/bin/sh\n"[..], Some(&b"/bin/sh"[..])),
        (b"#!/bin/sh", Some(b"/bin/sh")),
        (b"#! \t/bin/env sh\n", Some(b"/bin/env")),
        (b"#!/bin/sh\0junk", Some(b"/bin/sh")),
        (b"#!\n/bin/sh", None),
        (b"#!   ", None),
        (b"#!", None),
        (b"#", None),
        (b"", None),
        (&long[..256], None),
    ] {
        assert_eq!(
            script_line(first).map(|line| line.program),
            name,
            "{}",
            first.escape_ascii()
        );
    }
}

/// Every truncation, every change of one byte to an extreme, and noise after a valid magic number.
#[test]
fn no_bytes_make_the_parser_panic() {
    fn parse(bytes: &[u8]) -> Option<(u64, u64)> {
        let table = elf::program_headers(&bytes[..bytes.len().min(elf::HEADER)])?;
        assert!(table.length <= 65536);
        elf::interp(table, bytes.get(usize::try_from(table.offset).ok()?..)?)
    }
    for file in [elf64(b"/lib/ld"), elf32(b"/lib/ld")] {
        assert!(parse(&file).is_some());
        for end in 0..file.len() {
            parse(&file[..end]);
        }
        for at in 0..file.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = file.clone();
                changed[at] = byte;
                parse(&changed);
                let next = (at + 1).min(file.len() - 1);
                changed[next] = byte;
                parse(&changed);
            }
        }
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..20_000 {
        let mut noise: Vec<u8> = (0..200)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[0]
            })
            .collect();
        noise[..4].copy_from_slice(b"\x7fELF");
        noise[4] = noise[4] % 2 + 1;
        noise[5] = noise[5] % 2 + 1;
        parse(&noise);
    }
}

#[test]
fn offsets_beyond_the_file_are_no_error() {
    let mut file = elf64(b"/lib/ld");
    file[128..136].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut table_gone = elf64(b"/lib/ld");
    table_gone[32..40].copy_from_slice(&(i64::MAX as u64).to_le_bytes());
    let mut endless = elf64(b"/lib/ld");
    endless[152..160].copy_from_slice(&u64::MAX.to_le_bytes());
    let (_root, dir) = root_with(&[
        ("a", 0o755, &file),
        ("b", 0o755, &table_gone),
        ("c", 0o755, &endless),
    ]);
    assert_eq!(interpreter_of(&dir, "a").unwrap(), None);
    assert_eq!(interpreter_of(&dir, "b").unwrap(), None);
    assert_eq!(
        interpreter_of(&dir, "c").unwrap().unwrap().path,
        Path::new("/lib/ld")
    );
}

#[test]
fn programs_are_found_as_execvp_finds_them() {
    let (root, dir) = root_with(&[
        ("bin/sh", 0o755, b""),
        ("opt/sh", 0o755, b""),
        ("opt/notes", 0o644, b""),
        ("srv/notes", 0o755, b""),
        ("srv/only-text", 0o644, b""),
    ]);
    symlink("/opt/sh", root.path().join("bin/link")).unwrap();
    let look = |name: &str, path: &str, cwd: &str| {
        lookup_executable(&dir, OsStr::new(name), OsStr::new(path), Path::new(cwd))
    };
    for (name, path, cwd, found) in [
        ("sh", "/usr/bin:/bin:/opt", "/", "/bin/sh"),
        ("sh", "/opt:/bin", "/", "/opt/sh"),
        ("sh", "", "/opt", "/opt/sh"),
        ("sh", "/usr/bin::/bin", "opt", "/opt/sh"),
        ("notes", "/opt:/srv", "/", "/srv/notes"),
        ("link", "/bin", "/", "/bin/link"),
        ("/bin/sh", "", "/", "/bin/sh"),
        ("./sh", "/bin", "/opt", "/opt/./sh"),
    ] {
        assert_eq!(
            look(name, path, cwd).unwrap(),
            PathBuf::from(found),
            "{name} in {path}"
        );
    }
    assert!(matches!(look("", "/bin", "/"), Err(LookupError::Empty)));
    assert!(matches!(
        look("/bin", "", "/"),
        Err(LookupError::NotRegular {
            what: "a directory",
            ..
        })
    ));
    assert!(matches!(
        look("only-text", "/srv:/bin", "/"),
        Err(LookupError::NotExecutable { .. })
    ));
    assert_eq!(
        look("zsh", "/bin", "/").unwrap_err().to_string(),
        "cannot find zsh in the rootfs: PATH is /bin"
    );
    assert_eq!(
        look("/no", "/bin", "/").unwrap_err().to_string(),
        "cannot find /no in the rootfs"
    );
}
