//! Counters of the whole machine, around what is on the clock: daemons work for a container as well, and so does the kernel. On a
//! machine that does something else, they count that too.

use std::fs;

/// Files with the processor time of all processes: of control groups v1, under both of its usual names, and v2.
const PROCESSOR: [(&str, &str, u64); 3] = [
    ("/sys/fs/cgroup/cpuacct/cpuacct.usage", "", 1),
    ("/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", "", 1),
    ("/sys/fs/cgroup/cpu.stat", "usage_usec", 1000),
];

/// Counters at one moment; those that the machine does not have are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Processor time of all processes in nanoseconds.
    pub processor_ns: Option<u64>,
    /// Number of processes and threads that were made since the start of the machine.
    pub forks: Option<u64>,
}

impl Counters {
    /// Reads the counters.
    #[must_use]
    pub fn read() -> Self {
        let processor = PROCESSOR.iter().find_map(|(path, name, unit)| {
            let number = number_after(&fs::read_to_string(path).ok()?, name)?;
            number.checked_mul(*unit)
        });
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Counters {
            processor_ns: processor,
            forks: number_after(&stat, "processes"),
        }
    }

    /// Returns what was counted from `before` until now.
    #[must_use]
    pub fn since(&self, before: &Counters) -> Self {
        let counted = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        Counters {
            processor_ns: counted(self.processor_ns, before.processor_ns),
            forks: counted(self.forks, before.forks),
        }
    }
}

/// Returns the number of the line that begins with a name; of the first line if the name is empty.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let number = match name {
        "" => lines.next()?,
        name => lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?,
    };
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_name_or_a_line() {
        let stat = "cpu  1 2\nctxt 5\nprocesses 77\nprocs_running 2\n";
        assert_eq!(number_after(stat, "processes"), Some(77));
        assert_eq!(number_after(stat, "proc"), None);
        assert_eq!(number_after("1234\n", ""), Some(1234));
        assert_eq!(number_after("usage_usec x\n", "usage_usec"), None);
        assert_eq!(number_after("", ""), None);
    }

    #[test]
    fn what_one_moment_lacks_is_not_counted() {
        let (before, after) = (
            Counters {
                processor_ns: Some(5),
                forks: None,
            },
            Counters {
                processor_ns: Some(9),
                forks: Some(3),
            },
        );
        assert_eq!(
            after.since(&before),
            Counters {
                processor_ns: Some(4),
                forks: None
            }
        );
        assert_eq!(before.since(&after).processor_ns, None);
    }

    #[test]
    fn a_process_is_counted() {
        let before = Counters::read();
        let ran = std::process::Command::new("true").status().unwrap();
        assert!(ran.success());
        assert!(
            Counters::read()
                .since(&before)
                .forks
                .is_some_and(|forks| forks > 0)
        );
    }
}
