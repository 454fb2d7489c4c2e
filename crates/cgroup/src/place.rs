//! Places of a group: the lines of a record by which another process finds the group again.

use crate::Controllers;
use crate::error::Error;
use std::fmt;
use std::path::PathBuf;

/// Directory of a group in one hierarchy: a line of a record, `VERSION MADE CONTROLLERS PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlace {
    /// True for the hierarchy of cgroup v2.
    pub is_v2: bool,
    /// Number of directories above that were made with it, and go with it if they are empty.
    pub made: usize,
    /// Controllers of the hierarchy; none where they are not known, as on v2.
    pub controllers: Controllers,
    /// Absolute path.
    pub path: PathBuf,
}

impl GroupPlace {
    /// GroupPlace in the hierarchy of v2 that was there before.
    #[must_use]
    pub fn v2(path: PathBuf) -> Self {
        Self {
            is_v2: true,
            made: 0,
            controllers: Controllers::NONE,
            path,
        }
    }

    /// GroupPlace in the hierarchy of these controllers that was there before.
    #[must_use]
    pub fn v1(controllers: Controllers, path: PathBuf) -> Self {
        Self {
            is_v2: false,
            made: 0,
            controllers,
            path,
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// A line is not a place.
    pub fn all(record: &str) -> Result<Vec<Self>, Error> {
        let place = |line: &str| {
            Self::parse(line).ok_or_else(|| Error::Record {
                line: line.chars().take(128).collect(),
            })
        };
        record.lines().map(place).collect()
    }

    /// Reads a record and leaves out what is not a place.
    pub fn readable(record: &str) -> impl Iterator<Item = Self> {
        record.lines().filter_map(Self::parse)
    }

    /// Writes a record.
    #[must_use]
    pub fn record(places: impl IntoIterator<Item = Self>) -> String {
        places.into_iter().map(|place| format!("{place}\n")).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(4, ' ');
        let is_v2 = match fields.next()? {
            "v1" => false,
            "v2" => true,
            _ => return None,
        };
        let made = fields.next()?.parse().ok()?;
        let controllers = Controllers::from_list(fields.next()?, ',');
        let path = PathBuf::from(fields.next()?);
        path.is_absolute().then_some(Self {
            is_v2,
            made,
            controllers,
            path,
        })
    }
}

impl fmt::Display for GroupPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.is_v2 { "v2" } else { "v1" };
        let path = self.path.display();
        write!(f, "{version} {} {} {path}", self.made, self.controllers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let places = vec![
            GroupPlace::v2(PathBuf::from("/sys/fs/cgroup/a b")),
            GroupPlace {
                made: 3,
                ..GroupPlace::v1(Controllers::from_list("cpu,cpuacct", ','), PathBuf::from("/c"))
            },
        ];
        let record = GroupPlace::record(places.clone());
        assert_eq!(record, "v2 0  /sys/fs/cgroup/a b\nv1 3 cpu,cpuacct /c\n");
        assert_eq!(GroupPlace::all(&record).unwrap(), places);
        assert_eq!(
            GroupPlace::readable(&format!("{record}v1 x\nnonsense\nv1 3 memory\nv2 0  a\n")).count(),
            2
        );
        assert!(GroupPlace::all("v3 0  /a\n").is_err());
    }
}
