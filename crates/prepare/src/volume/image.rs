//! `--mount type=image`: the files of an image, below an overlay.

use super::hold::VolumeHold;
use crate::rootfs::Source;
use crate::{EngineError, Home};
use tote_bundle::{Image, MountSource, RunOptions};

/// Replaces names of images that are mounted by their ids, in the options and in the given ones, so that a later start
/// has the same files and the image is known to be in use.
///
/// # Errors
/// [`EngineError::Store`] for an image that is not here.
pub fn settle_images(
    home: &Home,
    (options, given): (&mut RunOptions, &mut [(String, String)]),
) -> Result<(), EngineError> {
    for request in &mut options.mounts {
        let MountSource::Image(name) = &request.source else {
            continue;
        };
        let store = tote_images::open_store(home)?;
        let id = store.resolve(name)?.to_string();
        for (_, value) in given.iter_mut().filter(|(option, _)| option == "mount") {
            if tote_bundle::parse_mount(value).is_ok_and(|parsed| parsed == *request) {
                *value = request.of_image(&id);
            }
        }
        request.source = MountSource::Image(id);
    }
    Ok(())
}

/// Returns the directory of an image's files, which the image keeps while it is held.
pub(crate) fn directory_of(
    home: &Home,
    id: &str,
    hold: &mut VolumeHold,
) -> Result<Option<String>, EngineError> {
    let source = Source::open(home, &Image::Stored(id.to_owned()))?;
    let directory = match &source {
        Source::Stored(stored) => Some(stored.links(home)?.display().to_string()),
        _ => None,
    };
    hold.add_image(source);
    Ok(directory)
}
