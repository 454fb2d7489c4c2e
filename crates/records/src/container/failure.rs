//! An error on its way to another process, and as a line.

use super::error::{LifeError, StartError};
use crate::EngineError;

/// Formats an error for another process: docker's exit code, the line, and behind a zero the hint.
pub fn failure_line(error: &EngineError) -> Vec<u8> {
    let mut text = vec![error.exit_code()];
    text.extend(tote_sys::chain(error).bytes());
    text.push(0);
    text.extend(error.hint().unwrap_or_default().bytes());
    text
}

/// Parses such an error.
pub fn listen_failure(text: &[u8]) -> LifeError {
    let Some((code, rest)) = text.split_first() else {
        return LifeError::Start(StartError::Unborn);
    };
    let text = String::from_utf8_lossy(rest);
    let (text, hint) = text.split_once('\0').unwrap_or((&text, ""));
    LifeError::Start(StartError::Launch {
        text: text.to_owned(),
        hint: Some(hint.to_owned()).filter(|hint| !hint.is_empty()),
        code: *code,
    })
}
