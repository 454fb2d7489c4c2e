//! Requests to copy, and their results.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;

/// Request to copy.
#[derive(Clone, Debug, Default)]
pub struct CopyRequest {
    /// Source: `CONTAINER:PATH`, a path of this machine, or `-`.
    pub from: OsString,
    /// Destination: `CONTAINER:PATH`, a path of this machine, or `-`.
    pub to: OsString,
    /// Absolute base of relative paths on this machine.
    pub here: PathBuf,
    /// True if owners are kept, by number.
    pub archive: bool,
    /// True if a link as the source stands for its target.
    pub follow: bool,
    /// True if a directory may replace another kind of entry, and the reverse.
    pub overwrite: bool,
}

/// Streams for archives.
pub struct CopyStreams<'a> {
    /// Archive of the source `-`.
    pub input: &'a mut dyn Read,
    /// Archive of the destination `-`.
    pub output: &'a mut dyn Write,
}

impl std::fmt::Debug for CopyStreams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CopyStreams")
    }
}

/// Result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Size of the files in bytes, without holes.
    pub bytes: u64,
    /// Number of device nodes that were left out.
    pub devices_skipped: u64,
}
