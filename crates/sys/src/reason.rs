//! Texts for an errno.

use crate::Errno;

/// Returns the words of strerror(3) as they read after a colon: `no such file or directory`. Programs that call an
/// OCI runtime look for exactly this form.
#[must_use]
pub fn reason(errno: Errno) -> String {
    let text = errno.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut letters = words.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_alone() {
        assert_eq!(reason(Errno::PERM), "operation not permitted");
        assert_eq!(reason(Errno::NOENT), "no such file or directory");
    }
}
