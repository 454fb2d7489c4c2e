//! Sources of bind mounts, and volumes.

mod create;
mod device;
mod disk;
mod error;
mod hold;
mod image;
mod inherit;
mod list;
mod place;
mod prepare;
mod record;
mod remove;
pub(crate) mod subpath;
mod transfer;
mod treatment;

pub use create::create;
pub(crate) use disk::{VolumeDisk, disks};
pub use error::{TreatmentFault, VolumeFault};
pub(crate) use hold::VolumeHold;
pub(crate) use image::settle_images;
pub(crate) use inherit::{adopted, inherit};
pub(crate) use list::given_to;
pub use list::{VolumeDetails, VolumeRow, VolumeSelection, exists, inspect, names, volumes};
pub(crate) use place::{anonymous_name, directory};
pub(crate) use prepare::{Volumes, prepare, to_fill};
pub use remove::{PrunedVolumes, prune, remove};
pub(crate) use remove::{remove_unused, sweep, unnamed_of};
pub use transfer::{export, import};
pub(crate) use treatment::treat;
