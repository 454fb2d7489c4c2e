//! Descriptors that the caller passes on to the container: `--preserve-fds`, and those of socket activation.

use crate::OciError;
use tote_runtime::Listen;

/// Returns how many descriptors from 3 on the program keeps. Call it before anything is opened.
///
/// # Errors
/// A descriptor to be kept is not open.
pub(crate) fn count(preserve: u32, listen: &Listen) -> Result<u32, OciError> {
    let count = preserve.saturating_add(listen.count());
    match tote_runtime::missing_descriptor(count) {
        None => Ok(count),
        Some(number) => Err(OciError::Usage(format!(
            "please check that preserved-fd {} (of {preserve}) is present",
            number - 2
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_kept_must_be_there() {
        assert_eq!(count(0, &Listen::default()).unwrap(), 0);
        let error = count(5000, &Listen::default()).unwrap_err().to_string();
        assert!(error.contains("preserved-fd"), "{error}");
    }
}
