//! Hard links in archives of trees whose own links only save space.

use std::collections::HashMap;
use std::fs::File;
use tote_archive::{Change, EntryPath, Kind};

/// Files of a tree with several names, in the order of the names.
#[derive(Debug)]
pub struct LinkedNames {
    /// Names of such files, each with the first name of its file.
    all: HashMap<EntryPath, EntryPath>,
    /// First name of each file that the archive has.
    told: HashMap<EntryPath, EntryPath>,
}

impl LinkedNames {
    /// Names, each with the first one of its file.
    pub fn new(all: HashMap<EntryPath, EntryPath>) -> Self {
        Self {
            all,
            told: HashMap::new(),
        }
    }

    /// Converts an addition into a hard link if an earlier entry is the same file.
    pub fn linked(&mut self, mut change: Change, content: Option<File>) -> (Change, Option<File>) {
        let Change::Add(entry) = &mut change else {
            return (change, content);
        };
        let Some(first) = self.all.get(&entry.path) else {
            return (change, content);
        };
        match self.told.get(first) {
            None => drop(self.told.insert(first.clone(), entry.path.clone())),
            Some(told) => {
                entry.kind = Kind::Hardlink { target: told.clone() };
                entry.xattrs.clear();
                return (change, None);
            }
        }
        (change, content)
    }
}
