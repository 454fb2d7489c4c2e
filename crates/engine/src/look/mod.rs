//! Looking at what there is: which containers, what they are, and what happened.
//!
//! Nothing here changes anything, takes a claim or mends: a view gets the truth from [`crate::container`], and
//! reads a few small files for each container.

mod details;
mod events;
mod object;
mod select;
mod size;

pub use details::{ContainerDetails, ContainerFiles};
pub(crate) use details::asked_config;
pub use events::{EventSelection, events};
pub use object::{InspectedObject, inspect_object, ports, published};
pub use select::{Selection, driver_of, network_of, networks_of, select, status_word};
pub use size::{ContainerSize, of_container as container_size};
pub(crate) use tote_records::look::{Pattern, label};
pub use tote_records::look::{LookError, moment};
