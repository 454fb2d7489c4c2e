//! x
mod controllers;
mod convert;
mod file;
mod layout;
mod path;
pub use controllers::Controllers;
pub use convert::{SwapMax, io_weight_from_blkio, swap_max, weight_from_shares};
pub use layout::{Hierarchy, Kind, Layout, LayoutError};
pub use path::{CgroupPath, PathError};
