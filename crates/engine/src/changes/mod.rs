//! What containers have changed: told, packed, and made into images.

mod commit;
mod container;
mod differences;
mod error;
mod export;
mod instruction;
mod layer;
mod merged;

pub use commit::{CommitOptions, Committed, commit};
pub use differences::{changes, Changed};
pub use error::ChangeError;
pub use export::export;
