//! Files that are short and replaced as a whole, such as records.

use rustix::fs::{Mode, OFlags};
use std::io::Result;
use std::path::Path;

/// More than most have.
const ROOM: usize = 8 * 1024;

/// All that is in a regular file, with one call of each kind where it has less than 8 KiB: a list of many containers
/// reads hundreds of them.
///
/// # Errors
/// open(2)'s and read(2)'s.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; ROOM];
    let mut length = 0;
    loop {
        let got = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut bytes[length..]))?;
        length += got;
        // Of a regular file, less than was asked for is all there is.
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
