//! Images: from archives into the store and out of it, their names, and what they need on disk.

mod archive;
mod config;
mod layout;
mod list;
mod load;
mod open;
mod remove;

pub(crate) use config::runtime_config;
pub use list::{ImageRow, ImageSelection, images};
pub use load::{LoadSource, Loaded, load};
pub use open::{enter_ids, open_store};
pub use remove::{RemovedImage, remove_images, tag};
