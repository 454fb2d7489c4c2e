//! Notes of a run for smaller images: the files that it opens, and those that a smaller image lacks.

mod error;
pub mod fallback;
pub mod listen;
pub mod process;

pub use error::SlimError;
pub use fallback::{Misses, fall_back, pair};
pub use listen::Listening;
