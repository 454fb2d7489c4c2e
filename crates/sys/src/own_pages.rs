//! Memory after a fork: each page is both processes', so the next write to it takes a fault.

use crate::outcome::best_effort;
use rustix::mm::{Advice, madvise};
use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Bytes of `/proc/self/pagemap` for a page, and the bit of one that is in memory.
const ENTRY: usize = 8;
const PRESENT: u64 = 1 << 63;

/// Takes the faults that this process would take at its next writes to memory which a fork has left to another process as well: for
/// a process that has nothing else to do now, and will have to hurry. A kernel that knows no such request (Linux before 5.14) leaves it to the writes.
pub fn own_pages() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Ok(pages) = File::open("/proc/self/pagemap") else {
        return;
    };
    let size = rustix::param::page_size();
    for (first, end) in maps.lines().filter_map(writable) {
        let mut entries = vec![0; (end - first) / size * ENTRY];
        let place = (first / size * ENTRY) as u64;
        if pages.read_exact_at(&mut entries, place).is_err() {
            continue;
        }
        let present: Vec<bool> = entries.as_chunks::<ENTRY>().0.iter().map(is_present).collect();
        let mut at = first;
        for run in present.chunk_by(|one, next| one == next) {
            let length = run.len() * size;
            if run[0] {
                // SAFETY: the advice changes no content: the pages are in memory already, and get writable there.
                best_effort(unsafe { madvise(at as *mut c_void, length, Advice::LinuxPopulateWrite) });
            }
            at += length;
        }
    }
}

fn is_present(entry: &[u8; ENTRY]) -> bool {
    u64::from_ne_bytes(*entry) & PRESENT != 0
}

/// Returns the range of a mapping of this process alone that it may write to: a line of `/proc/self/maps`.
fn writable(line: &str) -> Option<(usize, usize)> {
    let (range, rest) = line.split_once(' ')?;
    let (first, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    rest.starts_with("rw-p").then_some(())?;
    Some((number(first)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_may_be_written_to() {
        let found = writable("7ffc1000-7ffc3000 rw-p 00000000 00:00 0    [stack]");
        assert_eq!(found, Some((0x7ffc_1000, 0x7ffc_3000)));
        for other in [
            "7000-8000 r--p 0 00:00 0",
            "7000-8000 rw-s 0 00:00 0",
            "7000 rw-p",
            "",
        ] {
            assert_eq!(writable(other), None, "{other}");
        }
    }
}
