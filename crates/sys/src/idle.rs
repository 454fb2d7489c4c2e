//! Sleep with little memory: a process gives the memory that it does not need meanwhile back to the kernel.

use crate::Errno;
use crate::outcome::best_effort;
use crate::wait::Wait;
use rustix::event::{PollFd, poll};
use rustix::mm::{Advice, madvise};
use std::ffi::c_void;

/// Bytes below the current place of the stack that may be in use: the red zone, and frames of this file.
const MARGIN: usize = 2 * 1024;

/// Upper bound of the size of [`Footprint::sleep`] in the program, in bytes.
const SLEEP_SIZE: usize = 1024;

/// Upper bound of the program's mappings that are remembered; it has about four.
const MOST: usize = 8;

/// Memory of this process that the kernel can bring back from the program's file.
#[derive(Debug)]
pub struct Footprint {
    program: [(usize, usize); MOST],
    stack: (usize, usize),
}

impl Footprint {
    /// Reads `/proc/self/smaps`. The result holds for as long as this process runs the same program, and for a forked
    /// process as well.
    #[must_use]
    pub fn new() -> Self {
        // absence: memory is given back in fewer pieces
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        // absence: memory is given back in fewer pieces
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let found = Self::parse(&maps, &program.to_string_lossy());
        found.set_sleep_apart();
        found
    }

    /// Makes the code of `sleep` a mapping of its own. That code must stay in memory; in a larger mapping the kernel
    /// would bring back 64 KiB along with each page, but it does not read ahead beyond a mapping with other advice.
    fn set_sleep_apart(&self) {
        let (address, page) = ((Self::sleep as *const ()).addr(), rustix::param::page_size());
        let (start, end) = (
            address & !(page - 1),
            (address + SLEEP_SIZE).next_multiple_of(page),
        );
        let within = |(first, length): &(usize, usize)| *first <= start && end <= first + length;
        if self.program.iter().any(within) {
            // SAFETY: the advice changes only how far the kernel reads ahead, and no contents of memory.
            best_effort(unsafe { madvise(start as *mut c_void, end - start, Advice::Random) });
        }
    }

    /// Finds mappings of the program that can neither be written nor have been, as relocated data has; and the main
    /// thread's stack.
    fn parse(maps: &str, program: &str) -> Self {
        let mut found = Self {
            program: [(0, 0); MOST],
            stack: (0, 0),
        };
        let mut count = 0;
        let mut mapping: Option<(usize, usize)> = None;
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(first), Some(second)) = (fields.next(), fields.next()) else {
                continue;
            };
            match first {
                // `Swap:` is the last relevant line in the kernel's order: the mapping still equals its file.
                "Swap:" if second == "0" => {
                    if let (Some(mapping), Some(place)) = (mapping.take(), found.program.get_mut(count)) {
                        *place = mapping;
                        count += 1;
                    }
                }
                "Anonymous:" if second != "0" => mapping = None,
                _ => {}
            }
            let Some(range) = range(first) else { continue };
            mapping = None;
            let name = line.find(['/', '[']).map_or("", |start| &line[start..]);
            if name == "[stack]" {
                found.stack = range;
            } else if name == program
                && second.starts_with('r')
                && second.ends_with('p')
                && !second.contains('w')
            {
                mapping = Some(range);
            }
        }
        found
    }

    /// Gives free memory of the heap back, and the part of the stack that is not in use.
    pub fn trim(&self) {
        #[cfg(target_env = "musl")]
        crate::heap::trim();
        #[cfg(target_env = "gnu")]
        // SAFETY: malloc_trim only touches free memory; it may be called at any time.
        unsafe {
            libc::malloc_trim(0)
        };
        let here = std::ptr::from_ref(&self).addr();
        let (start, length) = self.stack;
        if start < here && here < start + length {
            let end = here.saturating_sub(MARGIN) & !(rustix::param::page_size() - 1);
            if start < end {
                // SAFETY: the range is of the stack that this runs on, far below this frame: a stack grows downwards,
                // so nothing there is alive. Pages that are used again begin as zeroes.
                best_effort(unsafe { madvise(start as *mut c_void, end - start, Advice::LinuxDontNeed) });
            }
        }
    }

    /// Calls poll(2) with next to nothing of the program in memory: the kernel brings back the code that runs next
    /// from its cache.
    ///
    /// # Errors
    /// poll(2)'s.
    #[inline(never)]
    pub fn sleep(&self, fds: &mut [PollFd<'_>], wait: Wait) -> Result<usize, Errno> {
        let timeout = wait.timeout();
        for (start, length) in self.program.iter().filter(|(_, length)| *length > 0) {
            // SAFETY: a private mapping of a file that neither can be written nor was has the file's bytes, also
            // after its pages were given back.
            best_effort(unsafe { madvise(*start as *mut c_void, *length, Advice::LinuxDontNeed) });
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "code of another file would be brought back for it"
        )]
        let ready = poll(fds, timeout.as_ref());
        ready
    }
}

