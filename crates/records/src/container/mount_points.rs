//! Mounts of a container, as its record has them.

use super::record::Container;
use tote_bundle::{ContainerId, MountSource};

/// Mounts of a container that its options or its image ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// Name of the volume, also a generated one, the path of the host, or the id of an image; empty for memory.
    pub source: String,
    /// True if the source is a volume's name.
    pub volume: bool,
    /// Place in the container.
    pub destination: String,
}

/// Returns the name of an anonymous volume: always the same for that container and destination.
#[must_use]
pub fn anonymous_name(id: &ContainerId, destination: &str) -> String {
    tote_store::sha256(format!("{id} {destination}").as_bytes()).hex()
}

/// Iterates over the mounts that were asked for.
pub fn mounts(container: &Container) -> impl Iterator<Item = MountPoint> {
    let id = container.id.clone();
    let asked = container
        .options
        .iter()
        .any(|(option, _)| matches!(option.as_str(), "volume" | "mount" | "inherit"));
    let options = asked.then(|| container.run_options().ok()).flatten();
    let requests = options.map(|options| options.mounts).unwrap_or_default();
    requests.into_iter().map(move |request| {
        let anonymous = || anonymous_name(&id, &request.destination);
        let (source, volume) = match request.source {
            MountSource::Bind(bind) => (bind.path, false),
            MountSource::Volume(volume) => (volume.name.unwrap_or_else(anonymous), true),
            MountSource::Image(image) => (image, false),
            MountSource::Tmpfs(_) => (String::new(), false),
        };
        MountPoint {
            source,
            volume,
            destination: request.destination,
        }
    })
}

/// True if the container mounts the files of the image with this id, beside its own image.
pub fn mounts_image(container: &Container, id: &str) -> bool {
    let asked = |(option, value): &(String, String)| option == "mount" && value.contains(id);
    container.options.iter().any(asked) && mounts(container).any(|mount| mount.source == id)
}
