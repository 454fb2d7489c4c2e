/// Why a text is not a list of processors or memory nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid list near {0:?}: give numbers and ranges, such as 0-3,7")]
pub struct CpusetError(pub String);

/// Maximum number: more than any kernel can be built for, so a number above it is a typing error.
const MOST: u32 = 65_535;

/// Checks a list in the kernel's own form (`0-3,7`) and returns it as written.
///
/// # Errors
/// [`CpusetError`] holds the wrong part.
pub fn parse_cpuset(text: &str) -> Result<String, CpusetError> {
    let number = |text: &str| -> Option<u32> {
        (text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse().ok())
            .flatten()
            .filter(|number| *number <= MOST)
    };
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => {}
            _ => return Err(CpusetError(part.to_owned())),
        }
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for text in ["0", "0-3", "0-3,7", "7,0"] {
            assert_eq!(parse_cpuset(text).as_deref(), Ok(text));
        }
        for (text, part) in [
            ("", ""),
            ("a", "a"),
            ("3-1", "3-1"),
            ("0,", ""),
            ("0-1-2", "0-1-2"),
            ("+1", "+1"),
            ("99999999999", "99999999999"),
        ] {
            assert_eq!(parse_cpuset(text), Err(CpusetError(part.to_owned())), "{text}");
        }
    }
}
