//! Packages of Debian: an archive of ar(1), whose members `control.tar` and `data.tar`, compressed in one way or another, have a
//! description and the files.

use crate::{Change, Decoder, Expansion, Limits, Reader};
use std::io::{BufReader, Error, Read, Seek, SeekFrom, Take};

const MAGIC: &[u8; 8] = b"!<arch>\n";
/// Bytes of the header of a member.
const HEADER: usize = 60;
/// Most members that are looked at; a package has three.
const MEMBERS: usize = 16;
/// Most bytes of a description.
const DESCRIPTION: usize = 4 << 20;

/// Largest package that is read: a kernel with all of its modules has half a gigabyte.
pub const PACKAGE_LIMITS: Limits = Limits {
    entries: 200_000,
    total_bytes: 8 << 30,
    file_size: 2 << 30,
    path_length: 4095,
    path_depth: 64,
    xattr_bytes: 1 << 16,
    link_length: 4095,
    header_bytes: 1 << 20,
    sparse_extents: 1 << 10,
};

/// Why a file cannot be read as a package.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The file cannot be read.
    #[error("cannot read it")]
    Read(#[source] Error),
    /// The file is not a package, or a damaged one.
    #[error("{0}")]
    Format(&'static str),
}

/// A package, whose members are known and not yet read.
#[derive(Debug)]
pub struct DebianPackage<R> {
    input: R,
    control: Option<Member>,
    data: Member,
}

/// Place of a member in the file, in bytes.
#[derive(Clone, Copy, Debug)]
struct Member {
    offset: u64,
    size: u64,
}

/// The bytes of a member, decompressed.
type Content<'a, R> = Decoder<BufReader<Take<&'a mut R>>>;

impl<R: Read + Seek> DebianPackage<R> {
    /// Finds the members of a package, from the beginning of the input on.
    ///
    /// # Errors
    /// [`PackageError`].
    pub fn open(mut input: R) -> Result<Self, PackageError> {
        let mut magic = [0; MAGIC.len()];
        if input.read_exact(&mut magic).is_err() || magic != *MAGIC {
            return Err(PackageError::Format("it is not a package of Debian"));
        }
        let (mut offset, mut control, mut data) = (MAGIC.len() as u64, None, None);
        for _ in 0..MEMBERS {
            let mut header = [0; HEADER];
            // Behind the last member is the end.
            if input.read_exact(&mut header).is_err() {
                break;
            }
            let (name, size) =
                member(&header).ok_or(PackageError::Format("the header of a member is damaged"))?;
            offset += HEADER as u64;
            let found = Member { offset, size };
            if name.starts_with("control.tar") {
                control.get_or_insert(found);
            } else if name.starts_with("data.tar") {
                data = Some(found);
                break;
            }
            // Members begin at even places.
            offset = size
                .checked_next_multiple_of(2)
                .and_then(|length| offset.checked_add(length))
                .ok_or(PackageError::Format("a member is too large"))?;
            input.seek(SeekFrom::Start(offset)).map_err(PackageError::Read)?;
        }
        let data = data.ok_or(PackageError::Format("it has no member data.tar"))?;
        Ok(Self { input, control, data })
    }

    /// Returns the archive with the files.
    ///
    /// # Errors
    /// [`PackageError::Read`].
    pub fn files(&mut self) -> Result<Reader<Content<'_, R>>, PackageError> {
        let content = self.content(self.data)?;
        Ok(Reader::new(content, PACKAGE_LIMITS).without_whiteouts())
    }

    /// Reads the description: a paragraph as in dpkg's list of packages.
    ///
    /// # Errors
    /// [`PackageError`].
    pub fn description(&mut self) -> Result<String, PackageError> {
        const NONE: PackageError = PackageError::Format("it has no description");
        let content = self.content(self.control.ok_or(NONE)?)?;
        let mut reader = Reader::new(content, PACKAGE_LIMITS).without_whiteouts();
        let damaged = |_| PackageError::Format("its description cannot be read");
        while let Some(change) = reader.next_change().map_err(damaged)? {
            if !matches!(&change, Change::Add(entry) if entry.path.as_bytes() == b"control") {
                continue;
            }
            let mut text = Vec::new();
            while let Some((_, chunk)) = reader.next_chunk().map_err(damaged)? {
                text.extend_from_slice(chunk);
                if text.len() > DESCRIPTION {
                    return Err(PackageError::Format("its description is too long"));
                }
            }
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        Err(NONE)
    }

    fn content(&mut self, member: Member) -> Result<Content<'_, R>, PackageError> {
        let start = SeekFrom::Start(member.offset);
        self.input.seek(start).map_err(PackageError::Read)?;
        let bytes = BufReader::new((&mut self.input).take(member.size));
        Decoder::new(bytes, Expansion::default()).map_err(PackageError::Read)
    }
}

