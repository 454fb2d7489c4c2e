//! Architectures whose calls this crate can number.

use crate::table::{NO, ROWS, Row};

/// ABI of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit x86 with 32-bit pointers: the kernel's audit reports `X86_64`, and a bit of the call's number differs.
    X32,
    /// 32-bit x86.
    X86,
    /// 64-bit Arm.
    Aarch64,
    /// 32-bit Arm, EABI.
    Arm,
}

/// Bit that is set in the number of every x32 call (`__X32_SYSCALL_BIT`).
pub(crate) const X32_BIT: u32 = 0x4000_0000;

impl Arch {
    /// Architecture that this crate was compiled for.
    pub const NATIVE: Self = if cfg!(target_arch = "x86_64") {
        Self::X86_64
    } else if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else if cfg!(target_arch = "x86") {
        Self::X86
    } else {
        Self::Arm // the build script refuses all other targets
    };

    /// Returns the `AUDIT_ARCH_…` value (linux/audit.h) in `struct seccomp_data`.
    #[must_use]
    pub const fn audit(self) -> u32 {
        match self {
            Self::X86_64 | Self::X32 => 0xc000_003e,
            Self::X86 => 0x4000_0003,
            Self::Aarch64 => 0xc000_00b7,
            Self::Arm => 0x4000_0028,
        }
    }

    /// Returns the name in a profile, `SCMP_ARCH_…`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "SCMP_ARCH_X86_64",
            Self::X32 => "SCMP_ARCH_X32",
            Self::X86 => "SCMP_ARCH_X86",
            Self::Aarch64 => "SCMP_ARCH_AARCH64",
            Self::Arm => "SCMP_ARCH_ARM",
        }
    }

    /// Returns the number of the call with that name, as the kernel shows it to a filter; `None` if there is no such
    /// call.
    #[must_use]
    pub fn number(self, name: &str) -> Option<u32> {
        row(name).and_then(|row| self.number_in(row))
    }

    /// Returns the names of all its calls.
    pub fn calls(self) -> impl Iterator<Item = &'static str> {
        let known = ROWS.iter().filter(move |row| self.number_in(row).is_some());
        known.map(|row| row.0)
    }

    /// Returns the name of a call that a filter or its listener sees as that number of the `AUDIT_ARCH_…`.
    #[must_use]
    pub fn call(audit: u32, number: u32) -> Option<&'static str> {
        let is_x32 = audit == Self::X32.audit() && number & X32_BIT != 0;
        let arch = match is_x32 {
            true => Self::X32,
            false => Self::ALL.into_iter().find(|arch| arch.audit() == audit)?,
        };
        let row = ROWS.iter().find(|row| arch.number_in(row) == Some(number))?;
        Some(row.0)
    }

    /// Returns the architectures of which the kernel of this one runs programs, this one first.
    pub fn family(self) -> impl Iterator<Item = Self> {
        let others = Self::ALL
            .into_iter()
            .filter(move |other| *other != self && other.shares_kernel_with(self));
        std::iter::once(self).chain(others)
    }

    /// Does the same as [`Arch::number`], for a row already found.
    pub(crate) fn number_in(self, row: &Row) -> Option<u32> {
        let [x86_64, x32, x86, aarch64, arm] = row.1;
        let number = match self {
            Self::X86_64 => x86_64,
            Self::X32 => x32,
            Self::X86 => x86,
            Self::Aarch64 => aarch64,
            Self::Arm => arm,
        };
        let bit = if matches!(self, Self::X32) { X32_BIT } else { 0 };
        (number != NO).then_some(number | bit)
    }

    /// Returns where private calls begin, far above every number that a new call could get.
    pub(crate) const fn private_calls(self) -> Option<u32> {
        match self {
            Self::Arm => Some(0x000f_0000), // __ARM_NR_BASE
            Self::X86_64 | Self::X32 | Self::X86 | Self::Aarch64 => None,
        }
    }

    /// True if arguments are 32 bits wide. Filters then ignore their upper halves in `struct seccomp_data`: a 64-bit
    /// process that enters the kernel through the 32-bit gate can leave bits there that the call itself never sees.
    pub(crate) const fn is_narrow(self) -> bool {
        matches!(self, Self::X86 | Self::Arm)
    }

    /// True if one kernel can run programs of both.
    pub(crate) const fn shares_kernel_with(self, other: Self) -> bool {
        matches!(self, Self::Aarch64 | Self::Arm) == matches!(other, Self::Aarch64 | Self::Arm)
    }

    /// Architectures that [`Arch::name`] can name.
    pub(crate) const ALL: [Self; 5] = [Self::X86_64, Self::X32, Self::X86, Self::Aarch64, Self::Arm];
}

/// Returns the table's row of a call.
pub(crate) fn row(name: &str) -> Option<&'static Row> {
    let index = ROWS.binary_search_by(|row| row.0.cmp(name)).ok()?;
    ROWS.get(index)
}

