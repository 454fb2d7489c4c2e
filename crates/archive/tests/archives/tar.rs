//! Archives made by hand, for cases that the writer refuses to make.

use std::fs::File;
use tote_archive::{ExtractError, ExtractOptions, Extracted, Limits, Reader, extract};

/// A member: a header with a right checksum, and data.
#[derive(Clone)]
pub(crate) struct Member {
    name: Vec<u8>,
    flag: u8,
    link: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
    size: Option<Vec<u8>>,
    mtime: Vec<u8>,
    device: (u32, u32),
    data: Vec<u8>,
}

impl Member {
    pub(crate) fn new(name: impl AsRef<[u8]>, flag: u8) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            flag,
            link: Vec::new(),
            mode: if flag == b'5' { 0o755 } else { 0o644 },
            owner: (0, 0),
            size: None,
            mtime: b"00000000144".to_vec(),
            device: (0, 0),
            data: Vec::new(),
        }
    }

    pub(crate) fn link(mut self, target: impl AsRef<[u8]>) -> Self {
        self.link = target.as_ref().to_vec();
        self
    }

    pub(crate) fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn owner(mut self, uid: u32, gid: u32) -> Self {
        self.owner = (uid, gid);
        self
    }

    /// Sets the size field, independently of the data.
    pub(crate) fn size(mut self, field: &[u8]) -> Self {
        self.size = Some(field.to_vec());
        self
    }

    pub(crate) fn mtime(mut self, field: &[u8]) -> Self {
        self.mtime = field.to_vec();
        self
    }

    pub(crate) fn device(mut self, major: u32, minor: u32) -> Self {
        self.device = (major, minor);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut block = vec![0_u8; 512];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name);
        put(100, format!("{:07o}\0", self.mode).as_bytes());
        put(108, format!("{:07o}\0", self.owner.0).as_bytes());
        put(116, format!("{:07o}\0", self.owner.1).as_bytes());
        let size = format!("{:011o}", self.data.len()).into_bytes();
        put(124, self.size.as_ref().unwrap_or(&size));
        put(136, &self.mtime);
        put(148, b"        ");
        put(156, &[self.flag]);
        put(157, &self.link);
        put(257, b"ustar\x0000");
        put(329, format!("{:07o}\0", self.device.0).as_bytes());
        put(337, format!("{:07o}\0", self.device.1).as_bytes());
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block.extend_from_slice(&self.data);
        block.resize(block.len().next_multiple_of(512), 0);
        block
    }
}

pub(crate) fn file(name: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Member {
    let mut member = Member::new(name, b'0');
    member.data = data.as_ref().to_vec();
    member
}

pub(crate) fn directory(name: impl AsRef<[u8]>) -> Member {
    Member::new(name, b'5')
}

pub(crate) fn symlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Member {
    Member::new(name, b'2').link(target)
}

pub(crate) fn hard_link(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Member {
    Member::new(name, b'1').link(target)
}

/// Builds an extended header with these records.
pub(crate) fn pax(records: &[(&str, &[u8])]) -> Member {
    let mut member = Member::new("pax", b'x');
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let len = (rest + 1..)
            .find(|len| rest + len.to_string().len() == *len)
            .unwrap();
        member.data.extend_from_slice(format!("{len} {key}=").as_bytes());
        member.data.extend_from_slice(value);
        member.data.push(b'\n');
    }
    member
}

pub(crate) fn archive(members: &[Member]) -> Vec<u8> {
    let mut bytes: Vec<u8> = members.iter().flat_map(Member::bytes).collect();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Extracts as a layer.
pub(crate) fn unpack(
    members: &[Member],
    root: &std::path::Path,
    options: &ExtractOptions,
) -> Result<Extracted, ExtractError> {
    use std::os::fd::AsFd;
    let bytes = archive(members);
    let root = File::open(root).unwrap();
    extract(
        &mut Reader::new(&*bytes, Limits::default()),
        root.as_fd(),
        options,
    )
}
