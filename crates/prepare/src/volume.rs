//! Sources of bind mounts, and volumes.

mod create;
mod device;
mod disk;
mod error;
mod fill;
mod hold;
mod image;
mod inherit;
mod list;
mod place;
mod prepare;
mod record;
mod remove;
pub mod subpath;
mod transfer;
mod treatment;

pub use create::create;
pub use disk::{Brought, Share, VolumeDisk, brought, writes};
pub use error::{TreatmentFault, VolumeFault};
pub use fill::Filling;
pub use hold::VolumeHold;
pub use image::settle_images;
pub use inherit::{adopted, inherit};
pub use list::given_to;
pub use list::{VolumeDetails, VolumeRow, VolumeSelection, exists, inspect, names, volumes};
pub use place::{anonymous_name, directory};
pub use prepare::{Volumes, prepare};
pub use remove::{PrunedVolumes, prune, remove};
pub use remove::{remove_unused, sweep, unnamed_of};
pub use transfer::{export, import};
pub use treatment::treat;
