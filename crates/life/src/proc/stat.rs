//! `/proc/PID/stat` and `/proc/PID/status`, proc(5).

/// A process, as `stat` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The name of the program, 15 bytes of it.
    pub comm: String,
    /// `R`, `S`, `Z` and so on.
    pub state: String,
    /// Parent.
    pub ppid: u32,
    /// Process group.
    pub pgid: u32,
    /// Session.
    pub sid: u32,
    /// The terminal's device number, 0 for none.
    pub tty: u32,
    /// The group in the foreground of the terminal; -1 without one.
    pub foreground: i64,
    /// Ticks in user mode and in the kernel.
    pub ticks: u64,
    /// Time of children that have been waited for.
    pub children_ticks: u64,
    /// Priority, as the kernel counts.
    pub priority: i64,
    /// Nice value.
    pub nice: i64,
    /// Number of threads.
    pub threads: u64,
    /// Ticks since the machine started.
    pub start_time: u64,
    /// Bytes of address space.
    pub vsize: u64,
    /// Pages in memory.
    pub rss: u64,
    /// Processor of the last run.
    pub processor: u64,
}

impl Stat {
    /// The second field is a name in parentheses that may contain anything.
    pub fn parse(text: &str) -> Option<Self> {
        let (start, rest) = text.rsplit_once(") ")?;
        let (_, comm) = start.split_once(" (")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // By the numbers of proc(5): the state is the third.
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |at: usize| field(at)?.parse::<u64>().ok();
        let signed = |at: usize| field(at)?.parse::<i64>().ok();
        let small = |at: usize| field(at)?.parse::<u32>().ok();
        Some(Self {
            comm: comm.to_owned(),
            state: field(3)?.to_owned(),
            ppid: small(4)?,
            pgid: small(5)?,
            sid: small(6)?,
            tty: signed(7)? as u32,
            foreground: signed(8)?,
            ticks: number(14)?.saturating_add(number(15)?),
            children_ticks: signed(16)?.saturating_add(signed(17)?).unsigned_abs(),
            priority: signed(18)?,
            nice: signed(19)?,
            threads: number(20)?,
            start_time: number(22)?,
            vsize: number(23)?,
            rss: number(24)?,
            processor: number(39).unwrap_or(0),
        })
    }

    /// The terminal's name as ps(1) shows it.
    pub fn terminal(&self) -> String {
        let (major, minor) = (
            (self.tty >> 8) & 0xfff,
            (self.tty & 0xff) | ((self.tty >> 12) & 0xfff00),
        );
        match major {
            0 => "?".to_owned(),
            4 if minor < 64 => format!("tty{minor}"),
            4 => format!("ttyS{}", minor - 64),
            5 if minor == 1 => "console".to_owned(),
            136..=143 => format!("pts/{}", (major - 136) * 256 + minor),
            _ => format!("{major}:{minor}"),
        }
    }
}

/// A process, as `status` describes it; an id of four is the effective one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Real and effective user.
    pub uid: (u32, u32),
    /// Real and effective group.
    pub gid: (u32, u32),
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Its numbers, from the namespace of the reader inwards.
    pub pids: Vec<u32>,
    /// Inheritable, permitted, effective, bounding and ambient capabilities.
    pub capabilities: [u64; 5],
    /// 0 for none, 1 for strict, 2 for a filter.
    pub seccomp: u32,
    /// Bytes of memory that are locked.
    pub locked: u64,
}

impl Status {
    /// A missing line counts as 0.
    pub fn parse(text: &str) -> Self {
        let mut status = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let numbers = || {
                value
                    .split_whitespace()
                    .filter_map(|number| number.parse::<u32>().ok())
            };
            let two = || (numbers().next().unwrap_or(0), numbers().nth(1).unwrap_or(0));
            let mask = || u64::from_str_radix(value.trim(), 16).unwrap_or(0);
            match name {
                "Uid" => status.uid = two(),
                "Gid" => status.gid = two(),
                "Groups" => status.groups = numbers().collect(),
                "NSpid" => status.pids = numbers().collect(),
                "CapInh" => status.capabilities[0] = mask(),
                "CapPrm" => status.capabilities[1] = mask(),
                "CapEff" => status.capabilities[2] = mask(),
                "CapBnd" => status.capabilities[3] = mask(),
                "CapAmb" => status.capabilities[4] = mask(),
                "Seccomp" => status.seccomp = two().0,
                "VmLck" => status.locked = u64::from(two().0) * 1024,
                _ => {}
            }
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_stat() {
        let text = "12 (a) b) (c) S 1 2 3 34817 5 4 0 0 0 0 10 20 3 4 20 -5 7 0 98765 4096 2 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state.as_str()), ("a) b) (c", "S"));
        assert_eq!((stat.ppid, stat.pgid, stat.sid), (1, 2, 3));
        assert_eq!((stat.ticks, stat.children_ticks, stat.nice), (30, 7, -5));
        assert_eq!(
            (stat.threads, stat.start_time, stat.vsize, stat.rss),
            (7, 98765, 4096, 2)
        );
        assert_eq!(stat.terminal(), "pts/1");
        for bad in [
            "",
            "1 (x)",
            "1 (x) S",
            "1 (x) S 1 1 1 0 -1 4 0 0 0 0 x 2 3 4 20 0 1 0 9 1 2",
        ] {
            assert_eq!(Stat::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn terminals() {
        for (tty, name) in [
            (0, "?"),
            (0x0401, "tty1"),
            (0x0440, "ttyS0"),
            (0x8900, "pts/256"),
            (0x0501, "console"),
        ] {
            let stat = Stat {
                tty,
                ..Stat::default()
            };
            assert_eq!(stat.terminal(), name);
        }
    }

    #[test]
    fn lines_of_status() {
        let text = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \nNSpid:\t42\t1\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n";
        let status = Status::parse(text);
        assert_eq!((status.uid, status.gid), ((1, 2), (5, 6)));
        assert_eq!((status.groups, status.pids), (vec![9, 10], vec![42, 1]));
        assert_eq!((status.capabilities[2], status.seccomp), (0xa804_25fb, 2));
        assert_eq!(Status::parse("nonsense"), Status::default());
    }
}
