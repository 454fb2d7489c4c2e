//! Options about images.

use tote_engine::{Digest, EngineError, Platform, WholeFile};
use tote_options::Parsed;

/// Writes an image's id to the file of `--iidfile`.
pub(crate) fn note_image(parsed: &Parsed, id: &Digest) -> Result<(), EngineError> {
    let Some(path) = parsed.value("iidfile") else {
        return Ok(());
    };
    Ok(WholeFile::put("iidfile", path.as_ref(), &id.to_string())?)
}

/// Parses `--platform`.
pub(crate) fn platform(parsed: &Parsed) -> Result<Option<Platform>, EngineError> {
    let text = parsed.value("platform");
    Ok(text.map(|text| text.to_string_lossy().parse()).transpose()?)
}

/// Parses `--platform`, where it selects platforms that an image in the store must have. It may hold several platforms
/// between commas, and be given several times.
pub(crate) fn platforms(parsed: &Parsed) -> Result<Vec<Platform>, EngineError> {
    let mut platforms = Vec::new();
    for text in parsed.all("platform") {
        for word in text.to_string_lossy().split(',') {
            platforms.push(word.trim().parse()?);
        }
    }
    Ok(platforms)
}

pub(crate) fn filters(parsed: &Parsed) -> Vec<String> {
    let given = parsed.all("filter");
    given.map(|text| text.to_string_lossy().into_owned()).collect()
}
