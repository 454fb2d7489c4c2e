//! First process of a guest, which reaches the disk with tote.

/// The program (`first/main.rs`), an ELF file; empty for processors that guests do not have. It loads modules of its initramfs, mounts the disk with the
/// serial number [`FIRST_STAGE_DISK`], and executes the file of that name on it.
pub const FIRST_STAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/first-stage"));

/// Serial number of the disk, and name of the program on it.
pub const FIRST_STAGE_DISK: &str = "tote";

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_first_stage_needs_nothing_else() {
        assert!(FIRST_STAGE.starts_with(b"\x7fELF\x02\x01"));
        assert!(FIRST_STAGE.len() < 8 << 10, "{} bytes", FIRST_STAGE.len());
        let number = |at: usize, length: usize| {
            let bytes = &FIRST_STAGE[at..at + length];
            bytes
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        };
        // Kinds of segments: 2 and 3 are those of a dynamic linker.
        let kinds = (0..number(0x38, 2)).map(|at| number(number(0x20, 8) + at * number(0x36, 2), 4));
        let kinds: Vec<_> = kinds.collect();
        assert!(
            kinds.contains(&1) && !kinds.contains(&2) && !kinds.contains(&3),
            "{kinds:?}"
        );
        let memory = (0..kinds.len()).map(|at| number(number(0x20, 8) + at * number(0x36, 2) + 40, 8));
        assert!(memory.max() < Some(64 << 10));
    }
}
