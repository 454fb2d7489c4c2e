//! A parser for the part of ELF that names the dynamic linker (`PT_INTERP`), for untrusted bytes.

/// Length of the largest file header in bytes.
pub(super) const HEADER: usize = 64;

/// Maximum size of the program header table in bytes; Linux refuses a larger one.
const MAX_TABLE: usize = 65536;

const PT_INTERP: u32 = 3;

/// Position of the program headers, from the file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Offset in the file, in bytes.
    pub(super) offset: u64,
    /// Length in bytes, at most 64 KiB.
    pub(super) length: usize,
    entry: usize,
    layout: Layout,
}

/// Class and byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    wide: bool,
    little: bool,
}

impl Layout {
    /// Reads the unsigned number of `N` bytes (at most 8) at `at`.
    fn number<const N: usize>(self, bytes: &[u8], at: usize) -> Option<u64> {
        let field: [u8; N] = bytes.get(at..at.checked_add(N)?)?.try_into().ok()?;
        let join = |number: u64, byte: u8| number << 8 | u64::from(byte);
        Some(if self.little {
            field.into_iter().rev().fold(0, join)
        } else {
            field.into_iter().fold(0, join)
        })
    }

    /// Reads an address or offset: 8 bytes at the first position in a 64-bit file, 4 at the second in a 32-bit one.
    fn word(self, bytes: &[u8], wide_at: usize, narrow_at: usize) -> Option<u64> {
        if self.wide {
            self.number::<8>(bytes, wide_at)
        } else {
            self.number::<4>(bytes, narrow_at)
        }
    }

    fn half(self, bytes: &[u8], wide_at: usize, narrow_at: usize) -> Option<usize> {
        let at = if self.wide { wide_at } else { narrow_at };
        self.number::<2>(bytes, at)
            .and_then(|number| usize::try_from(number).ok())
    }
}

/// Parses a file header; `None` if Linux would not execute such a file.
pub(super) fn program_headers(header: &[u8]) -> Option<Table> {
    let ident = header.strip_prefix(b"\x7fELF")?;
    let wide = match ident.first()? {
        1 => false,
        2 => true,
        _ => return None,
    };
    let little = match ident.get(1)? {
        1 => true,
        2 => false,
        _ => return None,
    };
    let layout = Layout { wide, little };
    let offset = layout.word(header, 32, 28)?;
    let entry = layout.half(header, 54, 42)?;
    let count = layout.half(header, 56, 44)?;
    let length = entry.checked_mul(count)?;
    let whole = entry == if wide { 56 } else { 32 };
    (whole && (1..=MAX_TABLE).contains(&length)).then_some(Table {
        offset,
        length,
        entry,
        layout,
    })
}

/// Returns the position of the interpreter's name in the file: offset and length in bytes, both unchecked. `bytes`
/// is the table, or its beginning if the file is too short.
pub(super) fn interp(table: Table, bytes: &[u8]) -> Option<(u64, u64)> {
    let layout = table.layout;
    bytes
        .chunks_exact(table.entry)
        .find(|entry| layout.number::<4>(entry, 0) == Some(u64::from(PT_INTERP)))
        .and_then(|entry| Some((layout.word(entry, 8, 4)?, layout.word(entry, 32, 16)?)))
}
