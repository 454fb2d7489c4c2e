//! Files of `/proc`, whose length is not known before they are read.

use rustix::fs::{Mode, OFlags};
use std::io::Result;
use std::path::Path;

/// Bytes read by the first call, more than most of these files have.
const ROOM: usize = 4096;

/// Reads a file of `/proc` in as few calls as the kernel allows: one for up to 4 KiB, and one that finds the end. The standard library,
/// which asks for the length first, begins with 32 bytes and takes a call for each doubling.
///
/// # Errors
/// Those of open(2) and read(2).
pub fn read_proc(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let file = rustix::fs::open(path.as_ref(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; ROOM];
    let mut length = 0;
    loop {
        if length == bytes.len() {
            bytes.resize(length * 2, 0);
        }
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut bytes[length..]))? {
            0 => break,
            got => length += got,
        }
    }
    bytes.truncate(length);
    // A caller keeps some of these files, and their unused rooms would each be a page that the next file has to touch.
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// Reads a text of `/proc`; what is not UTF-8 is replaced.
///
/// # Errors
/// Those of [`read_proc`].
pub fn read_proc_text(path: impl AsRef<Path>) -> Result<String> {
    let bytes = read_proc(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        read_proc(&path).unwrap_err();
        for length in [0, 1, ROOM - 1, ROOM, ROOM + 1, 5 * ROOM] {
            let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            assert!(read_proc(&path).unwrap() == content, "{length}");
        }
        std::fs::write(&path, b"a\xff").unwrap();
        assert_eq!(read_proc_text(&path).unwrap(), "a\u{fffd}");
        let own = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(read_proc("/proc/self/cmdline").unwrap(), own);
        // Of these files the kernel gives a part at a time.
        let lines = |bytes: Vec<u8>| bytes.split(|byte| *byte == b'\n').count();
        let mounts = lines(std::fs::read("/proc/self/mountinfo").unwrap());
        assert_eq!(lines(read_proc("/proc/self/mountinfo").unwrap()), mounts);
    }
}
