//! An archive for an initramfs: the format `newc` of cpio(1).

/// Bytes before the name of an entry: a magic number and thirteen of eight digits.
const HEADER: usize = 6 + 13 * 8;

/// Directory of modules in an initramfs.
pub(crate) const MODULES: &str = "modules";

/// File that names the modules, one a line, in the order in which they are loaded. A number behind a name is that of the virtio device
/// without which the module is not needed.
pub(crate) const LIST: &str = "modules/list";

/// An archive that is being written. Several archives one after another are one for the kernel, so an unfinished one is
/// the beginning of a larger one: [`Cpio::into_bytes`] puts nothing at the end.
#[derive(Debug, Default)]
pub(crate) struct Cpio {
    bytes: Vec<u8>,
    inode: u32,
}

impl Cpio {
    /// Begins an archive.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a directory of root's.
    pub(crate) fn directory(&mut self, path: &str) {
        self.entry(path, 0o040_755, &[]);
    }

    /// Adds a file of root's.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entry(path, 0o100_000 | mode, content);
    }

    /// Returns the bytes.
    #[must_use]
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the bytes with the entry that ends an archive.
    #[must_use]
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        // Inode, mode, owner, group, links, time, size, four numbers of devices, length of the name, checksum.
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Fills up to a multiple of four bytes.
    fn pad(&mut self) {
        let length = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(length, 0);
    }
}

/// Returns the paths and contents of an archive's files and directories; `None` if it is not one.
pub(crate) fn files(mut archive: &[u8]) -> Option<Vec<(&str, &[u8])>> {
    let mut files = Vec::new();
    while !archive.is_empty() {
        let (header, rest) = archive.split_at_checked(HEADER)?;
        let field = |number: usize| {
            let digits = header.strip_prefix(b"070701")?.get(number * 8..number * 8 + 8)?;
            usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        };
        let (size, length) = (field(6)?, field(11)?);
        let (name, rest) = split_padded(rest, length, HEADER)?;
        let (content, rest) = split_padded(rest, size, 0)?;
        files.push((std::str::from_utf8(name).ok()?.strip_suffix('\0')?, content));
        archive = rest;
    }
    Some(files)
}

/// Splits off the beginning, and what fills it up to a multiple of four bytes with those before it.
fn split_padded(bytes: &[u8], length: usize, before: usize) -> Option<(&[u8], &[u8])> {
    let whole = before.checked_add(length)?.checked_next_multiple_of(4)? - before;
    Some((bytes.get(..length)?, bytes.get(whole..)?))
}
