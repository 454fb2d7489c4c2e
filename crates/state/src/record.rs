//! Records, read and written: the short JSON files that say what a container, a pod, a pool or a volume is.
//!
//! Only ENOENT means that a record does not exist. Every other failure is an error: a caller that took it for
//! absence would remove existing state.

use crate::StateError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use tote_sys::best_effort;

/// Version of the records that this tote writes and reads; a record without a number is of this version. A tote
/// that changes the meaning of records writes another number as `version` into them.
pub const VERSION: u32 = 1;

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("failed to read {path}")]
    Unreadable {
        /// The record.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Error,
    },
    /// The file is not JSON of the right form; a power cut leaves an empty file.
    #[error("{path} is damaged")]
    Damaged {
        /// The record.
        path: PathBuf,
        /// The error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// A newer tote has written the record.
    #[error("{path} was written by a newer tote: it has version {version}, this tote knows {VERSION}")]
    Newer {
        /// The record.
        path: PathBuf,
        /// Version of the record.
        version: u32,
    },
    /// The directory exists without its record.
    #[error("{path} is missing")]
    Missing {
        /// The record.
        path: PathBuf,
    },
}

/// Reads the record at that path; `None` if the file does not exist.
///
/// # Errors
/// [`RecordError`], as [`StateError::Record`].
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    match crate::short::read(path) {
        Ok(text) => Ok(Some(parse(path, &text)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordError::Unreadable {
            path: path.to_owned(),
            source,
        }
        .into()),
    }
}

/// Now, as records have it: nanoseconds since 1970.
#[must_use]
pub fn now() -> u64 {
    // Enough until the year 2554.
    u64::try_from(tote_calendar::now().as_nanos()).unwrap_or(u64::MAX)
}

/// Writes a record, by a temporary name and rename(2): a reader sees the old text or the new one. The caller holds the lock
/// of what the record is about.
///
/// # Errors
/// [`StateError::File`].
pub fn write(path: &Path, value: &impl Serialize) -> Result<(), StateError> {
    let fail = |source| StateError::File {
        attempt: "write",
        path: path.to_owned(),
        source,
    };
    let text = serde_json::to_vec(value).map_err(|error| fail(error.into()))?;
    let fresh = path.with_extension("new");
    let put = crate::closed::write_new(&fresh, text).and_then(|()| std::fs::rename(&fresh, path));
    // A file without room for its text has taken an inode all the same.
    put.inspect_err(|_| best_effort(std::fs::remove_file(&fresh)))
        .map_err(fail)
}

/// Does [`write`] for a record that says less than before, such as one of a port less. On a full disk the text goes over the former one,
/// with blanks behind it: a removal must not need room. A power cut in this moment may damage the record.
///
/// # Errors
/// Those of [`write`].
pub fn write_less(path: &Path, value: &impl Serialize) -> Result<(), StateError> {
    let full = match write(path, value) {
        Err(error) if error.is_full() => error,
        written => return written,
    };
    let over = || -> std::io::Result<()> {
        let file = std::fs::File::options().write(true).open(path)?;
        let mut text = serde_json::to_vec(value)?;
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if text.len() > length {
            return Err(ErrorKind::StorageFull.into());
        }
        text.resize(length, b' ');
        std::os::unix::fs::FileExt::write_all_at(&file, &text, 0)
    };
    over().map_err(|_| full)
}

/// Parses the text of a record; the path is for the error.
pub fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, RecordError> {
    #[derive(Deserialize)]
    struct Form {
        #[serde(default)]
        version: u32,
    }
    // A record of another version might parse too, but mean something else.
    match serde_json::from_slice::<Form>(text) {
        Ok(Form { version }) if version > VERSION => {
            return Err(RecordError::Newer {
                path: path.to_owned(),
                version,
            });
        }
        _ => {}
    }
    serde_json::from_slice(text).map_err(|source| RecordError::Damaged {
        path: path.to_owned(),
        source,
    })
}

/// True if the path exists; symbolic links are not followed.
///
/// # Errors
/// [`StateError::File`] for every failure except ENOENT.
pub fn is_there(path: &Path) -> Result<bool, StateError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(StateError::File {
            attempt: "look at",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Lists the names in a directory that are UTF-8, as those of records are; empty if the directory does not exist.
///
/// # Errors
/// [`StateError::File`] for every failure except ENOENT: an incomplete list would hide existing records.
pub fn names_in(dir: &Path) -> Result<Vec<String>, StateError> {
    let fail = |source| StateError::File {
        attempt: "list",
        path: dir.to_owned(),
        source,
    };
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(fail)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(fail)?.file_name().into_string().ok());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn only_what_is_not_there_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record.json");
        assert!(read::<Value>(&path).unwrap().is_none());
        assert!(
            read::<Value>(&dir.path().join("none/record.json"))
                .unwrap()
                .is_none()
        );
        for (text, words) in [
            ("", "is damaged"),
            ("{\"a\":", "is damaged"),
            ("\0\0\0\0", "is damaged"),
            (
                "{\"version\":2,\"a\":1}",
                "was written by a newer tote: it has version 2",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read::<Value>(&path).unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
        std::fs::write(&path, "{\"version\":1,\"a\":1}").unwrap();
        assert_eq!(read::<Value>(&path).unwrap().unwrap()["a"], 1);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(
            read::<Value>(&path)
                .unwrap_err()
                .to_string()
                .starts_with("failed to read")
        );
        // A link to itself, or a file in a directory's place, must not count as absent.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("link", &link).unwrap();
        assert!(read::<Value>(&link).is_err());
        assert!(is_there(&link).unwrap());
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(read::<Value>(&file.join("record.json")).is_err());
        assert!(is_there(&file.join("record.json")).is_err());
        assert!(names_in(&file).is_err());
        assert_eq!(names_in(&dir.path().join("none")).unwrap(), Vec::<String>::new());
    }
}
