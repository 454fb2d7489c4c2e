//! `--jobs` of `build`.

use tote_options::{Parsed, UsageError};

/// Parses the number of stages that are built at once.
pub(crate) fn at_once(parsed: &Parsed) -> Result<usize, UsageError> {
    let Some(text) = parsed.text("jobs")? else {
        return Ok(std::thread::available_parallelism().map_or(1, usize::from));
    };
    match text.parse() {
        Ok(0) => Ok(usize::MAX),
        Ok(number) => Ok(number),
        Err(_) => Err(parsed.invalid(
            "jobs",
            std::ffi::OsStr::new(text),
            "it is a number of stages; 0 stands for no limit",
        )),
    }
}
