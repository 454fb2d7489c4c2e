//! `--egress-keep`: how long an address that a name has opened stays open after the lifetime of the answer.

use crate::value::parse_go_duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The longest time.
const LONGEST: Duration = Duration::from_secs(8760 * 3600);

/// The time for which an address of a name stays open, behind the lifetime of the answer and behind the last packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressKeep(pub Duration);

impl Default for EgressKeep {
    /// Programs keep addresses longer than their lifetimes say: a JVM for half a minute, pools of connections for minutes.
    fn default() -> Self {
        Self(Duration::from_secs(600))
    }
}

/// Why a text is not a value of `--egress-keep`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time for which an address stays open: give 0, or up to 8760h, such as 30m or 24h")]
pub struct EgressKeepError(String);

impl FromStr for EgressKeep {
    type Err = EgressKeepError;

    fn from_str(text: &str) -> Result<Self, EgressKeepError> {
        let read = parse_go_duration(text).ok();
        let time = read
            .and_then(|read| u64::try_from(read).ok())
            .map(Duration::from_nanos);
        let time = time.filter(|time| *time <= LONGEST);
        time.map(Self).ok_or_else(|| EgressKeepError(text.to_owned()))
    }
}

impl fmt::Display for EgressKeep {
    /// In seconds, as the option takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back() {
        for (text, seconds) in [("0", 0.0), ("90s", 90.0), ("1h30m", 5400.0), ("1.5s", 1.5)] {
            let read: EgressKeep = text.parse().unwrap();
            assert_eq!(read.0.as_secs_f64(), seconds, "{text}");
            assert_eq!(read.to_string().parse(), Ok(read));
        }
        for wrong in ["", "10", "-1s", "8761h", "forever"] {
            assert!(wrong.parse::<EgressKeep>().is_err(), "{wrong}");
        }
        assert_eq!(EgressKeep::default().to_string(), "600s");
    }
}
