//! Images: from archives into the store and out of it, their names, and what they need on disk.

mod archive;
mod branch;
mod change;
mod config;
mod directory;
pub(crate) mod events;
mod import;
mod index;
mod inspect;
mod layout;
mod list;
mod load;
mod open;
mod remark;
mod remove;
mod save;
mod tree;

pub use branch::{ImageBranch, PlatformBranch, image_branches};
pub use change::ChangeError;
pub(crate) use change::apply as apply_change;
pub(crate) use config::runtime_config;
pub(crate) use directory::LayoutDirectory;
pub use import::{ImportOptions, import};
pub(crate) use index::{
    Found, beside, entry_of, known_manifest, names_of_images, replace as replace_index,
    without as without_images, written,
};
pub use inspect::{HistoryRow, Space, history, inspect_image, space};
pub(crate) use list::count_images;
pub use list::{ImageRow, ImageSelection, image_names, images};
pub use load::{LoadSource, Loaded, load};
pub(crate) use open::make_tree;
pub use open::{enter_ids, open_store};
pub(crate) use open::{
    enter_one_id, find, for_platforms, has_ids, or_nothing, resolve, store_options, sweep_a_little,
};
pub(crate) use remark::is_remark;
pub(crate) use remove::delete;
pub use remove::{Pruned, RemovedImage, has_image, prune_images, remove_images, tag, untag};
pub use save::{SaveTarget, save};
pub use tree::{ImageTree, LayerRow, image_tree};
