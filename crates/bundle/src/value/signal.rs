use std::fmt;
use std::str::FromStr;

/// A signal by its number: 1 to 64, as every architecture but alpha, mips, parisc and sparc numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signal(u8);

/// Why a text is not a signal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid signal: {0}: give a name such as TERM or SIGTERM, or a number from 1 to 64")]
pub struct SignalError(pub String);

/// Names in the order of their numbers, from 1.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
/// Real-time signals as the C libraries number them: the kernel's range begins two earlier, and the libraries
/// reserve those two.
const RTMIN: u8 = 34;
const RTMAX: u8 = 64;

impl Signal {
    /// SIGTERM, the default of `stop` if neither the image nor the user names another.
    pub const TERM: Self = Self(15);
    /// SIGKILL.
    pub const KILL: Self = Self(9);

    /// Returns the number, 1 to 64.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl FromStr for Signal {
    type Err = SignalError;

    fn from_str(text: &str) -> Result<Self, SignalError> {
        let error = || SignalError(text.to_owned());
        if let Ok(number) = text.parse::<u8>() {
            return (1..=RTMAX)
                .contains(&number)
                .then_some(Self(number))
                .ok_or_else(error);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let offset = |digits: &str| {
            digits
                .parse::<u8>()
                .ok()
                .filter(|offset| *offset <= RTMAX - RTMIN)
        };
        let number = match name {
            "IOT" => Some(6),
            "CLD" => Some(17),
            "POLL" => Some(29),
            "RTMIN" => Some(RTMIN),
            "RTMAX" => Some(RTMAX),
            _ => {
                if let Some(digits) = name.strip_prefix("RTMIN+") {
                    offset(digits).map(|offset| RTMIN + offset)
                } else if let Some(digits) = name.strip_prefix("RTMAX-") {
                    offset(digits).map(|offset| RTMAX - offset)
                } else {
                    (1..)
                        .zip(NAMES)
                        .find(|(_, known)| *known == name)
                        .map(|(number, _)| number)
                }
            }
        };
        number.map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(usize::from(self.0) - 1) {
            Some(name) => write!(f, "SIG{name}"),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn names_and_numbers() {
        for (text, number) in [
            ("TERM", 15),
            ("SIGTERM", 15),
            ("sigkill", 9),
            ("usr1", 10),
            ("9", 9),
            ("64", 64),
            ("SYS", 31),
            ("IOT", 6),
            ("RTMIN", 34),
            ("SIGRTMIN+3", 37),
            ("RTMAX-1", 63),
        ] {
            assert_eq!(text.parse::<Signal>().map(Signal::number), Ok(number), "{text}");
        }
        for text in [
            "",
            "0",
            "65",
            "-9",
            "SIG",
            "SIGSIGTERM",
            "TERMS",
            "RTMIN+31",
            "RTMIN+x",
            "300",
        ] {
            assert_eq!(text.parse::<Signal>(), Err(SignalError(text.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _parsed = text.parse::<Signal>();
        }

        #[test]
        fn what_is_printed_reads_back(number in 1u8..=64) {
            prop_assert_eq!(Signal(number).to_string().parse(), Ok(Signal(number)));
        }
    }
}
