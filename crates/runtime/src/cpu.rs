//! Processor time of a container that has no cgroup to count it.

use rustix::param::clock_ticks_per_second;
use std::time::Duration;

/// Upper bound of the processes that are counted: a container without a cgroup may have any number.
const MOST: usize = 10_000;

/// Returns the processor time of a process, of all its descendants, and of those of them that have been waited for.
///
/// Time of children is lost if their parent ignores their ends; a cgroup would count it.
pub(crate) fn of_tree(pid: u32) -> Duration {
    let (mut ticks, mut pids, mut seen) = (0u64, vec![pid], 0);
    while let Some(pid) = pids.pop() {
        seen += 1;
        if seen > MOST {
            break;
        }
        ticks = ticks.saturating_add(ticks_of(&read(&format!("/proc/{pid}/stat"))));
        let children = read(&format!("/proc/{pid}/task/{pid}/children"));
        pids.extend(
            children
                .split_whitespace()
                .filter_map(|child| child.parse::<u32>().ok()),
        );
    }
    Duration::from_millis(ticks.saturating_mul(1000) / clock_ticks_per_second().max(1))
}

fn read(path: &str) -> String {
    // absence: the figure is read again after a while
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Adds up utime, stime, cutime and cstime of `/proc/PID/stat`; the second field is a name that may contain anything.
fn ticks_of(stat: &str) -> u64 {
    let (_, rest) = stat.rsplit_once(") ").unwrap_or_default();
    rest.split(' ')
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fields_count() {
        assert_eq!(
            ticks_of("12 (a) b) (c) S 1 1 1 0 -1 4 0 0 0 0 10 20 3 4 20 0 1 0 98765 1 2"),
            37
        );
        assert_eq!(ticks_of(""), 0);
        assert_eq!(
            ticks_of("1 (x) S 1 1 1 0 -1 4 0 0 0 0 18446744073709551615 1 1 1"),
            u64::MAX
        );
    }
}
