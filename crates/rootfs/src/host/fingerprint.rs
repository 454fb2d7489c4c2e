//! What the host looks like, as far as a skeleton depends on it: a dozen `lstat` calls on every start.

use crate::rootfs::Bind;
use rustix::fs::{FileType, Stat};
use std::path::{Path, PathBuf};

/// Changes whenever a skeleton built by this version would differ from one built before.
const FORMAT: u64 = 1;

/// The program directories of `/`: links into `usr` on a host with merged `/usr`, directories elsewhere.
const PROGRAM_DIRS: [&str; 6] = ["bin", "sbin", "lib", "lib64", "lib32", "libx32"];

/// Stand for everything that is copied: installing or removing software touches at least one of them, and another
/// `/usr` altogether is another inode of `/usr/bin`. (`os-release` is a link into `/usr` and never stale.)
const INPUTS: [&str; 5] = [
    "usr/bin",
    "etc/alternatives",
    "etc/ld.so.cache",
    "etc/localtime",
    "etc/ssl/certs",
];

/// One look at the host.
#[derive(Debug)]
pub(super) struct Host {
    /// `/`, or what plays its part in a test.
    pub(super) root: PathBuf,
    /// Equal as long as the skeleton need not be rebuilt.
    pub(super) fingerprint: u64,
    /// Which of [`PROGRAM_DIRS`] are symbolic links.
    pub(super) links: Vec<&'static str>,
    /// Which of [`PROGRAM_DIRS`] are directories of their own.
    pub(super) dirs: Vec<&'static str>,
}

impl Host {
    /// Never fails: what cannot be seen cannot be copied either, and counts as absent.
    pub(super) fn look(root: &Path) -> Self {
        let mut hash = Fnv1a::new();
        hash.number(FORMAT);
        let mut see = |name: &str| {
            let stat = rustix::fs::lstat(root.join(name)).ok();
            hash.entry(stat.as_ref());
            stat.map(|stat| FileType::from_raw_mode(stat.st_mode))
        };
        let (mut links, mut dirs) = (Vec::new(), Vec::new());
        for name in PROGRAM_DIRS {
            match see(name) {
                Some(FileType::Symlink) => links.push(name),
                Some(FileType::Directory) => dirs.push(name),
                _ => {}
            }
        }
        for name in INPUTS {
            see(name);
        }
        Host {
            root: root.to_owned(),
            fingerprint: hash.0,
            links,
            dirs,
        }
    }

    /// What is bound on top of the skeleton.
    pub(super) fn binds(&self) -> Vec<Bind> {
        std::iter::once("usr")
            .chain(self.dirs.iter().copied())
            .map(Bind::of_host)
            .collect()
    }
}

/// FNV-1a, 64 bits: nobody gains by a collision, whoever can set these fields owns the host.
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
