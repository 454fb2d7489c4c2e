use std::fmt;
use std::str::FromStr;

/// A value of `--ulimit`, such as `nofile=1024:2048`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ulimit {
    /// The lower-case name, such as `nofile`; the kernel's has `RLIMIT_` before it and upper case.
    pub name: &'static str,
    /// The value in force, in the unit of setrlimit(2); `u64::MAX` means no limit.
    pub soft: u64,
    /// The ceiling; `u64::MAX` means no limit.
    pub hard: u64,
}

/// Why a text is not a `--ulimit`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UlimitError {
    /// No `=`.
    #[error("invalid ulimit argument: {0}: give TYPE=SOFT[:HARD], such as nofile=1024:2048")]
    Syntax(String),
    /// A limit that setrlimit(2) does not have, or `as`, which docker refuses too.
    #[error("invalid ulimit type: {name}: give one of {}", TYPES.join(", "))]
    Type {
        /// The type as written.
        name: String,
    },
    /// Not a number.
    #[error("invalid ulimit value: {0:?}: give a whole number, or -1 for no limit")]
    Value(String),
    /// The soft limit is above the hard one.
    #[error("ulimit soft limit must be less than or equal to hard limit: {soft} > {hard}")]
    Order {
        /// The soft limit as written; -1 means no limit.
        soft: i64,
        /// The hard limit as written; -1 means no limit.
        hard: i64,
    },
}

const TYPES: [&str; 15] = [
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];

impl Ulimit {
    /// Returns the kernel's name, such as `RLIMIT_NOFILE`.
    #[must_use]
    pub fn kernel_name(&self) -> String {
        format!("RLIMIT_{}", self.name.to_ascii_uppercase())
    }
}

impl FromStr for Ulimit {
    type Err = UlimitError;

    fn from_str(text: &str) -> Result<Self, UlimitError> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| UlimitError::Syntax(text.to_owned()))?;
        let name = TYPES
            .into_iter()
            .find(|known| *known == name)
            .ok_or_else(|| UlimitError::Type {
                name: name.to_owned(),
            })?;
        let (soft, hard) = value.split_once(':').unwrap_or((value, value));
        let (soft, hard) = (limit(soft)?, limit(hard)?);
        let [soft_value, hard_value] = [soft, hard].map(|limit| u64::try_from(limit).unwrap_or(u64::MAX));
        if soft_value > hard_value {
            return Err(UlimitError::Order { soft, hard });
        }
        Ok(Self {
            name,
            soft: soft_value,
            hard: hard_value,
        })
    }
}

fn limit(text: &str) -> Result<i64, UlimitError> {
    text.parse()
        .ok()
        .filter(|limit| *limit >= -1)
        .ok_or_else(|| UlimitError::Value(text.to_owned()))
}

impl fmt::Display for Ulimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [soft, hard] = [self.soft, self.hard].map(|limit| i64::try_from(limit).unwrap_or(-1));
        write!(f, "{}={soft}:{hard}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn table() {
        let parse = |text: &str| text.parse::<Ulimit>();
        let limits = |text: &str| parse(text).map(|ulimit| (ulimit.soft, ulimit.hard));
        assert_eq!(limits("nofile=512:1024"), Ok((512, 1024)));
        assert_eq!(limits("nofile=1024"), Ok((1024, 1024)));
        assert_eq!(limits("core=-1"), Ok((u64::MAX, u64::MAX)));
        assert_eq!(limits("core=0:-1"), Ok((0, u64::MAX)));
        assert_eq!(parse("stack=1").unwrap().kernel_name(), "RLIMIT_STACK");
        for (text, part) in [
            ("nofile", "TYPE=SOFT"),
            ("as=1", "invalid ulimit type: as"),
            ("NOFILE=1", "invalid ulimit type"),
            ("=1", "invalid ulimit type"),
            ("nofile=", "invalid ulimit value"),
            ("nofile=1:", "invalid ulimit value"),
            ("nofile=1:2:3", "invalid ulimit value"),
            ("nofile=-2", "invalid ulimit value"),
            ("nofile=9223372036854775808", "invalid ulimit value"),
            ("nofile=2:1", "2 > 1"),
            ("nofile=-1:1", "-1 > 1"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _parsed = text.parse::<Ulimit>();
        }

        #[test]
        fn what_is_printed_reads_back(kind in 0..TYPES.len(), soft in 0i64.., more in 0i64..) {
            let ulimit = Ulimit { name: TYPES[kind], soft: soft as u64, hard: soft.saturating_add(more) as u64 };
            prop_assert_eq!(ulimit.to_string().parse(), Ok(ulimit));
        }
    }
}
