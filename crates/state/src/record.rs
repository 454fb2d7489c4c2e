//! Records, read and written: the short JSON files that say what a container, a pod, a pool or a volume is.
//!
//! Only ENOENT means that a record does not exist. Every other failure is an error: a caller that took it for
//! absence would remove existing state.

use crate::StateError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use tote_sys::{Errno, best_effort};

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

impl RecordError {
    /// True for the record of a newer tote.
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        matches!(self, Self::Newer { .. })
    }

    /// True if the machine lacks something at the moment, such as descriptors: the same read may succeed a moment later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        let passing = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::INTR,
            Errno::AGAIN,
        ];
        matches!(self, Self::Unreadable { source, .. } if is_one_of(source, &passing))
    }

    /// True if the text of the record is gone for certain: what the record was about can only be removed.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let other = [Errno::ISDIR, Errno::LOOP, Errno::NOTDIR];
        match self {
            Self::Damaged { .. } | Self::Missing { .. } => true,
            Self::Newer { .. } => false,
            // Something else is in its place.
            Self::Unreadable { source, .. } => is_one_of(source, &other),
        }
    }
}

fn is_one_of(error: &Error, errnos: &[Errno]) -> bool {
    errnos
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Kind of objects that have a record each: the words for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The noun, such as `network`.
    pub noun: &'static str,
    /// The command that removes one by its name, such as `tote network rm`.
    pub remove: &'static str,
}

impl Kind {
    /// Reads the record at the path, that of the object of this name; `None` if the file does not exist.
    ///
    /// # Errors
    /// [`StateError::Damaged`]; [`StateError::Record`] where the machine lacks something at the moment.
    pub fn read<T: DeserializeOwned>(self, name: &str, path: &Path) -> Result<Option<T>, StateError> {
        match read(path) {
            Err(StateError::Record(why)) if !why.is_passing() => Err(self.damaged(name, why).into()),
            read => read,
        }
    }

    fn damaged(self, name: &str, why: RecordError) -> Damaged {
        Damaged {
            kind: self,
            name: name.to_owned(),
            why,
        }
    }
}

/// Object whose record exists and cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} {name} cannot be used", kind.noun)]
pub struct Damaged {
    /// Kind of the object.
    pub kind: Kind,
    /// Name of the object.
    pub name: String,
    /// Damage of the record.
    #[source]
    pub why: RecordError,
}

impl Damaged {
    /// Returns the command that removes the object.
    #[must_use]
    pub fn hint(&self) -> String {
        let Self { kind, name, why } = self;
        let force = if why.is_newer() { " -f" } else { "" };
        let other = if why.is_newer() {
            "use the tote that wrote it; "
        } else {
            ""
        };
        format!("{other}'{}{force} {name}' removes it", kind.remove)
    }

    /// Returns the reason and the remedy in one line, for a list.
    #[must_use]
    pub fn told(&self) -> String {
        format!("{}: {}", tote_sys::chain(self), self.hint())
    }

    /// Decides whether a command that names the object may remove it: with `force` also an object of a newer tote.
    ///
    /// # Errors
    /// The object itself, if it has to stay.
    pub fn removable(self, force: bool) -> Result<(), Self> {
        if force || !self.why.is_newer() {
            Ok(())
        } else {
            Err(self)
        }
    }
}

/// Removes a directory that is in the place of a record, so that the record can be written.
///
/// # Errors
/// [`StateError::File`].
pub fn clear(path: &Path) -> Result<(), StateError> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => remove(path),
        _ => Ok(()),
    }
}

/// Removes what is in the place of a record, whatever it is; a missing file is not an error.
///
/// # Errors
/// [`StateError::File`].
pub fn remove(path: &Path) -> Result<(), StateError> {
    match tote_sys::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            tote_sys::remove_tree(path).map_err(StateError::file("remove", path))
        }
        Err(error) => Err(StateError::file("remove", path)(error)),
    }
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

/// Returns the text of a record.
///
/// # Errors
/// Those of serde.
pub fn text(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    Ok(serde_json::to_vec(value)?)
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
    let text = text(value).map_err(fail)?;
    let fresh = path.with_extension("new");
    let put = crate::closed::write_new(&fresh, text).and_then(|()| std::fs::rename(&fresh, path));
    // A file without room for its text has taken an inode all the same.
    put.inspect_err(|_| best_effort(std::fs::remove_file(&fresh)))
        .map_err(fail)
}

/// Does [`write()`] for a record that says less than before, such as one of a port less. On a full disk the text goes over the former one,
/// with blanks behind it: a removal must not need room. A power cut in this moment may damage the record.
///
/// # Errors
/// Those of [`write()`].
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
