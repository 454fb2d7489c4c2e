//! A kernel without what it fills with zeros itself, or finds to be zero: the memory of a machine that begins is so. A VMM keeps each byte that
//! it loads twice, in the guest's memory and as a part of the file.

use std::ops::Range;

/// Bytes of a page of memory.
const PAGE: usize = 4096;

/// Pages of zeros between two parts for which a further part is not worth its header.
const GAP: usize = 4;

/// Bytes of an ELF file's header, and of one of a segment.
const HEADER: usize = 0x40;
const SEGMENT: usize = 0x38;

/// Kind of a segment that is loaded.
const LOAD: u32 = 1;

/// Segment of an ELF file.
#[derive(Clone, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    /// Its bytes in the file.
    bytes: Range<usize>,
    address: u64,
    physical: u64,
    /// Alignment, by which the notes in a segment follow one another.
    align: u64,
}

/// Returns the ELF file of a kernel with the same bytes at the same addresses, but for pages of zeros; `None` for another file.
#[must_use]
pub fn lean(kernel: &[u8]) -> Option<Vec<u8>> {
    let mut parts = Vec::new();
    for segment in segments(kernel)? {
        if segment.kind == LOAD {
            let whole = kernel.get(segment.bytes.clone())?;
            parts.extend(filled(whole).into_iter().map(|range| segment.part(range)));
        } else {
            parts.push(segment);
        }
    }
    let head = HEADER + parts.len() * SEGMENT;
    let mut lean = kernel.get(..HEADER)?.to_vec();
    put(&mut lean, 0x20, &(HEADER as u64).to_le_bytes());
    // There are no sections.
    put(&mut lean, 0x28, &[0; 8]);
    put(&mut lean, 0x38, &u16::try_from(parts.len()).ok()?.to_le_bytes());
    put(&mut lean, 0x3c, &[0; 4]);
    lean.resize(head, 0);
    // What is not loaded lies in what is.
    let mut places: Vec<(Range<usize>, usize)> = Vec::new();
    for part in parts.iter().filter(|part| part.kind == LOAD) {
        // As in the file that it was, so that whole pages remain whole pages.
        let at = lean.len().next_multiple_of(PAGE) + part.bytes.start % PAGE;
        lean.resize(at, 0);
        lean.extend_from_slice(kernel.get(part.bytes.clone())?);
        places.push((part.bytes.clone(), at));
    }
    for (number, part) in parts.iter().enumerate() {
        let holds = |range: &Range<usize>| range.start <= part.bytes.start && part.bytes.end <= range.end;
        let (range, at) = places.iter().find(|(range, _)| holds(range))?;
        let at = at + (part.bytes.start - range.start);
        put(&mut lean, HEADER + number * SEGMENT, &part.header(at));
    }
    Some(lean)
}

impl Segment {
    /// Returns a part of it, by its range in the segment.
    fn part(&self, range: Range<usize>) -> Self {
        Self {
            bytes: self.bytes.start + range.start..self.bytes.start + range.end,
            address: self.address.wrapping_add(range.start as u64),
            physical: self.physical.wrapping_add(range.start as u64),
            ..*self
        }
    }

