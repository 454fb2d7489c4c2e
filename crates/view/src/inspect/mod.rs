//! Descriptions of single objects, as docker's and podman's `inspect` show them.

mod container;
mod endpoints;
mod host_config;
mod image;
mod mounts;
mod network;
mod pod;
mod podman;
mod requested;
mod secret;
#[cfg(test)]
mod tests;
mod unset;
mod volume;

pub use container::container_details;
pub use image::image_details;
pub use network::network_details;
pub use pod::pod_details;
pub use podman::with_podmans_fields;
pub use secret::{secret, secret_details};
pub use unset::UNSET_FIELDS;
pub use volume::volume_details;

use serde_json::Value;
use tote_engine::{Home, InspectedObject};

/// Describes an object with the fields of its kind.
#[must_use]
pub fn object_details(home: &Home, of: &InspectedObject) -> Value {
    match of {
        InspectedObject::Container(of) => container_details(of),
        InspectedObject::Image(of) => image_details(of),
        InspectedObject::Network(of) => network_details(of),
        InspectedObject::Volume(of) => volume_details(of),
        InspectedObject::Pod(of) => pod_details(home, of),
    }
}
