/// Reason why a tree cannot become an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A name cannot be in a directory.
    #[error("the name {0:?} is empty, has a slash or a zero byte, or has more than 255 bytes")]
    Name(String),
    /// The kernel knows no such extended attribute, or its value is too large.
    #[error("the extended attribute {0:?} has an unknown name or more than 65535 bytes")]
    Xattr(String),
    /// The extended attributes of a file are too large together.
    #[error("the extended attributes of a file have more than 256 KiB")]
    Xattrs,
    /// The target of a symbolic link is too long.
    #[error("the target of a symbolic link has more than 4095 bytes")]
    Target,
    /// A file is too large.
    #[error("a file has more than 8 EiB")]
    Size,
    /// The image would have more blocks than its format can count.
    #[error("the image has more than 16 TiB")]
    Blocks,
}

/// Reason why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the image of a file system")]
    Io(#[source] std::io::Error),
    /// The file is not as it was written.
    #[error("the image of a file system is damaged: {0}")]
    Damaged(&'static str),
}
