//! Mounts of containers for programs of the machine: the place, its lock, and what takes it away.

mod error;
mod place;

pub use error::MountFault;
pub use place::{Mounted, Place, container_of, forget, in_place, is_mounted_somewhere, look, marked, sweep};
