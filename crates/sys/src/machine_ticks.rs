//! Start times of processes by the machine's own clock.

use crate::read_proc_text;
use std::io::{ErrorKind, Result};
use std::sync::OnceLock;

/// Turns a start time of `/proc/PID/stat` into one by the machine's clock, in ticks since boot. The kernel shows a process in a time
/// namespace all of them by the clock there, and commands in other namespaces read what it has recorded.
///
/// # Errors
/// Those of open(2), read(2) and stat(2): without that clock the start time would be that of another process, and a living process would
/// count as ended.
pub fn machine_ticks(shown: u64) -> Result<u64> {
    static AHEAD: OnceLock<i64> = OnceLock::new();
    let ahead = match AHEAD.get() {
        Some(ahead) => *ahead,
        None => *AHEAD.get_or_init({
            let ahead = ahead()?;
            move || ahead
        }),
    };
    Ok(shown.wrapping_add_signed(ahead.wrapping_neg()))
}

/// Returns by how many ticks the clock of this process is ahead of the machine's.
fn ahead() -> Result<i64> {
    let offsets = match read_proc_text("/proc/self/timens_offsets") {
        // The kernel has no time namespaces.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        read => read?,
    };
    let ticks = i64::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(i64::MAX);
    let ahead = parse(&offsets, ticks).ok_or(ErrorKind::InvalidData)?;
    // The file is about coming children. Kernels before 6.3 leave a program that unshare(2) has prepared in the namespace before.
    Ok(if ahead != 0 && is_inside()? { ahead } else { 0 })
}

fn is_inside() -> Result<bool> {
    let own = rustix::fs::stat("/proc/self/ns/time")?;
    let coming = rustix::fs::stat("/proc/self/ns/time_for_children")?;
    Ok((own.st_dev, own.st_ino) == (coming.st_dev, coming.st_ino))
}

/// Parses the line `boottime SECONDS NANOSECONDS`.
fn parse(offsets: &str, ticks: i64) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?;
    let mut numbers = line.split_ascii_whitespace().map(str::parse::<i64>);
    let (seconds, rest) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let of_rest = rest.checked_mul(ticks)?.div_euclid(1_000_000_000);
    seconds.checked_mul(ticks)?.checked_add(of_rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_namespace_is_taken_off() {
        let offsets = |boottime: &str| format!("monotonic           7         0\nboottime   {boottime}\n");
        for (boottime, expected) in [
            ("    0         0", Some(0)),
            (" 100000   20000000", Some(10_000_002)),
            ("    -2         0", Some(-200)),
            ("    -1 990000000", Some(-1)),
            ("    x         0", None),
            ("    1", None),
            ("9223372036854775807 0", None),
        ] {
            assert_eq!(parse(&offsets(boottime), 100), expected, "{boottime}");
        }
        assert_eq!(parse("monotonic 1 0\n", 100), None);
        assert!(is_inside().unwrap());
        assert_eq!(machine_ticks(5).unwrap(), machine_ticks(6).unwrap() - 1);
    }
}
