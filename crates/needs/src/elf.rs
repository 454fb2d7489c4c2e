//! A parser for the parts of ELF that name other files: the dynamic linker, libraries and where they are looked for.
//! Its bytes are an enemy's.

/// Length of the largest file header in bytes.
pub const HEADER: usize = 64;

/// Maximum size of the program header table in bytes; Linux refuses a larger one.
const MAX_TABLE: usize = 65536;
/// Maximum number of entries that are read of a dynamic section.
const MAX_DYNAMIC: usize = 4096;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;

const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const DT_AUXILIARY: u64 = 0x7fff_fffd;
const DT_FILTER: u64 = 0x7fff_ffff;

/// Position of the program headers, from the file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes, at most 64 KiB.
    pub length: usize,
    /// Machine and layout: a library serves only programs with the same.
    pub machine: Machine,
    entry: usize,
}

/// Machine that a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Machine {
    layout: Layout,
    number: u64,
}

/// Class and byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Layout {
    wide: bool,
    little: bool,
}

/// Part of a file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    kind: u32,
    /// Offset in the file, in bytes, unchecked.
    pub offset: u64,
    /// Address in memory.
    pub address: u64,
    /// Length in the file in bytes, unchecked.
    pub length: u64,
}

/// A dynamic section. Numbers are offsets in the table of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// Libraries.
    pub needed: Vec<u64>,
    /// `DT_RPATH`.
    pub rpath: Option<u64>,
    /// `DT_RUNPATH`.
    pub runpath: Option<u64>,
    /// Address of the table of strings in memory.
    pub strings: u64,
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
#[must_use]
pub fn program_headers(header: &[u8]) -> Option<Table> {
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
    let number = layout.number::<2>(header, 18)?;
    let offset = layout.word(header, 32, 28)?;
    let entry = layout.half(header, 54, 42)?;
    let count = layout.half(header, 56, 44)?;
    let length = entry.checked_mul(count)?;
    let whole = entry == if wide { 56 } else { 32 };
    (whole && (1..=MAX_TABLE).contains(&length)).then_some(Table {
        offset,
        length,
        machine: Machine { layout, number },
        entry,
    })
}

/// Returns the segments of a table; fewer if the file is too short.
pub fn segments(table: Table, bytes: &[u8]) -> impl Iterator<Item = Segment> {
    let layout = table.machine.layout;
    bytes.chunks_exact(table.entry).filter_map(move |entry| {
        Some(Segment {
            kind: u32::try_from(layout.number::<4>(entry, 0)?).ok()?,
            offset: layout.word(entry, 8, 4)?,
            address: layout.word(entry, 16, 8)?,
            length: layout.word(entry, 32, 16)?,
        })
    })
}

/// Returns the position of the interpreter's name in the file: offset and length in bytes, both unchecked. `bytes`
/// is the table, or its beginning if the file is too short.
#[must_use]
pub fn interp(table: Table, bytes: &[u8]) -> Option<(u64, u64)> {
    let found = segments(table, bytes).find(|segment| segment.kind == PT_INTERP)?;
    Some((found.offset, found.length))
}

/// Returns the position of the dynamic section: offset and length in bytes, the length within bounds.
#[must_use]
pub fn dynamic_section(table: Table, bytes: &[u8]) -> Option<(u64, usize)> {
    let found = segments(table, bytes).find(|segment| segment.kind == PT_DYNAMIC)?;
    let entry = if table.machine.layout.wide { 16 } else { 8 };
    let length = usize::try_from(found.length).unwrap_or(usize::MAX);
    Some((found.offset, length.min(MAX_DYNAMIC * entry)))
}

/// Returns where in the file an address in memory is.
#[must_use]
pub fn offset_of(table: Table, bytes: &[u8], address: u64) -> Option<u64> {
    segments(table, bytes)
        .filter(|segment| segment.kind == PT_LOAD)
        .find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.length).then(|| segment.offset.checked_add(within))?
        })
}

/// Parses a dynamic section; one without a table of strings names nothing.
#[must_use]
pub fn dynamic(table: Table, section: &[u8]) -> Option<Dynamic> {
    let layout = table.machine.layout;
    let entry = if layout.wide { 16 } else { 8 };
    let (mut found, mut strings) = (Dynamic::default(), None);
    for entry in section.chunks_exact(entry) {
        let (tag, value) = (layout.word(entry, 0, 0)?, layout.word(entry, 8, 4)?);
        match tag {
            DT_NULL => break,
            DT_NEEDED | DT_AUXILIARY | DT_FILTER => found.needed.push(value),
            DT_STRTAB => strings = Some(value),
            DT_RPATH => found.rpath = Some(value),
            DT_RUNPATH => found.runpath = Some(value),
            _ => {}
        }
    }
    found.strings = strings?;
    Some(found)
}
