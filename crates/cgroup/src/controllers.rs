use std::fmt;

/// A set of controllers, whatever version of cgroups they live in.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Controllers(u16);

/// (bit, v1 name, v2 name); v2 has no file system of its own for some, hence the empty names.
const NAMES: [(u16, &str, &str); 14] = [
    (1, "cpu", "cpu"),
    (1 << 1, "cpuacct", ""),
    (1 << 2, "cpuset", "cpuset"),
    (1 << 3, "memory", "memory"),
    (1 << 4, "blkio", "io"),
    (1 << 5, "pids", "pids"),
    (1 << 6, "devices", ""),
    (1 << 7, "freezer", ""),
    (1 << 8, "hugetlb", "hugetlb"),
    (1 << 9, "rdma", "rdma"),
    (1 << 10, "net_cls", ""),
    (1 << 11, "net_prio", ""),
    (1 << 12, "perf_event", ""),
    (1 << 13, "misc", "misc"),
];

impl Controllers {
    /// Empty set.
    pub const NONE: Self = Self(0);
    /// Processor time.
    pub const CPU: Self = Self(1);
    /// Accounting of processor time; v2 always has it.
    pub const CPUACCT: Self = Self(1 << 1);
    /// Processors and memory nodes.
    pub const CPUSET: Self = Self(1 << 2);
    /// Memory and swap.
    pub const MEMORY: Self = Self(1 << 3);
    /// Block devices: `blkio` in v1, `io` in v2.
    pub const IO: Self = Self(1 << 4);
    /// Number of processes.
    pub const PIDS: Self = Self(1 << 5);
    /// Access to devices; in v2 an eBPF program.
    pub const DEVICES: Self = Self(1 << 6);
    /// Suspension; v2 has it without a controller.
    pub const FREEZER: Self = Self(1 << 7);
    /// Huge pages.
    pub const HUGETLB: Self = Self(1 << 8);
    /// RDMA handles and objects.
    pub const RDMA: Self = Self(1 << 9);
    /// Class of network packets (v1).
    pub const NET_CLS: Self = Self(1 << 10);
    /// Priority by network interface (v1).
    pub const NET_PRIO: Self = Self(1 << 11);
    /// perf(1) by cgroup; v2 has it without enabling.
    pub const PERF_EVENT: Self = Self(1 << 12);
    /// Scalar resources of hardware, such as SEV identifiers.
    pub const MISC: Self = Self(1 << 13);

    /// Returns the controller with this name of the kernel, in either version.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name.is_empty() {
            return None;
        }
        NAMES
            .iter()
            .find(|(_, v1, v2)| *v1 == name || *v2 == name)
            .map(|&(bit, _, _)| Self(bit))
    }

    /// Returns every controller named in `list`; unknown words, such as mount options, are ignored.
    #[must_use]
    pub fn from_list(list: &str, separator: char) -> Self {
        list.split(separator)
            .filter_map(|word| Self::from_name(word.trim()))
            .fold(Self::NONE, Self::union)
    }

    /// True if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if every controller of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if the sets share a controller.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the controllers that both sets have.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns this set without the other's.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the number of controllers.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns their names in v1.
    pub fn v1_names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |n| self.0 & n.0 != 0).map(|n| n.1)
    }

    /// Returns the names that `cgroup.subtree_control` takes; those that v2 has without a controller are left out.
    pub fn v2_names(self) -> impl Iterator<Item = &'static str> {
        NAMES
            .iter()
            .filter(move |n| self.0 & n.0 != 0 && !n.2.is_empty())
            .map(|n| n.2)
    }

    /// Returns the controllers that must be enabled in the parent's `cgroup.subtree_control`.
    #[must_use]
    pub fn enableable(self) -> Self {
        let mask = NAMES
            .iter()
            .filter(|n| !n.2.is_empty())
            .fold(0, |mask, n| mask | n.0);
        Self(self.0 & mask)
    }
}

impl fmt::Display for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.v1_names().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Controllers({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_names_are_one_controller() {
        assert_eq!(Controllers::from_name("blkio"), Controllers::from_name("io"));
        assert_eq!(Controllers::from_name(""), None);
        assert_eq!(Controllers::from_name("xattr"), None);
        let both = Controllers::from_list("rw,cpu,cpuacct,xattr", ',');
        assert_eq!(both, Controllers::CPU.union(Controllers::CPUACCT));
        assert_eq!(both.to_string(), "cpu,cpuacct");
        assert_eq!(both.enableable(), Controllers::CPU);
        let v2 = Controllers::IO.union(Controllers::DEVICES);
        assert_eq!(v2.v2_names().collect::<Vec<_>>(), ["io"]);
    }
}
