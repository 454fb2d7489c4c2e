/// Why a text is not a number of processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpusError {
    /// Not a decimal number.
    #[error("failed to parse {0:?} as a rational number: give processors as a decimal, such as 1.5")]
    Syntax(String),
    /// More than nine digits after the point.
    #[error("value is too precise: at most nine digits may stand behind the point")]
    TooPrecise,
    /// Less than a hundredth of a processor, which the kernel cannot account, or more than the maximum.
    #[error("range of CPUs is from 0.01 to 9000000000, or 0 for no limit")]
    Range,
}

const NANO: u64 = 1_000_000_000;
const MOST: u64 = 9_000_000_000;

/// Parses `--cpus`: a decimal number of processors. Returns billionths of a processor; 0 means no limit.
///
/// # Errors
/// [`CpusError`], worded as docker does.
pub fn parse_cpus(text: &str) -> Result<u64, CpusError> {
    let syntax = || CpusError::Syntax(text.to_owned());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty()
        || !whole
            .bytes()
            .chain(fraction.bytes())
            .all(|byte| byte.is_ascii_digit())
    {
        return Err(syntax());
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 9 {
        return Err(CpusError::TooPrecise);
    }
    let whole: u64 = match whole.trim_start_matches('0') {
        "" => 0,
        digits => digits.parse().map_err(|_| CpusError::Range)?,
    };
    let billionths: u64 = format!("{fraction:0<9}").parse().map_err(|_| syntax())?;
    if whole > MOST {
        return Err(CpusError::Range);
    }
    let nano = whole
        .checked_mul(NANO)
        .and_then(|nano| nano.checked_add(billionths))
        .ok_or(CpusError::Range)?;
    if nano != 0 && nano < NANO / 100 {
        return Err(CpusError::Range);
    }
    Ok(nano)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn decimals() {
        for (text, nano) in [
            ("1", 1_000_000_000),
            ("1.5", 1_500_000_000),
            (".5", 500_000_000),
            ("2.", 2_000_000_000),
            ("0", 0),
            ("0.01", 10_000_000),
            ("0.123456789000", 123_456_789),
            ("0004", 4_000_000_000),
        ] {
            assert_eq!(parse_cpus(text), Ok(nano), "{text}");
        }
        for text in ["", ".", "-1", "1e3", "one", "1.5.5", " 1", "1/2", "0x1"] {
            assert!(matches!(parse_cpus(text), Err(CpusError::Syntax(_))), "{text}");
        }
        assert_eq!(parse_cpus("0.0123456789"), Err(CpusError::TooPrecise));
        for text in ["0.001", "99999999999", "999999999999999999999999"] {
            assert_eq!(parse_cpus(text), Err(CpusError::Range), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _parsed = parse_cpus(&text);
        }

        #[test]
        fn what_is_printed_reads_back(whole in 1u64..10_000, nano in 0u64..1_000_000_000) {
            prop_assert_eq!(parse_cpus(&format!("{whole}.{nano:09}")), Ok(whole * NANO + nano));
        }
    }
}