/// Reads name and size of a member.
fn member(header: &[u8; HEADER]) -> Option<(&str, u64)> {
    let name = std::str::from_utf8(header.get(..16)?).ok()?;
    let size = std::str::from_utf8(header.get(48..58)?).ok()?;
    header.ends_with(b"`\n").then_some(())?;
    Some((
        name.trim_end().trim_end_matches('/'),
        size.trim_end().parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, EntryPath, Kind, Writer};
    use proptest::prelude::*;
    use std::io::{Cursor, Write as _};

    fn tar(name: &str, content: &[u8]) -> Vec<u8> {
        let path = EntryPath::parse(name.as_bytes()).unwrap();
        let kind = Kind::File {
            size: content.len() as u64,
        };
        let mut tar = Writer::new(Vec::new());
        tar.entry(&Entry::new(path, kind)).unwrap();
        tar.write_all(content).unwrap();
        tar.finish().unwrap()
    }

    fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        for (name, content) in members {
            let fields = format!(
                "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
                0,
                0,
                0,
                100_644,
                content.len()
            );
            file.extend_from_slice(fields.as_bytes());
            file.extend_from_slice(content);
            file.resize(file.len().next_multiple_of(2), b'\n');
        }
        file
    }

    fn package() -> Vec<u8> {
        ar(&[
            ("debian-binary", b"2.0"),
            ("control.tar", &tar("control", b"Package: a\nVersion: 1\n")),
            ("data.tar", &tar("usr/bin/a", b"hi")),
        ])
    }

    #[test]
    fn a_package_has_a_description_and_files() {
        let mut package = DebianPackage::open(Cursor::new(package())).unwrap();
        // Each can be read as often as it is asked for.
        for _ in 0..2 {
            assert_eq!(package.description().unwrap(), "Package: a\nVersion: 1\n");
            let mut files = package.files().unwrap();
            let Some(Change::Add(entry)) = files.next_change().unwrap() else {
                panic!("no file");
            };
            assert_eq!(entry.path.as_bytes(), b"usr/bin/a");
            assert_eq!(files.next_chunk().unwrap().unwrap().1, b"hi");
        }
    }

    #[test]
    fn what_is_no_package_says_so() {
        let whole = package();
        let data = tar("a", b"");
        for (bytes, reason) in [
            (&b"PK"[..], "it is not a package of Debian"),
            (&[b'!'; 80], "it is not a package of Debian"),
            (&whole[..40], "it has no member data.tar"),
            (&ar(&[("data.tar", &data)]), "it has no description"),
            (
                &ar(&[("control.tar", &data), ("data.tar", &data)]),
                "it has no description",
            ),
            (
                &ar(&[("x", &[b'y'; 60]), ("z", b"")])[..67],
                "it has no member data.tar",
            ),
            (
                &[&whole[..8], &[b' '; 60]].concat(),
                "the header of a member is damaged",
            ),
        ] {
            let found = DebianPackage::open(Cursor::new(bytes.to_vec()));
            let told = found.and_then(|mut package| package.description()).unwrap_err();
            assert_eq!(told.to_string(), reason);
        }
    }

    proptest! {
        #[test]
        fn damaged_packages_end(at in any::<prop::sample::Index>(), value in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let whole = package();
            let mut damaged = whole[..cut.index(whole.len()) + 1].to_vec();
            let at = at.index(damaged.len());
            damaged[at] = value;
            if let Ok(mut package) = DebianPackage::open(Cursor::new(damaged)) {
                drop(package.description());
                let mut count = 0;
                if let Ok(mut files) = package.files() {
                    while let Ok(Some(_)) = files.next_change() {
                        count += 1;
                    }
                }
                prop_assert!(count < 100);
            }
        }
    }
}
