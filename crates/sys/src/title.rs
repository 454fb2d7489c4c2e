//! Text that `ps` shows for this process, in place of the one inherited by fork(2).

use crate::environment::visit_environment;
use std::ffi::CStr;

/// Puts a text in the place of this process's arguments, as far as there is room, and moves its environment to where
/// `/proc/PID/environ` does not show it. Users of the host may read a process's arguments, and so may a container
/// that the process enters: a process that lives as long as a container must not go on showing them the arguments of
/// its command.
///
/// From here on this process finds its own arguments empty; its environment variables keep their values. The process
/// must have one thread only.
pub fn set_title(title: &CStr) {
    let stat = crate::read_proc_text("/proc/self/stat").unwrap_or_default();
    let Some([arguments, environment]) = crate::remap::remember(stat.as_bytes()).and_then(places) else {
        return;
    };
    move_environment(environment);
    overwrite(arguments, title.to_bytes());
    overwrite(environment, b"");
}

/// Copies the environment, and lets the C library find its variables in the copy. That is one piece of memory: a session overwrites it
/// in a process that shares it with its parent, where each page costs a copy.
fn move_environment((start, length): Place) {
    let mut copy = Vec::with_capacity(length + 1);
    // SAFETY: the kernel has put `length` bytes of environment there, as in `overwrite`.
    copy.extend_from_slice(unsafe { std::slice::from_raw_parts(start as *const u8, length) });
    copy.push(0);
    // The environment is there until this process ends.
    let copy = copy.leak().as_mut_ptr();
    let leave = |variable: &mut *mut _| {
        if let Some(at) = (*variable as usize).checked_sub(start).filter(|at| *at < length) {
            // SAFETY: the copy is longer than `at`, and ends with a zero, so the same string is at that place of it.
            *variable = unsafe { copy.add(at) }.cast();
        }
    };
    // SAFETY: the caller has one thread, and each new address is that of the same string.
    unsafe { visit_environment(leave) };
}

/// Start and length of the memory where the kernel has put arguments or environment.
type Place = (usize, usize);

/// Converts the start and the end of arguments and of environment to their places; `None` where the kernel does not tell them.
fn places([arguments, environment]: [[u64; 2]; 2]) -> Option<[Place; 2]> {
    let place = |[start, end]: [u64; 2]| {
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        Some((start, end.checked_sub(start)?)).filter(|(start, _)| *start != 0)
    };
    Some([place(arguments)?, place(environment)?])
}

/// Writes the text and fills the rest with zeros. The last byte stays zero: the kernel takes it as the end of the
/// text.
fn overwrite((start, length): Place, text: &[u8]) {
    // SAFETY: the kernel has put the strings of argv and the environment there, in memory of this process's stack
    // that it may write, and says where they end. Existing pointers to them lead to strings that are shorter, each of
    // them ended by a zero; this process has one thread, so nothing reads them meanwhile.
    let place = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, length) };
    place.fill(0);
    let shown = length.saturating_sub(1);
    for (byte, letter) in place.iter_mut().take(shown).zip(text) {
        *byte = *letter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The work of this test is done in a process of its own, because it changes the environment.
    #[test]
    fn variables_keep_their_values() {
        const ALONE: &str = "TOTE_TEST_TITLE";
        if std::env::var_os(ALONE).is_none() {
            let own = std::env::current_exe().unwrap();
            let name = "title::tests::variables_keep_their_values";
            #[expect(clippy::disallowed_methods, reason = "it is this program itself")]
            let mut alone = std::process::Command::new(own);
            alone
                .args(["--exact", name, "--test-threads=1"])
                .env(ALONE, "a=b");
            let ended = crate::Wait::within(std::time::Duration::from_secs(60))
                .output(&mut alone)
                .unwrap();
            assert!(
                ended.status.success(),
                "{}",
                String::from_utf8_lossy(&ended.stdout)
            );
            return;
        }
        let before: Vec<_> = std::env::vars_os().collect();
        set_title(c"another");
        assert_eq!(std::env::var(ALONE).as_deref(), Ok("a=b"));
        assert!(std::env::vars_os().eq(before), "nor their order");
        let shown = std::fs::read("/proc/self/environ").unwrap();
        assert!(shown.iter().all(|byte| *byte == 0));
        let title = std::fs::read("/proc/self/cmdline").unwrap();
        assert!(title.starts_with(b"another\0"));
    }

    #[test]
    fn the_places_are_found() {
        assert_eq!(places([[48, 49], [50, 50]]), Some([(48, 1), (50, 0)]));
        for bad in [[[0, 0], [50, 51]], [[48, 49], [0, 0]], [[49, 48], [50, 51]]] {
            assert_eq!(places(bad), None, "{bad:?}");
        }
        let own = std::fs::read("/proc/self/stat").unwrap();
        let [(start, length), _] = crate::remap::remember(&own).and_then(places).unwrap();
        assert!(start > 0 && length > 0);
    }
}
