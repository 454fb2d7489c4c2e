//! Files that get their names only when they are complete: an interrupted writer leaves nothing.

use crate::ImagesError;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

/// Size of the write buffer, in bytes.
const BUFFER: usize = 256 << 10;

/// File that is being written. Without [`WholeFile::finish`] no new file appears, and an existing one stays.
#[derive(Debug)]
pub struct WholeFile {
    out: BufWriter<File>,
    /// Final name; `None` if the file is written in place: a device, a pipe, or a directory that
    /// supports no nameless files.
    name: Option<PathBuf>,
}

impl WholeFile {
    /// Begins a file whose name the user has chosen. A symbolic link at its end is followed if the caller or root has
    /// made it. An existing file of the caller keeps its permissions.
    ///
    /// # Errors
    /// Errors of open(2); permission denied for a link of another user.
    pub fn create(path: &Path) -> Result<Self, Error> {
        Self::create_with(path, 0o666)
    }

    /// Begins a file; a new one gets these permissions, less the umask.
    fn create_with(path: &Path, mode: u32) -> Result<Self, Error> {
        let mode = Mode::from_raw_mode(mode);
        let Followed { path: found, is_open } = follow(path)?;
        let before = match is_open {
            true => std::fs::metadata(&found),
            false => std::fs::symlink_metadata(&found),
        };
        let before = match before {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            before => Some(before?),
        };
        let in_place = || {
            let no_link = if is_open {
                OFlags::empty()
            } else {
                OFlags::NOFOLLOW
            };
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | no_link;
            let file = rustix::fs::open(&found, flags, mode)?;
            Ok::<_, Error>((File::from(file), None))
        };
        let (file, name) = match &before {
            Some(before) if is_open || !before.is_file() => in_place()?,
            _ => match nameless(&found, mode) {
                Ok(file) => (file, Some(found.clone())),
                // The caller may write the file but not its directory, or the file system supports no nameless files.
                Err(Errno::ACCESS | Errno::ROFS | Errno::OPNOTSUPP | Errno::ISDIR | Errno::PERM) => {
                    in_place()?
                }
                Err(errno) => return Err(errno.into()),
            },
        };
        if let (Some(before), Some(_)) = (&before, &name) {
            // Permissions and the set-user-ID bit of another user's file are not taken over.
            if before.uid() == rustix::process::geteuid().as_raw() {
                file.set_permissions(PermissionsExt::from_mode(before.permissions().mode() & 0o777))?;
            }
        }
        let out = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { out, name })
    }

    /// Writes the file of the option `--output` with `write`.
    ///
    /// # Errors
    /// Errors of `write`, and [`ImagesError::File`].
    pub fn output<E: From<ImagesError>>(
        path: &Path,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        Self::whole(Self::create(path), path, write)
    }

    /// Writes an archive of an image or a container with `write`. It may hold secrets, so a new file is readable for
    /// the caller alone, as docker's.
    ///
    /// # Errors
    /// Those of [`WholeFile::output`].
    pub fn secret_output<E: From<ImagesError>>(
        path: &Path,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        Self::whole(Self::create_with(path, 0o600), path, write)
    }

    fn whole<E: From<ImagesError>>(
        file: Result<Self, Error>,
        path: &Path,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut file = file.map_err(failed_output("make", path))?;
        write(&mut file)?;
        Ok(file.finish().map_err(failed_output("write", path))?)
    }

    /// Writes a text to the file that an option names.
    ///
    /// # Errors
    /// [`ImagesError::File`].
    pub fn put(option: &'static str, path: &Path, text: &str) -> Result<(), ImagesError> {
        let written = Self::create(path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.finish()
        });
        written.map_err(|source| ImagesError::File {
            option,
            attempt: "write",
            path: path.to_owned(),
            source,
        })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Errors of write(2), linkat(2) and renameat(2).
    pub fn finish(mut self) -> Result<(), Error> {
        self.out.flush()?;
        let Some(name) = &self.name else { return Ok(()) };
        let itself = format!("/proc/self/fd/{}", self.out.get_ref().as_raw_fd());
        let link = |to: &Path| rustix::fs::linkat(CWD, &*itself, CWD, to, AtFlags::SYMLINK_FOLLOW);
        match link(name) {
            Err(Errno::EXIST) => {}
            linked => return Ok(linked?),
        }
        // Since linkat(2) replaces nothing, the file gets a temporary name first.
        let fresh = beside(name);
        link(&fresh)?;
        std::fs::rename(&fresh, name).inspect_err(|_| drop(std::fs::remove_file(&fresh)))
    }
}

/// Builds the error of an attempt on the file of the option `--output`.
pub fn failed_output(attempt: &'static str, path: &Path) -> impl Fn(Error) -> ImagesError + Copy {
    move |source| ImagesError::File {
        option: "output",
        attempt,
        path: path.to_owned(),
        source,
    }
}

/// Target of a path.
#[derive(Debug)]
struct Followed {
    path: PathBuf,
    /// True for a link of procfs to an open file of a process, such as `/dev/stdout`.
    is_open: bool,
}

/// Follows links at the end of a path. A link that another user has made is refused in every directory, as the kernel
/// does with `fs.protected_symlinks` in directories like `/tmp`: otherwise that user could redirect the writes of
/// root. Former versions of docker replaced links; docker refuses all of them today.
fn follow(path: &Path) -> Result<Followed, Error> {
    const LONGEST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LONGEST {
        let found = match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => found,
            _ => return Ok(Followed { path, is_open: false }),
        };
        let owner = found.uid();
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            let text = format!("it is a link of user {owner}, which may lead anywhere");
            return Err(Error::new(ErrorKind::PermissionDenied, text));
        }
        let dir = directory_of(&path);
        if rustix::fs::statfs(dir)?.f_type == rustix::fs::PROC_SUPER_MAGIC {
            return Ok(Followed { path, is_open: true });
        }
        path = dir.join(std::fs::read_link(&path)?);
    }
    Err(Errno::LOOP.into())
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn nameless(path: &Path, mode: Mode) -> Result<File, Errno> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(directory_of(path), flags, mode).map(File::from)
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
        // A second link, and one that leads nowhere yet.
        let (second, nowhere) = (dir.join("second"), dir.join("nowhere"));
        std::os::unix::fs::symlink(&link, &second).unwrap();
        std::os::unix::fs::symlink("made", &nowhere).unwrap();
        for (name, file) in [(&second, &path), (&nowhere, &dir.join("made"))] {
            let mut whole = WholeFile::create(name).unwrap();
            whole.write_all(b"three").unwrap();
            whole.finish().unwrap();
            assert_eq!(std::fs::read(file).unwrap(), b"three");
        }
        assert!(std::fs::symlink_metadata(&second).unwrap().is_symlink());
        let circle = dir.join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert!(WholeFile::create(&circle).is_err());
        let open = File::create_new(dir.join("open")).unwrap();
        let descriptor = format!("/proc/self/fd/{}", open.as_raw_fd());
        let mut whole = WholeFile::create(Path::new(&descriptor)).unwrap();
        whole.write_all(b"four").unwrap();
        whole.finish().unwrap();
        assert_eq!(std::fs::read(dir.join("open")).unwrap(), b"four");
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
