//! What containers have changed: told, packed, and made into images.

mod commit;
mod container;
mod differences;
mod error;
mod export;
mod layer;
mod merged;

pub use commit::{CommitOptions, Committed, commit};
pub use differences::{Changed, changes};
pub use error::ContainerError;
pub use export::export;
