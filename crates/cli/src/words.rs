//! The words of a command line, as texts.

use tote_options::Parsed;

/// Returns the words that are not options.
pub(crate) fn words(parsed: &Parsed) -> Vec<String> {
    let words = parsed.positionals().iter();
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns every value of an option that may be given several times.
pub(crate) fn values(parsed: &Parsed, option: &str) -> Vec<String> {
    let values = parsed.all(option);
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}
