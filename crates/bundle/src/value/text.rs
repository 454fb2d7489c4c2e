/// Why a text is refused where any other is taken: it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must not be empty")]
pub struct EmptyError;

/// Returns the text, unless it is empty.
pub(crate) fn not_empty(text: &str) -> Result<String, EmptyError> {
    if text.is_empty() {
        Err(EmptyError)
    } else {
        Ok(text.to_owned())
    }
}
