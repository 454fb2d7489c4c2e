//! Files and directories of the state root that only its owner may open.
//!
//! A umask removes permissions and never adds any: a file created with 0700 or 0600 is never more open than that,
//! without a second call.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Result, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Creates a directory with mode 0700; an existing one is accepted.
///
/// # Errors
/// Those of mkdir(2).
pub fn directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Writes a file with mode 0600; an existing one gets this content and keeps its mode.
///
/// # Errors
/// Those of open(2) and write(2).
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(content.as_ref())
}

/// Writes a new file with mode 0600. A file of that name is removed first: a killed command may have left it,
/// perhaps of a version that left modes to the umask.
///
/// # Errors
/// Those of open(2), unlink(2) and write(2).
pub fn write_new(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let file = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    };
    file?.write_all(content.as_ref())
}

#[cfg(test)]
mod tests {
    use super::{directory, write, write_new};
    use std::fs::{File, Permissions, read};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn nobody_else_may_open_what_is_made() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, file) = (temp.path().join("dir"), temp.path().join("dir/file"));
        directory(&dir).unwrap();
        directory(&dir).unwrap();
        write(&file, "one").unwrap();
        assert_eq!((mode(&dir), mode(&file)), (0o700, 0o600));
        let open = File::open(&file).unwrap();
        open.set_permissions(Permissions::from_mode(0o666)).unwrap();
        write_new(&file, "two").unwrap();
        assert_eq!((mode(&file), read(&file).unwrap()), (0o600, b"two".to_vec()));
    }
}
