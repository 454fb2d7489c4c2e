//! A file that has its name only when it is whole: whatever ends its writer before, there is nothing of it.

use crate::EngineError;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{BufWriter, Error, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// As much as is written at once.
const BUFFER: usize = 256 << 10;

/// A file that is being written. Without [`WholeFile::finish`] there will be none, and what had its name before stays.
#[derive(Debug)]
pub struct WholeFile {
    out: BufWriter<File>,
    /// The name that it is to have; `None` where it is written in place: a device, a pipe, a directory that takes no
    /// nameless file.
    name: Option<PathBuf>,
}

impl WholeFile {
    /// Begins the file of that name, which the caller has chosen; links are followed. One that is there keeps its mode.
    ///
    /// # Errors
    /// open(2)'s.
    pub fn create(path: &Path) -> Result<Self, Error> {
        #[expect(
            clippy::disallowed_methods,
            reason = "it is a path of the caller's, in no container's reach, and only a link is replaced in the worst case"
        )]
        let found = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let before = std::fs::metadata(&found).ok();
        let in_place = || {
            let mut options = File::options();
            options.write(true).create(true).truncate(true);
            options.open(&found).map(|file| (file, None))
        };
        let (file, name) = match &before {
            Some(before) if !before.is_file() => in_place()?,
            _ => match nameless(&found) {
                Ok(file) => (file, Some(found)),
                // The file may be ours where its directory is not; others know no nameless files.
                Err(Errno::ACCESS | Errno::ROFS | Errno::OPNOTSUPP | Errno::ISDIR | Errno::PERM) => {
                    in_place()?
                }
                Err(errno) => return Err(errno.into()),
            },
        };
        if let (Some(before), Some(_)) = (&before, &name) {
            file.set_permissions(PermissionsExt::from_mode(before.permissions().mode() & 0o7777))?;
        }
        let out = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { out, name })
    }

    /// The same with what `write` writes, for the option `--output`.
    ///
    /// # Errors
    /// What `write` says, and [`EngineError::File`].
    pub fn output(
        path: &Path,
        write: impl FnOnce(&mut Self) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut file = Self::create(path).map_err(failed("make", path))?;
        write(&mut file)?;
        file.finish().map_err(failed("write", path))
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// write(2)'s, linkat(2)'s and renameat(2)'s.
    pub fn finish(mut self) -> Result<(), Error> {
        self.out.flush()?;
        let Some(name) = &self.name else { return Ok(()) };
        let itself = format!("/proc/self/fd/{}", self.out.get_ref().as_raw_fd());
        let link = |to: &Path| rustix::fs::linkat(CWD, &*itself, CWD, to, AtFlags::SYMLINK_FOLLOW);
        match link(name) {
            Err(Errno::EXIST) => {}
            linked => return Ok(linked?),
        }
        // linkat(2) replaces nothing.
        let fresh = beside(name);
        link(&fresh)?;
        std::fs::rename(&fresh, name).inspect_err(|_| drop(std::fs::remove_file(&fresh)))
    }
}

pub(crate) fn failed(attempt: &'static str, path: &Path) -> impl Fn(Error) -> EngineError + Copy {
    move |source| EngineError::File {
        option: "output",
        attempt,
        path: path.to_owned(),
        source,
    }
}

fn nameless(path: &Path) -> Result<File, Errno> {
    let dir = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let dir = tempdir();
        let (path, link) = (dir.join("it"), dir.join("link"));
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"one").unwrap();
        drop(file);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"one").unwrap();
        file.finish().unwrap();
        let mode = PermissionsExt::from_mode(0o604);
        File::open(&path).unwrap().set_permissions(mode).unwrap();
        std::os::unix::fs::symlink("it", &link).unwrap();
        let mut file = WholeFile::create(&link).unwrap();
        file.write_all(b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        file.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o604
        );
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);
        WholeFile::create(Path::new("/dev/null"))
            .unwrap()
            .finish()
            .unwrap();
        assert!(WholeFile::create(&dir.join("none/it")).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    fn tempdir() -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tote-whole-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }
}
