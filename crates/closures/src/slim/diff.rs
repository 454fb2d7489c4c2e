//! Differences of two images.

use crate::changes::Changed;
use crate::rootfs::Source;
use crate::{EngineError, Home};
use tote_archive::compare;
use tote_bundle::Image;

/// Tells what another image has, lacks or has changed of an image. The process must be in the right namespace:
/// [`tote_images::enter_ids`].
///
/// # Errors
/// [`EngineError`].
pub fn slim_diff(
    home: &Home,
    image: &str,
    other: &str,
    each: &mut dyn FnMut(Changed),
) -> Result<(), EngineError> {
    let open = |name: &str| Source::open(home, &Image::Stored(name.to_owned()));
    let (image, other) = (open(image)?, open(other)?);
    for found in compare(image.dir()?, other.dir()?).without_links() {
        let found = found?;
        if !found.passage {
            each(Changed {
                status: found.status,
                path: found.change.path().to_string(),
            });
        }
    }
    Ok(())
}
