//! Files for `--pid-file`.

use crate::OciError;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes the file under another name first: a process that waits for it finds it complete.
pub(crate) fn write(path: &Path, pid: u32) -> Result<(), OciError> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    let fresh = path.with_file_name(name);
    let open = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o666)
            .open(&fresh)
    };
    let opened = match open() {
        // A command that was killed here has left it behind.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(&fresh).and_then(|()| open())
        }
        other => other,
    };
    opened
        .and_then(|mut file| file.write_all(pid.to_string().as_bytes()))
        .and_then(|()| std::fs::rename(&fresh, path))
        .map_err(OciError::file("write the pid file", path))
}

#[cfg(test)]
mod tests {
    #[test]
    fn written_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        std::fs::write(dir.path().join(".pid"), "rest").unwrap();
        for pid in [1, 4_000_000] {
            super::write(&path, pid).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), pid.to_string());
        }
        assert!(super::write(&dir.path().join("no/pid"), 1).is_err());
    }
}
