//! The linker's map: the address of each piece of each input file.

/// A piece of an input file in the executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Address of the piece.
    pub(super) start: u64,
    /// Size in bytes.
    pub(super) size: u64,
    /// Path of the file, for an archive with the member in parentheses.
    pub(super) file: String,
    /// Name of the section in that file.
    pub(super) section: String,
}

/// Parses the output of `ld.lld -Map`, and returns the pieces of code by address. The output has columns of
/// numbers, and then names, which are indented by their level.
pub(super) fn pieces(map: &str) -> Vec<Piece> {
    let mut of_code = false;
    let mut pieces = Vec::new();
    for line in map.lines() {
        let Some((numbers, name)) = columns(line) else {
            continue;
        };
        if !name.starts_with(' ') {
            of_code = name.starts_with(".text");
        } else if let Some((file, section)) = named(name).filter(|_| of_code) {
            let [start, size] = numbers;
            pieces.push(Piece {
                start,
                size,
                file: file.to_owned(),
                section: section.to_owned(),
            });
        }
    }
    pieces.sort_by_key(|piece| piece.start);
    pieces
}

/// Parses address and size, and returns them with the text after `VMA LMA Size Align`.
fn columns(line: &str) -> Option<([u64; 2], &str)> {
    let mut rest = line;
    let mut numbers = [0; 4];
    for (at, number) in numbers.iter_mut().enumerate() {
        let (word, after) = rest.trim_start().split_once(' ')?;
        *number = u64::from_str_radix(word, if at == 3 { 10 } else { 16 }).ok()?;
        rest = after;
    }
    Some(([numbers[0], numbers[2]], rest))
}

/// Parses `        FILE:(SECTION)`; a name that is indented further is a symbol.
fn named(name: &str) -> Option<(&str, &str)> {
    let name = name
        .strip_prefix("        ")
        .filter(|name| !name.starts_with(' '))?;
    name.strip_suffix(')')?.rsplit_once(":(")
}

/// Finds the piece at an address.
pub(super) fn find(pieces: &[Piece], address: u64) -> Option<usize> {
    let after = pieces.partition_point(|piece| piece.start <= address);
    let at = after.checked_sub(1)?;
    (address < pieces[at].start + pieces[at].size).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
             VMA              LMA     Size Align Out     In      Symbol
          201000           201000       10     8 .rodata
          201000           201000       10     8         /t/tote.rcgu.o:(.rodata.x)
          366180           366180       60    64 .text
          366180           366180       31    16         /usr/lib/libc.a(malloc.o):(.text)
          366180           366180       31     1                 malloc
          3661c0           3661c0       20    16         /t/tote.rcgu.o:(.text._ZN4tote4main17h0123456789abcdefE)
";

    #[test]
    fn addresses() {
        let pieces = pieces(MAP);
        let names: Vec<_> = pieces
            .iter()
            .map(|piece| (&*piece.file, &*piece.section))
            .collect();
        assert_eq!(
            names,
            [
                ("/usr/lib/libc.a(malloc.o)", ".text"),
                ("/t/tote.rcgu.o", ".text._ZN4tote4main17h0123456789abcdefE"),
            ]
        );
        for (address, found) in [
            (0x36_617f, None),
            (0x36_6180, Some(0)),
            (0x36_61b0, Some(0)),
            (0x36_61b1, None),
            (0x36_61df, Some(1)),
            (0x36_61e0, None),
        ] {
            assert_eq!(find(&pieces, address), found, "{address:x}");
        }
    }
}
