//! Lists of records of one kind, in which a damaged record hides and blocks no other.
//!
//! Every list of objects reads its records by [`list`], and every lookup of one by [`Kind::read`]. So a list shows what cannot be
//! used, a removal by name works without the record, and the error of a lookup names the command that removes the object.

use crate::StateError;
use crate::record::{Damaged, Kind, names_in};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Records of one kind.
#[derive(Debug)]
pub struct Records<T> {
    /// Records that can be used, with the names of their objects, in the order of the names.
    pub whole: Vec<(String, T)>,
    /// Objects whose records cannot be used, in the order of the names.
    pub damaged: Vec<Damaged>,
}

/// Reads all records of a kind. For each name in the directory, `place` returns the name of the object and the path of its record;
/// `None` for what is no such object.
///
/// # Errors
/// [`StateError::File`] if the directory cannot be listed, and [`StateError::Record`] if the machine lacks something at the moment,
/// such as memory or descriptors: a list without what could not be read just then would hide objects.
pub fn list<T: DeserializeOwned>(
    kind: Kind,
    dir: &Path,
    place: impl Fn(&str) -> Option<(String, PathBuf)>,
) -> Result<Records<T>, StateError> {
    let mut places: Vec<_> = names_in(dir)?.iter().filter_map(|name| place(name)).collect();
    places.sort_unstable();
    let mut records = Records {
        whole: Vec::new(),
        damaged: Vec::new(),
    };
    for (name, path) in places {
        match kind.read(&name, &path) {
            // Another command may have removed it meanwhile.
            Ok(None) => {}
            Ok(Some(record)) => records.whole.push((name, record)),
            Err(StateError::Damaged(damaged)) => records.damaged.push(*damaged),
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordError;

    const KIND: Kind = Kind {
        noun: "thing",
        remove: "tote thing rm",
    };

    #[test]
    fn a_damaged_record_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(format!("{name}.json"));
        for (name, text) in [
            ("a", "1"),
            ("b", ""),
            ("c", "{\"a\":"),
            ("d", "{\"version\":99}"),
            ("e", "2"),
        ] {
            std::fs::write(path(name), text).unwrap();
        }
        std::fs::create_dir(path("f")).unwrap();
        std::os::unix::fs::symlink("g.json", path("g")).unwrap();
        std::fs::write(dir.path().join("other"), "").unwrap();
        let place = |file: &str| Some((file.strip_suffix(".json")?.to_owned(), dir.path().join(file)));
        let records: Records<u32> = list(KIND, dir.path(), place).unwrap();
        assert_eq!(records.whole, [("a".to_owned(), 1), ("e".to_owned(), 2)]);
        let damaged = records.damaged.into_iter().map(|damaged| {
            let hint = damaged.hint();
            (
                damaged.name.clone(),
                damaged.why.is_lost(),
                hint,
                damaged.removable(false).is_ok(),
            )
        });
        let plain = |name: &str| {
            (
                name.to_owned(),
                true,
                format!("'tote thing rm {name}' removes it"),
                true,
            )
        };
        let newer = "use the tote that wrote it; 'tote thing rm -f d' removes it".to_owned();
        assert_eq!(
            damaged.collect::<Vec<_>>(),
            [
                plain("b"),
                plain("c"),
                ("d".to_owned(), false, newer, false),
                plain("f"),
                plain("g")
            ]
        );
        assert!(
            list::<u32>(KIND, &dir.path().join("none"), place)
                .unwrap()
                .whole
                .is_empty()
        );
        assert!(list::<u32>(KIND, &dir.path().join("other"), place).is_err());
    }

    /// A want of the machine at the moment says nothing about the record.
    #[test]
    fn want_of_descriptors_is_no_damage() {
        for (errno, passes, lost) in [
            (tote_sys::Errno::MFILE, true, false),
            (tote_sys::Errno::NFILE, true, false),
            (tote_sys::Errno::NOMEM, true, false),
            (tote_sys::Errno::INTR, true, false),
            (tote_sys::Errno::IO, false, false),
            (tote_sys::Errno::ACCESS, false, false),
            (tote_sys::Errno::ISDIR, false, true),
        ] {
            let error = RecordError::Unreadable {
                path: PathBuf::new(),
                source: errno.into(),
            };
            assert_eq!((error.is_passing(), error.is_lost()), (passes, lost), "{errno}");
        }
    }
}