    /// Returns its header, with its place in the file.
    fn header(&self, at: usize) -> [u8; SEGMENT] {
        let mut header = [0; SEGMENT];
        let size = self.bytes.len() as u64;
        header[..4].copy_from_slice(&self.kind.to_le_bytes());
        header[4..8].copy_from_slice(&self.flags.to_le_bytes());
        let numbers = [at as u64, self.address, self.physical, size, size, self.align];
        for (place, number) in header[8..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        header
    }
}

/// Returns the segments of an ELF file of 64 bits.
fn segments(file: &[u8]) -> Option<Vec<Segment>> {
    let half = |at: usize| Some(u16::from_le_bytes(*file.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?));
    let number = |at: usize| Some(u64::from_le_bytes(*file.get(at..)?.first_chunk()?));
    let place = |at: usize| usize::try_from(number(at)?).ok();
    file.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let table = place(0x20)?;
    (usize::from(half(0x36)?) == SEGMENT).then_some(())?;
    let segment = |count: usize| {
        let at = table.checked_add(count * SEGMENT)?;
        let (begin, size) = (place(at.checked_add(8)?)?, place(at + 32)?);
        Some(Segment {
            kind: word(at)?,
            flags: word(at + 4)?,
            bytes: begin..begin.checked_add(size)?,
            address: number(at + 16)?,
            physical: number(at + 24)?,
            align: number(at + 48)?,
        })
    };
    (0..usize::from(half(0x38)?)).map(segment).collect()
}

/// Returns the ranges of a segment that have more than zeros.
fn filled(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut filled: Vec<Range<usize>> = Vec::new();
    for (number, page) in bytes.chunks(PAGE).enumerate() {
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        let range = number * PAGE..number * PAGE + page.len();
        match filled.last_mut() {
            Some(last) if range.start - last.end <= GAP * PAGE => last.end = range.end,
            _ => filled.push(range),
        }
    }
    filled
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = file.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len())) {
        place.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with these segments: kind, address, content.
    fn kernel(parts: &[(u32, u64, Vec<u8>)]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(HEADER + parts.len() * SEGMENT, 0);
        put(&mut file, 0x20, &(HEADER as u64).to_le_bytes());
        put(&mut file, 0x28, &[9; 8]);
        put(&mut file, 0x36, &(SEGMENT as u16).to_le_bytes());
        put(&mut file, 0x38, &(parts.len() as u16).to_le_bytes());
        for (number, (kind, address, content)) in parts.iter().enumerate() {
            let at = file.len().next_multiple_of(PAGE);
            file.resize(at, 0);
            let segment = Segment {
                kind: *kind,
                flags: 5,
                bytes: 0..content.len(),
                address: *address,
                physical: address & 0xffff_ffff,
                align: 4,
            };
            file.extend_from_slice(content);
            put(&mut file, HEADER + number * SEGMENT, &segment.header(at));
        }
        file
    }

    /// Loads a file into memory, by physical address.
    fn loaded(file: &[u8]) -> Vec<u8> {
        let mut memory = vec![0; 64 * PAGE];
        for segment in segments(file)
            .unwrap()
            .iter()
            .filter(|segment| segment.kind == LOAD)
        {
            put(
                &mut memory,
                segment.physical as usize,
                &file[segment.bytes.clone()],
            );
        }
        memory
    }

    #[test]
    fn what_is_zero_is_left_out() {
        let mut text = vec![7; 3 * PAGE];
        text.resize(20 * PAGE, 0);
        text.extend(vec![8; PAGE / 2]);
        let whole = kernel(&[(1, 0x2_0000_1000, text), (1, 0x2_0002_0000, vec![0; 5 * PAGE])]);
        let short = lean(&whole).unwrap();
        assert_eq!(loaded(&short), loaded(&whole));
        assert_eq!(segments(&short).unwrap().len(), 2);
        assert!(short.len() < 6 * PAGE, "{}", short.len());
        assert_eq!(short[0x28..0x30], [0; 8]);
        assert_eq!(lean(&short).unwrap(), short, "there is nothing more to leave out");
    }

    #[test]
    fn notes_are_where_they_were() {
        let mut whole = kernel(&[
            (1, 0, [vec![1; PAGE], vec![0; 9 * PAGE], vec![2; PAGE]].concat()),
            (4, 0, vec![3]),
        ]);
        // The note is in the last page of what is loaded.
        let at = segments(&whole).unwrap()[0].bytes.end - 100;
        put(&mut whole, at, b"note");
        put(&mut whole, HEADER + SEGMENT + 8, &(at as u64).to_le_bytes());
        put(&mut whole, HEADER + SEGMENT + 32, &4_u64.to_le_bytes());
        let short = lean(&whole).unwrap();
        let note = segments(&short).unwrap().pop().unwrap();
        assert_eq!((note.kind, note.align, &short[note.bytes]), (4, 4, &b"note"[..]));
        put(&mut whole, HEADER + SEGMENT + 8, &(PAGE as u64 * 8).to_le_bytes());
        assert!(lean(&whole).is_none(), "nobody would find the note");
        assert!(lean(b"MZ").is_none());
        assert!(lean(&whole[..HEADER + 10]).is_none());
    }
}
