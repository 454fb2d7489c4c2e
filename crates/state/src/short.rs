//! Short files that are replaced as a whole, such as records.

use rustix::fs::{Mode, OFlags};
use std::io::Result;
use std::path::Path;

/// Bytes read by the first call, more than most records have.
const ROOM: usize = 8 * 1024;

/// Reads a regular file, with a single call of each kind if it has less than 8 KiB: a list of many containers reads
/// hundreds of them.
///
/// # Errors
/// Those of open(2) and read(2).
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; ROOM];
    let mut length = 0;
    loop {
        let got = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut bytes[length..]))?;
        length += got;
        // A short read from a regular file means that its end is reached.
        if length < bytes.len() {
            bytes.truncate(length);
            return Ok(bytes);
        }
        bytes.resize(length * 2, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(read(&path).is_err());
        for length in [0, 1, ROOM - 1, ROOM, ROOM + 1, 5 * ROOM] {
            let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            assert!(read(&path).unwrap() == content, "{length}");
        }
    }
}
