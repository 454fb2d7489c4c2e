//! From the traced addresses to the linker's script.

use super::map::{Piece, find};
use std::collections::BTreeMap;

/// Comment at the top of the script.
const HEAD: &str = "\
/* What every start of a container goes through, in the order in which it does: written by `cargo xtask hot`.
 *
 * The kernel maps code in windows of 64 KiB around what is touched, so what is used together has to lie together.
 * A name that is missing here, or is no name any more, costs a little memory and nothing else.
 */
";

/// For each command that reached a piece, the position at which it did so first.
#[derive(Clone, Debug, Default)]
struct Use(BTreeMap<usize, usize>);

impl Use {
    /// Returns the sort key. First come the pieces that only runs of bundles use, then those of all commands, then
    /// those of the others only, so that each command's pieces are together. Within a group come first the ones of
    /// more commands, then those of the same commands together, then by position.
    fn rank(&self, bundles: usize) -> (u8, std::cmp::Reverse<usize>, Vec<usize>, usize) {
        let (of_bundles, of_others) = (
            self.0.range(..bundles).next().is_some(),
            self.0.range(bundles..).next().is_some(),
        );
        let group = match (of_bundles, of_others) {
            (true, false) => 0,
            (true, true) => 1,
            (false, _) => 2,
        };
        let first = self.0.values().min().copied().unwrap_or_default();
        let commands = self.0.keys().copied().collect();
        (group, std::cmp::Reverse(self.0.len()), commands, first)
    }
}

/// A build of the engine, and the addresses that its commands reached.
pub(super) struct Traced {
    pub(super) pieces: Vec<Piece>,
    /// A trace for each command. The first `bundles` are those of `tote oci`.
    pub(super) traces: Vec<Vec<u64>>,
    pub(super) bundles: usize,
}

/// Builds the linker's script: the pieces that contain the addresses, those of the first build first.
pub(super) fn script(builds: &[Traced]) -> String {
    let (first, last): (Vec<_>, Vec<_>) = builds.iter().map(lines).unzip();
    written(&first.concat(), &last.concat())
}

/// Returns the lines for a build: those in their order, and those for the end, which are less exact.
fn lines(build: &Traced) -> (Vec<String>, Vec<String>) {
    let Traced {
        pieces,
        traces,
        bundles,
    } = build;
    let mut used: BTreeMap<usize, Use> = BTreeMap::new();
    for (command, trace) in traces.iter().enumerate() {
        for (when, address) in trace.iter().enumerate() {
            if let Some(at) = find(pieces, *address) {
                used.entry(at).or_default().0.entry(command).or_insert(when);
            }
        }
    }
    let mut namesakes: BTreeMap<String, usize> = BTreeMap::new();
    for piece in pieces {
        *namesakes.entry(pattern(&piece.section)).or_default() += 1;
    }
    let mut ranked: Vec<_> = used
        .iter()
        .map(|(at, of)| (of.rank(*bundles), &pieces[*at]))
        .collect();
    ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (_, piece) in ranked {
        if let Some(member) = member(&piece.file) {
            first.push(format!("{member}({})", piece.section));
        } else if piece.section.starts_with(".text.") {
            let pattern = pattern(&piece.section);
            if namesakes.get(&pattern).is_some_and(|count| *count > 1) {
                // The name with its hash selects exactly one piece, but only until a version changes.
                first.push(format!("*({})", piece.section));
                last.push(format!("*({pattern})"));
            } else {
                first.push(format!("*({pattern})"));
            }
        }
    }
    (first, last)
}

fn written(first: &[String], last: &[String]) -> String {
    let mut seen = std::collections::BTreeSet::new();
    let lines = first.iter().chain(last).filter(|line| seen.insert(line.as_str()));
    let lines: String = lines.flat_map(|line| ["    ", line, "\n"]).collect();
    format!("{HEAD}SECTIONS {{\n  .text.hot : {{\n{lines}  }}\n}} INSERT BEFORE .text;\n")
}

