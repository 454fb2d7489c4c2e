//! The drivers by name.

use std::fmt;
use std::str::FromStr;

/// A way to keep a container's writes apart from its image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Driver {
    /// overlayfs: a file is copied when it is first written to.
    #[default]
    Overlay,
    /// The image itself, read-only, with copies of the writable paths.
    Split,
    /// A copy of the whole tree whose files share their content with the image's until they are written to.
    Reflink,
    /// A snapshot of a btrfs subvolume that holds the image.
    Btrfs,
    /// A copy of the whole tree.
    Copy,
    /// overlayfs, with the writes in a file system of a fixed size, in a file.
    Loop,
    /// Like `Loop`, with XFS in the file, which shares content between files and so copies large ones up at once.
    LoopXfs,
    /// overlayfs, with the image in one read-only file.
    Erofs,
}

/// Names of other engines for these drivers.
const ALIASES: [(&str, Driver); 3] = [
    ("vfs", Driver::Copy), // docker's and podman's name
    ("dir", Driver::Copy), // LXD's name
    ("overlay2", Driver::Overlay),
];

impl Driver {
    /// All drivers, the default first.
    pub const ALL: [Self; 8] = [
        Self::Overlay,
        Self::Split,
        Self::Reflink,
        Self::Btrfs,
        Self::Copy,
        Self::Loop,
        Self::LoopXfs,
        Self::Erofs,
    ];

    /// True if only root of the machine can use the driver: it mounts file systems on devices or in files, or
    /// removes subvolumes, and other users can do neither.
    #[must_use]
    pub fn needs_root(self) -> bool {
        matches!(self, Self::Btrfs | Self::Loop | Self::LoopXfs | Self::Erofs)
    }

    /// Returns the driver's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Split => "split",
            Self::Reflink => "reflink",
            Self::Btrfs => "btrfs",
            Self::Copy => "copy",
            Self::Loop => "loop",
            Self::LoopXfs => "loop-xfs",
            Self::Erofs => "erofs",
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is not a driver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a storage driver: expected {}", Driver::ALL.map(Driver::name).join(", "))]
pub struct DriverError {
    /// The name as given.
    pub name: String,
}

impl FromStr for Driver {
    type Err = DriverError;

    fn from_str(name: &str) -> Result<Self, DriverError> {
        let aliases = ALIASES.into_iter();
        let names = Self::ALL.map(|driver| (driver.name(), driver));
        let mut known = names.into_iter().chain(aliases);
        known
            .find_map(|(known, driver)| (known == name).then_some(driver))
            .ok_or_else(|| DriverError {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::Driver;

    #[test]
    fn names_and_aliases() {
        for driver in Driver::ALL {
            assert_eq!(driver.to_string().parse(), Ok(driver));
        }
        assert_eq!("vfs".parse(), Ok(Driver::Copy));
        assert_eq!("dir".parse(), Ok(Driver::Copy));
        let said = "zfs".parse::<Driver>().unwrap_err().to_string();
        assert!(
            said.contains("\"zfs\"") && said.contains("overlay, split"),
            "{said}"
        );
    }
}
