//! Events of images for `tote events`, with docker's words and ids.

use crate::Home;
use crate::delete::RemovedImage;
use tote_image::{Digest, Reference};
use tote_state::events::Event;
use tote_state::events::append;
use tote_store::Store;

/// Makes an event of an image that happens now. `name` is the image's name, or its id if it has none.
fn event(action: &str, id: &str, name: &str) -> Event {
    Event::of("image", action, id).with("name", name)
}

/// Makes an event with the labels of the image, which must exist.
fn labelled(store: &Store, action: &str, id: &Digest, name: &str) -> Event {
    let mut event = event(action, &id.to_string(), name);
    if let Ok(image) = store.image(id) {
        for (key, value) in &image.config.value().config.labels {
            event
                .attributes
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
    }
    event
}

/// Records that images were loaded from an archive, or saved into one.
pub fn passed(home: &Home, store: &Store, action: &str, ids: &[Digest]) {
    let told = ids.iter().map(|id| labelled(store, action, id, &id.to_string()));
    append(home, &told.collect::<Vec<_>>());
}

/// Records a new name of an image.
pub fn tagged(home: &Home, store: &Store, id: &Digest, name: &Reference) {
    append(home, &[labelled(store, "tag", id, &name.familiar())]);
}

/// Records the removal of names and images.
pub fn removed(home: &Home, id: &Digest, removed: &[RemovedImage]) {
    let mut told = Vec::new();
    for removed in removed {
        match removed {
            RemovedImage::Untagged(name) => told.push(event("untag", &id.to_string(), &name.familiar())),
            // Layers have no events.
            RemovedImage::Deleted(gone) if gone == id => {
                told.push(event("delete", &id.to_string(), &id.to_string()));
            }
            RemovedImage::Deleted(_) => {}
        }
    }
    append(home, &told);
}

/// Records a pull of an image.
pub fn pulled(home: &Home, name: &Reference) {
    append(home, &[event("pull", &name.familiar(), &repository(name))]);
}

/// Records a push of an image.
pub fn pushed(home: &Home, name: &Reference) {
    append(home, &[event("push", &name.familiar(), &repository(name))]);
}

/// Strips the tag and the digest, as docker does.
fn repository(name: &Reference) -> String {
    let familiar = name.familiar();
    let end = familiar.rfind('/').map_or(0, |slash| slash + 1);
    match familiar[end..].find([':', '@']) {
        Some(at) => familiar[..end + at].to_owned(),
        None => familiar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_have_no_tag() {
        for (name, expected) in [
            ("alpine", "alpine"),
            ("alpine:3", "alpine"),
            ("localhost:5000/a/b:1", "localhost:5000/a/b"),
        ] {
            assert_eq!(repository(&Reference::parse(name).unwrap()), expected);
        }
    }
}