/// Architectures that the specification names but no kernel of this crate's targets can run: listing one has no
/// effect.
pub(crate) const FOREIGN: &[&str] = &[
    "SCMP_ARCH_LOONGARCH64",
    "SCMP_ARCH_M68K",
    "SCMP_ARCH_MIPS",
    "SCMP_ARCH_MIPS64",
    "SCMP_ARCH_MIPS64N32",
    "SCMP_ARCH_MIPSEL",
    "SCMP_ARCH_MIPSEL64",
    "SCMP_ARCH_MIPSEL64N32",
    "SCMP_ARCH_PARISC",
    "SCMP_ARCH_PARISC64",
    "SCMP_ARCH_PPC",
    "SCMP_ARCH_PPC64",
    "SCMP_ARCH_PPC64LE",
    "SCMP_ARCH_RISCV64",
    "SCMP_ARCH_S390",
    "SCMP_ARCH_S390X",
    "SCMP_ARCH_SH",
    "SCMP_ARCH_SHEB",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_names_back() {
        for arch in Arch::ALL {
            for name in arch.calls() {
                let number = arch.number(name).unwrap();
                let found = Arch::call(arch.audit(), number);
                // Some numbers have two names.
                assert_eq!(found.and_then(|found| arch.number(found)), Some(number), "{name}");
            }
        }
        assert_eq!(Arch::call(1, 0), None);
        assert_eq!(Arch::call(Arch::X86.audit(), 0xffff), None);
        let family: Vec<Arch> = Arch::X86_64.family().collect();
        assert_eq!(family, [Arch::X86_64, Arch::X32, Arch::X86]);
    }

    #[test]
    fn the_table_is_sorted_and_numbers_are_unique() {
        assert!(ROWS.is_sorted_by(|a, b| a.0 < b.0));
        for arch in Arch::ALL {
            let mut numbers: Vec<(u32, &str)> = ROWS
                .iter()
                .filter_map(|row| Some((arch.number_in(row)?, row.0)))
                .collect();
            numbers.sort_unstable();
            for pair in numbers.windows(2) {
                let alias = pair[0].1 == "arm_sync_file_range" && pair[1].1 == "sync_file_range2";
                assert!(pair[0].0 != pair[1].0 || alias, "{arch:?} {pair:?}");
            }
        }
    }

    #[test]
    fn known_numbers() {
        use Arch::{Aarch64, Arm, X32, X86, X86_64};
        for (arch, name, number) in [
            (X86_64, "read", Some(0)),
            (X86_64, "execve", Some(59)),
            (X86_64, "uretprobe", Some(335)),
            (X86_64, "io_uring_setup", Some(425)),
            (X86_64, "file_setattr", Some(469)),
            (X86_64, "mmap2", None),
            (X32, "read", Some(0x4000_0000)),
            (X32, "execve", Some(0x4000_0000 + 520)),
            (X32, "pwritev2", Some(0x4000_0000 + 547)),
            (X32, "_sysctl", None),
            (X86, "exit", Some(1)),
            (X86, "socketcall", Some(102)),
            (X86, "socket", Some(359)),
            (X86, "clock_gettime64", Some(403)),
            (X86, "accept", None),
            (Aarch64, "io_setup", Some(0)),
            (Aarch64, "openat", Some(56)),
            (Aarch64, "clone", Some(220)),
            (Aarch64, "mseal", Some(462)),
            (Aarch64, "open", None),
            (Arm, "exit", Some(1)),
            (Arm, "openat", Some(322)),
            (Arm, "arm_sync_file_range", Some(341)),
            (Arm, "sync_file_range2", Some(341)),
            (Arm, "set_tls", Some(0x000f_0005)),
            (Arm, "time", None),
            (X86_64, "", None),
            (X86_64, "no_such_call", None),
        ] {
            assert_eq!(arch.number(name), number, "{arch:?} {name}");
        }
    }

    #[test]
    fn newest_calls_have_one_number_everywhere() {
        let newest = [
            "cachestat",
            "fchmodat2",
            "map_shadow_stack",
            "futex_wake",
            "futex_wait",
            "futex_requeue",
            "statmount",
            "listmount",
            "lsm_get_self_attr",
            "lsm_set_self_attr",
            "lsm_list_modules",
            "mseal",
            "setxattrat",
            "getxattrat",
            "listxattrat",
            "removexattrat",
            "open_tree_attr",
            "file_getattr",
            "file_setattr",
        ];
        for (number, name) in (451..).zip(newest) {
            for arch in Arch::ALL {
                let base = if arch == Arch::X32 { X32_BIT } else { 0 };
                assert_eq!(arch.number(name), Some(base + number), "{arch:?} {name}");
            }
        }
    }
}
