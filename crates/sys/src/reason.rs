//! Texts of errors: of an errno, and of an error with its causes.

use crate::Errno;
use std::error::Error;

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

/// Joins an error and its causes as people read them: `cannot open the log: No such file or directory (os error 2)`.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    chain_with(error, ToString::to_string)
}

/// Does [`chain`], with the causes in the given words.
#[must_use]
pub fn chain_with(error: &dyn Error, words: impl Fn(&(dyn Error + 'static)) -> String) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {}", words(error));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Closed(&'static str, Option<Box<Closed>>);

    impl std::fmt::Display for Closed {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "cannot open the {}", self.0)
        }
    }

    impl Error for Closed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn an_error_is_read_with_its_causes() {
        assert_eq!(chain(&Closed("door", None)), "cannot open the door");
        let error = Closed("house", Some(Box::new(Closed("door", None))));
        assert_eq!(chain(&error), "cannot open the house: cannot open the door");
        let loud = chain_with(&error, |cause| cause.to_string().to_uppercase());
        assert_eq!(loud, "cannot open the house: CANNOT OPEN THE DOOR");
    }

    #[test]
    fn words_alone() {
        assert_eq!(reason(Errno::PERM), "operation not permitted");
        assert_eq!(reason(Errno::NOENT), "no such file or directory");
    }
}
