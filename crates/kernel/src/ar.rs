//! Packages of Debian: an archive of ar(1) whose member `data.tar`, compressed in one way or another, has the files.

use crate::KernelError;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::path::Path;
use tote_archive::{Decoder, Devices, Expansion, ExtractOptions, Limits, Owner, Reader, Whiteouts, extract};

const MAGIC: &[u8; 8] = b"!<arch>\n";

/// Bytes of the header of a member.
const HEADER: usize = 60;

/// Largest package that is unpacked: a kernel with all of its modules has half a gigabyte.
const LIMITS: Limits = Limits {
    entries: 100_000,
    total_bytes: 4 << 30,
    file_size: 1 << 30,
    path_length: 4095,
    path_depth: 64,
    xattr_bytes: 1 << 16,
    link_length: 4095,
    header_bytes: 1 << 20,
    sparse_extents: 1 << 10,
};

/// Unpacks a package of Debian into an existing directory, with the caller as the owner of everything.
///
/// # Errors
/// [`KernelError`]; a part of the files may be there then.
pub fn unpack(package: &Path, into: &Path) -> Result<(), KernelError> {
    let mut file = File::open(package).map_err(KernelError::file("open", package))?;
    let size = data(&mut file, package)?;
    let input = BufReader::new(file.take(size));
    let decoder = Decoder::new(input, Expansion::default()).map_err(KernelError::file("read", package))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(into, flags, Mode::empty())
        .map_err(|errno| KernelError::file("open", into)(errno.into()))?;
    let mut reader = Reader::new(decoder, LIMITS).without_whiteouts();
    let options = ExtractOptions {
        owner: Owner::Process,
        whiteouts: Whiteouts::Apply,
        devices: Devices::Skip,
        keep_root: true,
        ..ExtractOptions::default()
    };
    extract(&mut reader, root.as_fd(), &options).map_err(|source| KernelError::Extract {
        path: package.to_owned(),
        source: Box::new(source),
    })?;
    Ok(())
}

/// Puts the file at the beginning of its member with the files; returns the size of that.
fn data(file: &mut File, path: &Path) -> Result<u64, KernelError> {
    let wrong = |reason: &str| KernelError::Package {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let mut magic = [0; MAGIC.len()];
    let read = file.read_exact(&mut magic);
    if read.is_err() || magic != *MAGIC {
        return Err(wrong("it is not a package of Debian"));
    }
    // A package has three members.
    for _ in 0..16 {
        let mut header = [0; HEADER];
        file.read_exact(&mut header)
            .map_err(|_| wrong("it has no member data.tar"))?;
        let (name, size) = member(&header).ok_or_else(|| wrong("the header of a member is damaged"))?;
        if name.starts_with("data.tar") {
            return Ok(size);
        }
        // Members begin at even places.
        let next = i64::try_from(size.next_multiple_of(2)).map_err(|_| wrong("a member is too large"))?;
        file.seek(SeekFrom::Current(next))
            .map_err(KernelError::file("read", path))?;
    }
    Err(wrong("it has no member data.tar"))
}

/// Reads name and size of a member.
pub(crate) fn member(header: &[u8; HEADER]) -> Option<(&str, u64)> {
    let name = std::str::from_utf8(header.get(..16)?).ok()?;
    let size = std::str::from_utf8(header.get(48..58)?).ok()?;
    header.ends_with(b"`\n").then_some(())?;
    Some((
        name.trim_end().trim_end_matches('/'),
        size.trim_end().parse().ok()?,
    ))
}
