//! Looking at what there is: which containers, what they are, and what happened.
//!
//! Nothing here changes anything, takes a claim or mends: a view gets the truth from [`crate::container`], and
//! reads a few small files for each container.

mod condition;
mod details;
mod events;
mod object;
mod select;
mod size;

pub use condition::{CONDITIONS, Condition, wait_until};
pub(crate) use details::asked_config;
pub use details::{ContainerDetails, ContainerFiles};
pub use events::{EventSelection, events};
pub use object::{InspectedObject, ObjectKind, inspect_object, port_keeper, ports, published};
pub use select::{Selection, driver_of, network_of, networks_of, select, status_word};
pub use size::{ContainerSize, of_container as container_size};
pub use tote_records::look::{LookError, moment};
pub(crate) use tote_records::look::{Pattern, label};
