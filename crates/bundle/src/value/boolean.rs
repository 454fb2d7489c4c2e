/// Why a text is not a truth value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid boolean value: must be true or false")]
pub struct BooleanError;

/// Parses `true` or `false` in the spellings that Go's flag packages take.
///
/// # Errors
/// [`BooleanError`] for any other text.
pub fn parse_boolean(text: &str) -> Result<bool, BooleanError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(BooleanError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for text in ["true", "TRUE", "1", "t"] {
            assert_eq!(parse_boolean(text), Ok(true), "{text}");
        }
        for text in ["false", "F", "0"] {
            assert_eq!(parse_boolean(text), Ok(false), "{text}");
        }
        for text in ["", "yes", "tRue", " true"] {
            assert_eq!(parse_boolean(text), Err(BooleanError), "{text}");
        }
    }
}
