//! Survey of an image for `split`, and its transfer between processes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tote_rootfs::Stub;

/// First byte of a line: the kind of path.
const WRITABLE: u8 = b'w';
const FILE: u8 = b'f';
const DIR: u8 = b'd';

/// Survey of an image for `split`: the paths that a container can write to, and the mount points that the image
/// lacks. If the caller may not read a directory of the image, a process with the right to do so makes the survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) stubs: Vec<Stub>,
}

impl Survey {
    /// Writes the text for [`Self::parse`]: a line for each path, ended by a NUL, which no path contains.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for path in &self.writable {
            line(&mut text, WRITABLE, 0, path);
        }
        for Stub { path, file, mode } in &self.stubs {
            line(&mut text, if *file { FILE } else { DIR }, *mode, path);
        }
        text
    }

    /// Parses the output of [`Self::to_bytes`]; `None` for any other text.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut survey = Self::default();
        for line in text.split_inclusive(|byte| *byte == 0) {
            let (kind, rest) = line.strip_suffix(&[0])?.split_first()?;
            let (mode, path) = rest.split_at_checked(4)?;
            let path = PathBuf::from(OsStr::from_bytes(path));
            match *kind {
                WRITABLE => survey.writable.push(path),
                FILE | DIR => survey.stubs.push(Stub {
                    path,
                    file: *kind == FILE,
                    mode: u32::from_str_radix(str::from_utf8(mode).ok()?, 8).ok()?,
                }),
                _ => return None,
            }
        }
        Some(survey)
    }
}

/// Appends a line. The mode has four octal digits: twelve bits.
fn line(text: &mut Vec<u8>, kind: u8, mode: u32, path: &Path) {
    text.push(kind);
    text.extend(format!("{:04o}", mode & 0o7777).bytes());
    text.extend(path.as_os_str().as_bytes());
    text.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let stub = |path: &str, file, mode| Stub {
            path: path.into(),
            file,
            mode,
        };
        let survey = Survey {
            writable: vec!["tmp".into(), OsStr::from_bytes(b"var/\xff\n x").into()],
            stubs: vec![stub("a", false, 0o1777), stub("a/b c", true, 0o644)],
        };
        assert_eq!(Survey::parse(&survey.to_bytes()), Some(survey));
        assert_eq!(Survey::parse(b""), Some(Survey::default()));
        for wrong in [&b"w0000tmp"[..], b"x0000tmp\0", b"w00\0", b"\0", b"d9999a\0"] {
            assert_eq!(Survey::parse(wrong), None, "{wrong:?}");
        }
    }
}
