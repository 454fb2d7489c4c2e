//! Numbers of the format, as in fs/erofs/erofs_fs.h of Linux.

use crate::LayoutError;

/// Bytes of a block, and the power of two that they are.
pub(crate) const BLOCK: u64 = 1 << BLOCK_BITS;
pub(crate) const BLOCK_BITS: u8 = 12;

/// Place and size of the superblock.
pub(crate) const SUPERBLOCK: u64 = 1024;
pub(crate) const SUPERBLOCK_SIZE: usize = 128;
pub(crate) const MAGIC: u32 = 0xe0f5_e1e2;
/// Some files have a list of chunks (`EROFS_FEATURE_INCOMPAT_CHUNKED_FILE`).
pub(crate) const CHUNKED: u32 = 4;

/// Unit in bytes of the places of inodes: the number of an inode is its place in these units.
pub(crate) const SLOT: u64 = 32;
/// Bytes of an inode of the long form.
pub(crate) const INODE: u64 = 64;
/// Long form, in `i_format`.
pub(crate) const LONG: u16 = 1;

/// Places of a file's data, in `i_format`.
pub(crate) const PLAIN: u16 = 0;
pub(crate) const INLINE: u16 = 2;
pub(crate) const CHUNKS: u16 = 4;

/// No block: a hole.
pub(crate) const HOLE: u32 = u32::MAX;
/// Largest power of two that a chunk can have.
pub(crate) const CHUNK_BITS_MAX: u32 = BLOCK_BITS as u32 + 31;

/// Bytes of the header before the extended attributes of an inode, and of that before each attribute.
pub(crate) const XATTR_HEADER: u64 = 12;
pub(crate) const XATTR_ENTRY: u64 = 4;

/// Bytes of an entry of a directory, without its name.
pub(crate) const DIRENT: u64 = 12;
pub(crate) const NAME_MAX: usize = 255;
/// Longest target of a symbolic link: the kernel keeps a zero byte after it in one page.
pub(crate) const TARGET_MAX: usize = 4095;

/// Kinds of files in the mode of an inode.
pub(crate) const KINDS: u16 = 0o170_000;
pub(crate) const FIFO: u16 = 0o010_000;
pub(crate) const CHARACTER: u16 = 0o020_000;
pub(crate) const DIRECTORY: u16 = 0o040_000;
pub(crate) const BLOCK_DEVICE: u16 = 0o060_000;
pub(crate) const REGULAR: u16 = 0o100_000;
pub(crate) const SYMLINK: u16 = 0o120_000;

/// Returns the kind of a file as entries of directories have it.
pub(crate) fn dirent_kind(mode: u16) -> u8 {
    match mode & KINDS {
        REGULAR => 1,
        DIRECTORY => 2,
        CHARACTER => 3,
        BLOCK_DEVICE => 4,
        FIFO => 5,
        SYMLINK => 7,
        _ => 0,
    }
}

/// Beginnings of the names of extended attributes, which are written as numbers.
const PREFIXES: [(u8, &[u8]); 5] = [
    (1, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
];

/// Splits the name of an extended attribute into the number of its beginning and the rest.
pub(crate) fn split_xattr(name: &[u8]) -> Result<(u8, &[u8]), LayoutError> {
    let wrong = || LayoutError::Xattr(String::from_utf8_lossy(name).into_owned());
    for (number, prefix) in PREFIXES {
        if let Some(rest) = name.strip_prefix(prefix) {
            // Only names that end with a dot are beginnings.
            let is_right = rest.is_empty() != prefix.ends_with(b".");
            return if is_right && rest.len() <= NAME_MAX && !rest.contains(&0) {
                Ok((number, rest))
            } else {
                Err(wrong())
            };
        }
    }
    Err(wrong())
}

/// Returns the bytes of an extended attribute in an image.
pub(crate) fn xattr_size(name: &[u8], value: &[u8]) -> Result<u64, LayoutError> {
    let (_, rest) = split_xattr(name)?;
    if value.len() > usize::from(u16::MAX) {
        return Err(LayoutError::Xattr(String::from_utf8_lossy(name).into_owned()));
    }
    Ok((XATTR_ENTRY + rest.len() as u64 + value.len() as u64).next_multiple_of(4))
}

/// Returns the power of two of the size of a file's chunks, and the number of these.
pub(crate) fn chunks(size: u64) -> (u32, u64) {
    let bits = size.max(2).next_power_of_two().trailing_zeros();
    let bits = bits.clamp(u32::from(BLOCK_BITS), CHUNK_BITS_MAX);
    (bits, size.div_ceil(1 << bits))
}

/// Returns a device number as the kernel writes it in 32 bits.
pub(crate) fn device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12
}
