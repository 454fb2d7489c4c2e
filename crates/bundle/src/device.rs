//! `--device`.

use crate::path::clean_absolute;
use std::str::FromStr;
use tote_spec::DeviceType;

/// A value of `--device /dev/x[:/dev/y][:rwm]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    /// The node on the host, or a directory of nodes, as written.
    pub source: String,
    /// Path in the container, absolute.
    pub destination: String,
    /// Letters among `r`, `w` and `m` (mknod), each at most once.
    pub access: String,
}

impl DeviceRequest {
    /// True if the request asks for all of `r`, `w` and `m`.
    #[must_use]
    pub fn has_every_access(&self) -> bool {
        ['r', 'w', 'm']
            .into_iter()
            .all(|letter| self.access.contains(letter))
    }
}

/// A device node found on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// Absolute path, below the `source` of the request that the node was found for.
    pub path: String,
    /// Block or character.
    pub kind: DeviceType,
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Permission bits.
    pub mode: u32,
    /// Owner on the host.
    pub uid: u32,
    /// Group on the host.
    pub gid: u32,
}

/// Why a text is not a `--device`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The value has too many or too few parts.
    #[error("bad format for path: {0}: give HOST[:CONTAINER][:rwm], such as /dev/fuse:/dev/fuse:rw")]
    Format(String),
    /// The third part is not an access mode.
    #[error("bad mode specified: {0}: give some of r, w and m, each once")]
    Mode(String),
    /// A path is relative.
    #[error("{0} is not an absolute path: give HOST[:CONTAINER][:rwm], such as /dev/fuse:/dev/fuse:rw")]
    NotAbsolute(String),
}

fn is_mode(text: &str) -> bool {
    let once = |letter| text.matches(letter).count() <= 1;
    !text.is_empty() && text.chars().all(|c| "rwm".contains(c)) && ['r', 'w', 'm'].into_iter().all(once)
}

impl FromStr for DeviceRequest {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let parts: Vec<&str> = text.splitn(4, ':').collect();
        let (source, destination, access) = match *parts.as_slice() {
            [source] => (source, source, "rwm"),
            [source, mode] if is_mode(mode) => (source, source, mode),
            [source, destination] => (source, destination, "rwm"),
            [source, destination, mode] if is_mode(mode) => (source, destination, mode),
            [_, _, mode] => return Err(DeviceError::Mode(mode.to_owned())),
            _ => return Err(DeviceError::Format(text.to_owned())),
        };
        if source.is_empty() {
            return Err(DeviceError::Format(text.to_owned()));
        }
        let clean =
            |path: &str| clean_absolute(path).ok_or_else(|| DeviceError::NotAbsolute(path.to_owned()));
        Ok(Self {
            source: clean(source)?,
            destination: clean(destination)?,
            access: access.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    #[test]
    fn forms() {
        for (text, source, destination, access) in [
            ("/dev/fuse", "/dev/fuse", "/dev/fuse", "rwm"),
            ("/dev/fuse:r", "/dev/fuse", "/dev/fuse", "r"),
            ("/dev/fuse:/dev/x", "/dev/fuse", "/dev/x", "rwm"),
            ("/dev/fuse:/dev//x/:mr", "/dev/fuse", "/dev/x", "mr"),
        ] {
            let device: DeviceRequest = text.parse().unwrap();
            assert_eq!(
                (&*device.source, &*device.destination, &*device.access),
                (source, destination, access)
            );
        }
        for (text, part) in [
            ("", "bad format"),
            (":/x", "bad format"),
            ("/a:/b:r:w", "bad format"),
            ("/a:/b:rr", "bad mode specified: rr"),
            ("/a:/b:x", "bad mode specified: x"),
            ("/a:/b:", "bad mode specified: "),
            ("fuse", "fuse is not an absolute path"),
            ("/a:b", "b is not an absolute path"),
            ("/a:rr", "rr is not an absolute path"),
            ("/a:", " is not an absolute path"),
        ] {
            let error = text.parse::<DeviceRequest>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            if let Ok(device) = text.parse::<DeviceRequest>() {
                prop_assert!(device.destination.starts_with('/') && is_mode(&device.access));
            }
        }
    }
}
