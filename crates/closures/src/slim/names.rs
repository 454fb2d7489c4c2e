//! Names of the smaller image and of its whole.

use super::SlimRequest;
use super::fallback::WHOLE_ENDING;
use crate::{EngineError, Home};
use tote_image::Reference;
use tote_images::ImagesError;
use tote_slim::Report;

/// Ending of the name of a smaller image, where none is given.
const ENDING: &str = ".slim";

/// The name of the result.
pub(super) fn name(request: &SlimRequest) -> Result<Reference, EngineError> {
    let name = match &request.name {
        Some(name) => Reference::parse(name)?,
        None => {
            let given = Reference::parse(&request.name_of_image)?;
            if request.from_misses {
                return Ok(given);
            }
            let version = match given.digest() {
                Some(_) => "latest".to_owned(),
                None => given.version(),
            };
            Reference::parse(&format!("{}{ENDING}:{version}", given.familiar_name()))?
        }
    };
    if name.digest().is_some() {
        return Err(ImagesError::TagIsDigest(name.familiar()).into());
    }
    Ok(name)
}

/// Names both images: the whole first, so that a smaller image with a name has it.
pub(super) fn publish(home: &Home, report: &mut Report, name: &Reference) -> Result<(), EngineError> {
    if !report.fat_id.is_empty() {
        let whole = whole_name(name);
        tote_images::tag(home, &report.fat_id, &whole)?;
        report.fat = Reference::parse(&whole)?.familiar();
    }
    tote_images::tag(home, &report.slim_id, &name.familiar())?;
    Ok(())
}

/// Returns the name of the image with everything beside a smaller one of that name.
pub(super) fn whole_name(name: &Reference) -> String {
    format!("{}{WHOLE_ENDING}:{}", name.familiar_name(), name.version())
}
