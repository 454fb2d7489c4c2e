//! Images beside what uses them: lists of them, and the end of those that nothing uses.

mod branch;
mod inspect;
mod list;
mod remove;

pub use branch::{ImageBranch, PlatformBranch, image_branches};
pub use inspect::{HistoryRow, ImageDetails, Space, history, inspect_image, space};
pub use list::{ImageRow, ImageSelection, image_names, images};
pub use remove::{Pruned, prune_images, remove_images};
