//! Looking at what there is: which containers, what they are, and what happened.
//!
//! Nothing here changes anything, takes a claim or mends: a view gets the truth from [`crate::container`], and
//! reads a few small files for each container.

mod details;
mod error;
mod events;
pub(crate) mod label;
mod object;
mod pattern;
mod select;
mod size;
mod time;

pub use details::{ContainerDetails, ContainerFiles};
pub(crate) use details::{asked_config, image_config};
pub use error::LookError;
pub use events::{EventSelection, events};
pub use object::{InspectedObject, inspect_object, ports, published};
pub(crate) use pattern::Pattern;
pub use select::{Selection, driver_of, network_of, networks_of, select, status_word};
pub(crate) use size::tree_size;
pub use size::{ContainerSize, of_container as container_size};
pub use time::moment;
