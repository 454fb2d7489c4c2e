//! `--net-rate` and `--net-burst`: how much a container may send and get through its networks.

use crate::value::{SizeError, parse_decimal_size, parse_size};

/// Slowest rate that is accepted, in bytes per second: a packet takes some seconds.
const LEAST_RATE: u64 = 1000;

/// Longest burst, in bytes: more than the kernel's token bucket counts.
const MOST_BURST: u64 = 1 << 31;

/// Why a text is not a rate or a burst.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Neither bytes nor bits.
    #[error(
        "invalid rate '{0}': give bytes per second, such as 512k or 2mb, or bits per second, such as 10mbit"
    )]
    Form(String),
    /// Slower than the kernel's clock is good for.
    #[error("invalid rate '{0}': the slowest is 1000 bytes per second, 8kbit")]
    Slow(String),
    /// A burst that no bucket holds.
    #[error("invalid burst '{0}': give 1 to 2147483648 bytes, such as 64k")]
    Burst(String),
    /// A burst without a rate.
    #[error("invalid burst: there is no --net-rate that it could be of")]
    NoRate,
}

/// Limit on the traffic of each of a container's links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetLimit {
    /// `--net-rate`: bytes per second in each direction; `None` means no limit.
    pub rate: Option<u64>,
    /// `--net-burst`: bytes that may pass at once after a pause; `None` follows from the rate.
    pub burst: Option<u64>,
}

impl NetLimit {
    /// Applies the option; returns whether its name belongs to this group.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, RateError> {
        match name {
            "net-rate" => self.rate = Some(parse_rate(value)?),
            "net-burst" => self.burst = Some(parse_burst(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn parse_rate(text: &str) -> Result<u64, RateError> {
    let form = |_: SizeError| RateError::Form(text.to_owned());
    let lower = text.to_ascii_lowercase();
    let rate = match lower.strip_suffix("bit") {
        Some(bits) => parse_decimal_size(bits).map_err(form)? / 8,
        None => parse_size(text).map_err(form)?,
    };
    if rate < LEAST_RATE {
        return Err(RateError::Slow(text.to_owned()));
    }
    Ok(rate)
}

fn parse_burst(text: &str) -> Result<u64, RateError> {
    let burst = parse_size(text).ok();
    burst
        .filter(|bytes| (1..=MOST_BURST).contains(bytes))
        .ok_or_else(|| RateError::Burst(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bytes_or_bits() {
        for (text, bytes) in [
            ("8kbit", 1000),
            ("10mbit", 1_250_000),
            ("10Mbit", 1_250_000),
            ("1.5gbit", 187_500_000),
            ("80000bit", 10_000),
            ("512k", 524_288),
            ("1mb", 1_048_576),
        ] {
            assert_eq!(parse_rate(text), Ok(bytes), "{text}");
        }
        for text in ["", "bit", "fast", "10mbps", "-1", "mbit"] {
            assert!(matches!(parse_rate(text), Err(RateError::Form(_))), "{text}");
        }
        assert_eq!(parse_rate("7kbit"), Err(RateError::Slow("7kbit".to_owned())));
    }

    #[test]
    fn bursts_fit_into_a_bucket() {
        assert_eq!(parse_burst("64k"), Ok(65_536));
        for text in ["0", "3g", "x"] {
            assert_eq!(parse_burst(text), Err(RateError::Burst(text.to_owned())));
        }
    }
}
