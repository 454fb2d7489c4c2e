//! `loop`: the container writes to a file system of a fixed size, in a file.

use crate::directory::{is_there, make_dir, missing_is_fine};
use crate::prepared::{Beside, Prepared};
use crate::request::Request;
use crate::{PrepareError, program};
use rustix::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tote_rootfs::{Storage, Upper};

/// Name of the file in the container's directory.
pub(crate) const DISK: &str = "disk";

/// Default size in bytes. The file is sparse, so only written parts take space.
const DEFAULT_SIZE: u64 = 10 << 30;

/// A kind of file system for such disks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    fs: &'static str,
    program: &'static str,
    package: &'static str,
    words: &'static [&'static str],
    /// Additional options for a disk that is removed with its container: it needs no journal.
    words_of_rm: &'static [&'static str],
}

/// ext4. Blocks are as large as the device's, also on a small disk. A container's own disk reserves no space for
/// root of the host.
pub(crate) const EXT4: Kind = Kind {
    fs: "ext4",
    program: "mkfs.ext4",
    package: "e2fsprogs",
    words: &[
        "-q",
        "-F",
        "-b",
        "4096",
        "-m",
        "0",
        "-E",
        "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
    ],
    words_of_rm: &["-O", "^has_journal"],
};

/// XFS. Sectors are as large as the device's blocks. XFS always has a journal, and a size of at least 300 MiB.
pub(crate) const XFS: Kind = Kind {
    fs: "xfs",
    program: "mkfs.xfs",
    package: "xfsprogs",
    words: &["-q", "-f", "-K", "-s", "size=4096", "-m", "reflink=1"],
    words_of_rm: &[],
};

pub(crate) fn prepare(
    kind: Kind,
    lowers: Vec<PathBuf>,
    request: &Request<'_>,
) -> Result<Prepared, PrepareError> {
    let mut held = Vec::new();
    let device = if request.dry {
        PathBuf::from("/dev/loopN")
    } else {
        make_dir(request.container)?;
        let path = request.container.join(DISK);
        if !is_there(&path)? {
            make(kind, &path, request.disk_size, request.rm)?;
        }
        let failed = |source| PrepareError::State {
            attempt: "open",
            path: path.clone(),
            source,
        };
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        let device = tote_sys::attach_loop(file.as_fd()).map_err(|source| PrepareError::Loop {
            path: path.clone(),
            source,
        })?;
        let node = device.path.clone();
        held.push(device);
        node
    };
    let upper = Upper::Disk { fs: kind.fs, device };
    let storage = Storage::Overlay {
        lowers,
        own_inodes: request.own_inodes.cloned(),
        upper,
        volatile: request.rm,
    };
    let beside = Beside {
        held,
        ..Beside::default()
    };
    Ok(Prepared { storage, beside })
}

/// Makes the file of a disk with ext4 in that directory, of the default size where none is given, unless it is there; returns its path.
/// Who mounts it is the caller's business.
///
/// # Errors
/// [`PrepareError`].
pub fn make_disk(dir: &Path, size: Option<u64>) -> Result<PathBuf, PrepareError> {
    make_dir(dir)?;
    let path = dir.join(DISK);
    if !is_there(&path)? {
        make(EXT4, &path, size, false)?;
    }
    Ok(path)
}

/// Makes the file under another name first, so that an unfinished file of a killed command is not taken for a disk.
fn make(kind: Kind, path: &Path, size: Option<u64>, rm: bool) -> Result<(), PrepareError> {
    let fresh = path.with_extension("fresh");
    let failed = |attempt| {
        let path = fresh.clone();
        move |source| PrepareError::State {
            attempt,
            path,
            source,
        }
    };
    missing_is_fine(std::fs::remove_file(&fresh)).map_err(failed("remove"))?;
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(failed("make"))?;
    file.set_len(size.unwrap_or(DEFAULT_SIZE))
        .map_err(failed("set the size of"))?;
    let more = if rm { kind.words_of_rm } else { &[] };
    let words = [kind.words, more].concat();
    program::run(kind.program, kind.package, &words, &[&fresh])?;
    std::fs::rename(&fresh, path).map_err(failed("rename"))
}