/// Builds `*libc.a:malloc.o` of `/usr/lib/libc.a(malloc.o)`, for C, whose functions share a section.
fn member(file: &str) -> Option<String> {
    let (archive, member) = file.strip_suffix(')')?.rsplit_once('(')?;
    let archive = archive.rsplit('/').next().filter(|name| name.ends_with(".a"))?;
    Some(format!("*{archive}:{member}"))
}

/// Builds a pattern for the name of a section in which hashes are wildcards, because they change with the compiler
/// and versions.
fn pattern(section: &str) -> String {
    let mut pattern = String::new();
    let mut rest = section;
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = after_hash(rest) {
            pattern.push_str("17h*E");
            rest = after;
        } else if let Some(after) = after_disambiguator(rest) {
            pattern.push_str("Cs*_");
            rest = after;
        } else {
            pattern.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    pattern
}

/// Returns the text after the hash at the end of a name in the legacy scheme: `17h0123456789abcdefE`.
fn after_hash(text: &str) -> Option<&str> {
    let (hash, after) = text.strip_prefix("17h")?.split_at_checked(16)?;
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    after.strip_prefix('E').filter(|_| is_hash)
}

/// Returns the text after the number of a crate in the v0 scheme: `Cs4fqI2P2rA04_`.
fn after_disambiguator(text: &str) -> Option<&str> {
    let (number, after) = text.strip_prefix("Cs")?.split_once('_')?;
    let is_number =
        (6..=13).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_number.then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_what_changes() {
        for (name, expected) in [
            (
                ".text._ZN4tote4main17h671841d67ee0035fE",
                ".text._ZN4tote4main17h*E",
            ),
            (
                ".text._RNvNtCsgEmfK2I1SDS_4core3str5count",
                ".text._RNvNtCs*_4core3str5count",
            ),
            (".text._ZN2Cs3x_y17hzzE", ".text._ZN2Cs3x_y17hzzE"),
            (".text", ".text"),
        ] {
            assert_eq!(pattern(name), expected);
        }
        assert_eq!(
            member("/usr/lib/../libc.a(malloc.o)").as_deref(),
            Some("*libc.a:malloc.o")
        );
        for other in ["/t/tote.rcgu.o", "/t/libring-3d01c8ea.rlib(cpu.o)"] {
            assert_eq!(member(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_used_together_lies_together() {
        let piece = |start: u64, file: &str, section: &str| Piece {
            start,
            size: 0x10,
            file: file.to_owned(),
            section: section.to_owned(),
        };
        let pieces = [
            piece(0x100, "/t/a.o", ".text._ZN1a17h0123456789abcdefE"),
            piece(0x110, "/t/a.o", ".text._ZN1b17h0123456789abcdefE"),
            piece(0x120, "/t/a.o", ".text._ZN1b17hfedcba9876543210E"),
            piece(0x130, "/usr/lib/libc.a(malloc.o)", ".text"),
            piece(0x140, "/t/a.o", ".text._ZN1c17h0123456789abcdefE"),
        ];
        let traces = [vec![0x128, 0x130], vec![0x130, 0x14f, 0x140]];
        let lines = [
            "*(.text._ZN1b17hfedcba9876543210E)",
            "*libc.a:malloc.o(.text)",
            "*(.text._ZN1c17h*E)",
            "*(.text._ZN1d17h*E)",
            "*(.text._ZN1b17h*E)",
        ];
        let other = Traced {
            pieces: vec![piece(0x100, "/t/a.o", ".text._ZN1d17h0123456789abcdefE")],
            traces: vec![vec![0x100]],
            bundles: 1,
        };
        let build = Traced {
            pieces: pieces.to_vec(),
            traces: traces.to_vec(),
            bundles: 1,
        };
        let script = script(&[build, other]);
        let (_, list) = script.split_once(".text.hot : {\n").unwrap();
        assert_eq!(list.lines().map(str::trim).take(5).collect::<Vec<_>>(), lines);
    }
}
