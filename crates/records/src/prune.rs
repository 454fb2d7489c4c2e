//! Which of what is not used a pruning removes.

mod error;
pub mod filters;

pub use error::PruneFault;
pub use filters::PruneFilters;
