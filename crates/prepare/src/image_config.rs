//! Settings of the image that a container was made of.

use crate::{Home, open_store};
use tote_bundle::ImageConfig;
use tote_records::container::Entry;

/// The image's settings, if it still exists.
#[must_use]
pub fn image_config(home: &Home, entry: &Entry) -> ImageConfig {
    let Some(id) = &entry.container.image_id else {
        return ImageConfig::bare();
    };
    let open = || {
        let store = open_store(home).ok()?;
        store.image(&id.parse().ok()?).ok()
    };
    let image = open();
    image.map_or_else(ImageConfig::default, |image| {
        tote_images::runtime_config(&image.config.value().config)
    })
}
