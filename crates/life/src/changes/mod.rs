//! Changes of containers: found, compared with their images, and packed as layers.

pub mod container;
pub mod differences;
mod disk;
mod guest;
pub mod layer;
mod linked;
mod listed;
pub mod merged;
mod passages;

pub use differences::{Changed, written};
pub use guest::{GuestChanges, What, answer};
pub use layer::add_layer;
pub use linked::LinkedNames;
pub use listed::changes;
pub use passages::Passages;
pub use tote_records::ContainerError;