/// Parses `00200000-00300000` as a start and a length.
fn range(text: &str) -> Option<(usize, usize)> {
    let (start, end) = text.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    (start < end).then(|| (start, end - start))
}

impl Default for Footprint {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_as_in_the_file_is_found() {
        let maps = "\
00200000-00300000 r--p 00000000 08:01 11 /usr/bin/tote with spaces
Private_Dirty:         0 kB
Anonymous:             0 kB
Swap:                  0 kB
00300000-00900000 r-xp 00100000 08:01 11 /usr/bin/tote with spaces
Private_Dirty:         8 kB
Swap:                  0 kB
00900000-00910000 r--p 00700000 08:01 11 /usr/bin/tote with spaces
Private_Dirty:         4 kB
Anonymous:             4 kB
Swap:                  0 kB
00910000-00918000 r--p 00710000 08:01 11 /usr/bin/tote with spaces
Private_Dirty:         8 kB
Swap:                  4 kB
00918000-00920000 rw-p 00718000 08:01 11 /usr/bin/tote with spaces
Swap:                  0 kB
00a00000-00b00000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000001000 r--s 00000000 08:01 11 /usr/bin/tote with spaces
Swap:                  0 kB
7f0000001000-7f0000002000 r--p 00000000 08:01 12 /usr/lib/locale
Swap:                  0 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
Swap:                  0 kB
garbage
9-8 r--p 0 0 0 /usr/bin/tote with spaces
Swap:                  0 kB
";
        let found = Footprint::parse(maps, "/usr/bin/tote with spaces");
        let program = found.program.iter().filter(|(_, length)| *length > 0);
        let expected = [(0x20_0000, 0x10_0000), (0x30_0000, 0x60_0000)];
        assert!(program.eq(&expected), "{found:?}");
        assert_eq!(found.stack, (0x7ffc_0000_0000, 0x21000));
    }

    /// Returns how much memory the executable mappings of a process take, in KiB.
    fn code_of(pid: u32) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
        let mut is_code = false;
        let mut sum = 0;
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            match (fields.next(), fields.next()) {
                (Some("Rss:"), Some(size)) if is_code => sum += size.parse::<u64>().unwrap(),
                (Some(first), Some(second)) if range(first).is_some() => {
                    is_code = second == "r-xp" && line.contains('/');
                }
                _ => {}
            }
        }
        sum
    }

    #[test]
    #[ignore = "it is the process that the next test looks at"]
    fn sleeper() {
        // More than once: the thread that started this one does not sleep at first.
        let footprint = Footprint::new();
        for _ in 0..100 {
            footprint
                .sleep(&mut [], Wait::within(Duration::from_millis(200)))
                .unwrap();
        }
    }

    #[test]
    fn what_sleeps_is_small() {
        if cfg!(debug_assertions) {
            eprintln!("skipped: needs an optimised build");
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "it is this very test")]
        let mut command = std::process::Command::new("/proc/self/exe");
        command.args(["--exact", "--ignored", "--quiet", "idle::tests::sleeper"]);
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        let limit = std::time::Instant::now() + Duration::from_secs(10);
        let (mut size, mut has_run) = (0, false);
        while (size > 16 || !has_run) && std::time::Instant::now() < limit {
            std::thread::yield_now();
            size = code_of(child.id());
            has_run |= size > 64;
        }
        child.kill().unwrap();
        assert!(Wait::ending().finish(&mut child).unwrap().is_some());
        assert!(has_run && size <= 16, "{size} KiB");
    }

    #[test]
    fn the_program_goes_on_afterwards() {
        let footprint = Footprint::new();
        assert!(footprint.program[0].1 > 0, "{footprint:?}");
        footprint.trim();
        assert_eq!(
            footprint.sleep(&mut [], Wait::within(Duration::from_nanos(1))),
            Ok(0)
        );
        assert_eq!("still here".len(), 10);
    }
}
