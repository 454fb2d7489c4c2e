//! Numeric fields of a header: writing them.

use crate::header::BLOCK;

/// Position and width of a number in a header.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    at: usize,
    len: usize,
}

impl Field {
    pub(crate) const MODE: Self = Self { at: 100, len: 8 };
    pub(crate) const UID: Self = Self { at: 108, len: 8 };
    pub(crate) const GID: Self = Self { at: 116, len: 8 };
    pub(crate) const SIZE: Self = Self { at: 124, len: 12 };
    pub(crate) const MTIME: Self = Self { at: 136, len: 12 };
    pub(crate) const MAJOR: Self = Self { at: 329, len: 8 };
    pub(crate) const MINOR: Self = Self { at: 337, len: 8 };

    /// True if octal digits suffice for the number.
    pub(crate) fn holds(self, number: i64) -> bool {
        let bits = 3 * (self.len - 1);
        (0..1 << bits).contains(&number)
    }
}

/// Writes octal digits and a NUL, or base-256 if digits do not suffice. A reader that does not know pax headers
/// then sees the same number, or refuses it.
pub(crate) fn put_number(block: &mut [u8; BLOCK], field: Field, number: i128) {
    let digits = i64::try_from(number).is_ok_and(|number| field.holds(number));
    let out = &mut block[field.at..field.at + field.len];
    if digits {
        let text = format!("{number:0width$o}\0", width = field.len - 1);
        out.copy_from_slice(text.as_bytes());
        return;
    }
    let bytes = number.to_be_bytes();
    out.copy_from_slice(&bytes[bytes.len() - field.len..]);
    out[0] |= 0x80;
}
