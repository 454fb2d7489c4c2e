//! A fingerprint of the host's files that a skeleton depends on: a dozen `lstat` calls on every start.

use super::HostImageError;
use crate::rootfs::Bind;
use rustix::fs::{FileType, Stat};
use std::path::{Path, PathBuf};

/// Version of the skeleton's content; changed whenever this version would build another skeleton than an earlier
/// one.
const FORMAT: u64 = 1;

/// Program directories of `/`: links into `usr` on a host with merged `/usr`, directories elsewhere.
const PROGRAM_DIRS: [&str; 6] = ["bin", "sbin", "lib", "lib64", "lib32", "libx32"];

/// Paths that stand for all copied files: installing or removing software changes at least one of them, and
/// exchanging `/usr` changes the inode of `/usr/bin`. (`os-release` is a link into `/usr` and never stale.)
const INPUTS: [&str; 5] = [
    "usr/bin",
    "etc/alternatives",
    "etc/ld.so.cache",
    "etc/localtime",
    "etc/ssl/certs",
];

/// State of the host at one time.
#[derive(Debug)]
pub(super) struct Host {
    /// Path of the host's root: `/`, or a directory in tests.
    pub(super) root: PathBuf,
    /// Hash that stays equal as long as the skeleton need not be rebuilt.
    pub(super) fingerprint: u64,
    /// Members of [`PROGRAM_DIRS`] that are symbolic links.
    pub(super) links: Vec<&'static str>,
    /// Members of [`PROGRAM_DIRS`] that are directories of their own.
    pub(super) dirs: Vec<&'static str>,
}

impl Host {
    /// Looks at the host. Files that the caller may not see count as absent, because they cannot be copied either.
    ///
    /// # Errors
    /// [`HostImageError::Build`] if the kernel does not say whether a file is there: the skeleton without it would be kept.
    pub(super) fn look(root: &Path) -> Result<Self, HostImageError> {
        let mut hash = Fnv1a::new();
        hash.number(FORMAT);
        let mut see = |name: &str| {
            let path = root.join(name);
            let stat = tote_sys::visible(rustix::fs::lstat(&path));
            let stat = stat.map_err(|source| HostImageError::Build {
                attempt: "look at",
                path,
                source,
            })?;
            hash.entry(stat.as_ref());
            Ok(stat.map(|stat| FileType::from_raw_mode(stat.st_mode)))
        };
        let (mut links, mut dirs) = (Vec::new(), Vec::new());
        for name in PROGRAM_DIRS {
            match see(name)? {
                Some(FileType::Symlink) => links.push(name),
                Some(FileType::Directory) => dirs.push(name),
                _ => {}
            }
        }
        for name in INPUTS {
            see(name)?;
        }
        Ok(Host {
            root: root.to_owned(),
            fingerprint: hash.0,
            links,
            dirs,
        })
    }

    /// Lists the bind mounts on top of the skeleton.
    pub(super) fn binds(&self) -> Vec<Bind> {
        std::iter::once("usr")
            .chain(self.dirs.iter().copied())
            .map(Bind::of_host)
            .collect()
    }
}

/// A hash by FNV-1a, 64 bits. Collisions are no threat: a user who can set these fields owns the host.
struct Fnv1a(u64);

impl Fnv1a {
    fn new() -> Self {
        Fnv1a(0xcbf2_9ce4_8422_2325)
    }

    fn number(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn entry(&mut self, stat: Option<&Stat>) {
        let Some(stat) = stat else { return self.number(0) };
        self.number(1);
        self.number(stat.st_dev);
        self.number(stat.st_ino);
        self.number(stat.st_size.cast_unsigned());
        self.number(stat.st_mtime.cast_unsigned());
        self.number(stat.st_mtime_nsec);
        self.number(stat.st_ctime.cast_unsigned());
        self.number(stat.st_ctime_nsec);
    }
}
