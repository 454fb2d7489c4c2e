//! The header of 512 bytes before each member, in the formats v7, ustar, GNU and star of tar(5).

use std::borrow::Cow;

/// Block size in bytes; everything in a tar is padded to it.
pub(crate) const BLOCK: usize = 512;

/// A header as it stands in the stream. Each field is checked when it is read.
pub(crate) struct Header<'a>(pub(crate) &'a [u8; BLOCK]);

/// Format of a header: the meaning of the fields after `linkname`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// The fields have no meaning.
    V7,
    /// POSIX: a prefix of the name, and device numbers.
    Ustar,
    /// A shorter prefix, and times.
    Star,
    /// Device numbers, times, and the map of a sparse file.
    Gnu,
}

/// A numeric field that does not hold a number, or one out of range; contains the field's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadNumber(pub(crate) &'static str);

impl<'a> Header<'a> {
    fn field(&self, at: usize, len: usize) -> &'a [u8] {
        &self.0[at..at + len]
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// True if the checksum is right. The sum counts its own field as spaces. Some old tars added signed bytes,
    /// which all readers accept too.
    pub(crate) fn checksum_matches(&self) -> bool {
        let own = self.field(148, 8);
        let unsigned = sum(self.0, |byte| byte) - sum(own, |byte| byte) + 8 * i64::from(b' ');
        // A signed byte is 256 less where its highest bit is set.
        let signed = || unsigned - 256 * (sum(self.0, |byte| byte >> 7) - sum(own, |byte| byte >> 7));
        number(own).is_some_and(|stated| stated == i128::from(unsigned) || stated == i128::from(signed()))
    }

    pub(crate) fn format(&self) -> Format {
        match (self.field(257, 6), self.field(263, 2)) {
            (b"ustar\0", _) if self.field(508, 4) == b"tar\0" => Format::Star,
            (b"ustar\0", _) => Format::Ustar,
            (b"ustar ", b" \0") => Format::Gnu,
            _ => Format::V7,
        }
    }

    pub(crate) fn typeflag(&self) -> u8 {
        self.0[156]
    }

    /// Returns the name with its prefix.
    pub(crate) fn name(&self) -> Cow<'a, [u8]> {
        let prefix = match self.format() {
            Format::Ustar => text(self.field(345, 155)),
            Format::Star => text(self.field(345, 131)),
            Format::V7 | Format::Gnu => &[],
        };
        let name = text(self.field(0, 100));
        if prefix.is_empty() {
            name.into()
        } else {
            [prefix, b"/", name].concat().into()
        }
    }

    pub(crate) fn link_name(&self) -> &'a [u8] {
        text(self.field(157, 100))
    }

    pub(crate) fn mode(&self) -> Result<u32, BadNumber> {
        // File type bits are allowed in the field, but ignored.
        Ok(self.unsigned::<u32>(100, 8, "mode")? & 0o7777)
    }

    pub(crate) fn uid(&self) -> Result<u32, BadNumber> {
        self.unsigned(108, 8, "uid")
    }

    pub(crate) fn gid(&self) -> Result<u32, BadNumber> {
        self.unsigned(116, 8, "gid")
    }

    pub(crate) fn size(&self) -> Result<u64, BadNumber> {
        self.unsigned(124, 12, "size")
    }

    pub(crate) fn mtime(&self) -> Result<i64, BadNumber> {
        self.number(136, 12, "mtime")
    }

    /// Returns a device's major and minor number.
    pub(crate) fn device(&self) -> Result<(u32, u32), BadNumber> {
        if self.format() == Format::V7 {
            return Ok((0, 0));
        }
        Ok((
            self.unsigned(329, 8, "devmajor")?,
            self.unsigned(337, 8, "devminor")?,
        ))
    }

    /// Returns the map of an old GNU sparse file: four extents, whether a block of 21 more follows, and the size
    /// including holes.
    pub(crate) fn sparse(&self) -> Result<(SparseBlock<'a>, u64), BadNumber> {
        let block = SparseBlock {
            extents: self.field(386, 96),
            continues: self.0[482] != 0,
        };
        Ok((block, self.unsigned(483, 12, "realsize")?))
    }

    fn number<T: TryFrom<i128>>(&self, at: usize, len: usize, what: &'static str) -> Result<T, BadNumber> {
        let value = number(self.field(at, len)).ok_or(BadNumber(what))?;
        T::try_from(value).map_err(|_| BadNumber(what))
    }

    fn unsigned<T: TryFrom<i128>>(&self, at: usize, len: usize, what: &'static str) -> Result<T, BadNumber> {
        self.number(at, len, what)
    }
}

/// A block of pairs of offset and length; `continues` if another block follows.
pub(crate) struct SparseBlock<'a> {
    extents: &'a [u8],
    pub(crate) continues: bool,
}

impl<'a> SparseBlock<'a> {
    /// Interprets a block after the header.
    pub(crate) fn of(block: &'a [u8; BLOCK]) -> Self {
        Self {
            extents: &block[..504],
            continues: block[504] != 0,
        }
    }

    /// Iterates over the pairs up to the first empty field.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = Result<(u64, u64), BadNumber>> {
        let used = self.extents.chunks_exact(24).take_while(|pair| pair[0] != 0);
        used.map(|pair| {
            let field = |range: &[u8]| number(range).and_then(|value| u64::try_from(value).ok());
            match (field(&pair[..12]), field(&pair[12..])) {
                (Some(offset), Some(len)) => Ok((offset, len)),
                _ => Err(BadNumber("sparse map")),
            }
        })
    }
}

/// Sums up what `of` makes of each byte of a header, in a loop that the compiler turns into one of many bytes at once.
fn sum(bytes: &[u8], of: impl Fn(u8) -> u8) -> i64 {
    bytes.iter().map(|byte| u32::from(of(*byte))).sum::<u32>().into()
}

/// Returns the text up to the first NUL.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    &field[..end]
}

/// Parses octal digits between spaces and NULs (empty for 0), or base-256 in two's complement, marked by the first
/// bit.
fn number(field: &[u8]) -> Option<i128> {
    let first = *field.first()?;
    if first & 0x80 != 0 {
        // The second bit is the sign. Fields have at most 95 bits, so nothing overflows.
        let sign = if first & 0x40 != 0 { -1_i128 } else { 0 };
        let start = (sign << 6) | i128::from(first & 0x3f);
        return Some(
            field[1..]
                .iter()
                .fold(start, |value, byte| (value << 8) | i128::from(*byte)),
        );
    }
    let blank = |byte: &u8| *byte == b' ' || *byte == 0;
    let start = field.iter().position(|byte| !blank(byte)).unwrap_or(field.len());
    let digits = &field[start..];
    let end = digits.iter().position(blank).unwrap_or(digits.len());
    digits[..end].iter().try_fold(0_i128, |value, digit| match digit {
        b'0'..=b'7' => Some(value * 8 + i128::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (field, value) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"77777777", Some(0o7777_7777)),
            (b"12 junk\0", Some(0o12)),
            (b"\x80\0\0\0\0\0\x01\0", Some(256)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff", Some(-1)),
            (b"\xff\xff\xff\xff\xff\xff\xff\0", Some(-256)),
            (b"\xc0\0\0\0\0\0\0\0", Some(-(1 << 62))),
            (b"-1\0\0\0\0\0\0", None),
            (b"0000009\0", None),
            (b"", None),
        ] {
            assert_eq!(number(field), value, "{field:?}");
        }
    }
}
