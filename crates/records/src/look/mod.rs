//! Parts that all lists and descriptions share: filters, points in time, and why nothing is shown.

mod error;
pub mod label;
mod pattern;
mod time;

pub use error::LookError;
pub use label::{has_label, label};
pub use pattern::Pattern;
pub use time::moment;
