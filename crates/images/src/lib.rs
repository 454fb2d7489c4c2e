//! Images: transfers between archives, registries and the store, names and lists of images, and the
//! owners of their files.
//!
//! Invariants:
//! - A process that adds images runs as root of the ids that own their files ([`enter_ids`]), with a single thread.
//! - An image is added completely or not at all; if there is no room for all of it, no part of it stays.
//! - A file that is written for the user gets its name only when it is complete ([`WholeFile`]).
//!
//! This crate knows no containers: the crate above decides whether an image is in use and may be removed. The store
//! decides how images are kept, and the registry client speaks the protocols of registries.

mod archive;
mod archive_error;
mod change;
mod config;
mod delete;
mod directory;
mod error;
pub mod events;
mod import;
mod index;
mod layout;
mod load;
mod manifest;
mod naming;
mod open;
mod owners;
mod remark;
mod remote;
mod save;
mod subid;
mod tree;
mod whole;

pub use archive_error::ArchiveError;
pub use change::{ChangeError, apply as apply_change};
pub use config::runtime_config;
pub use delete::{RemovedImage, delete};
pub use directory::LayoutDirectory;
pub use error::ImagesError;
pub use import::{ImportOptions, import, import_url};
pub use index::{
    Found, WrittenIndex, beside, entry_of, names_of_images, orphans, platform_of, replace, without, written,
};
pub use load::{LoadSource, Loaded, load};
pub use manifest::{
    InspectedManifest, ListRequest, MadeIndex, ManifestError, MemberOptions, ToolsRequest, VerboseManifest,
    VerboseManifests, add_to_manifest, annotate_manifest, create_at_registry, create_manifest, has_manifest,
    inspect_manifest, remove_from_manifest, remove_manifest,
};
pub use naming::{has_image, tag, untag, with_digests};
pub use open::{
    find, for_platforms, make_tree, open_store, or_nothing, resolve, store_options, sweep_a_little,
};
pub use owners::{caller_ids, enter_ids, enter_one_id, has_ids, has_many_ids, ranges};
pub use remark::{Remark, is_remark};
pub use remote::{
    Access, Compressed, Fetch, Health, LayerStep, Lost, PullEvent, PullRequest, Pulled, PushEvent,
    PushReport, PushRequest, PushStep, PushedImage, RemoteError, SEARCH_LIMIT, SearchRequest, Wanted,
    WhenToPull, ask_secret, for_each, list_tags, login, login_name, logout, logout_everywhere, parse_creds,
    pull, pull_all_tags, push, push_all_tags, push_layers, registry_client, search, verify_store, wanted,
    web_client,
};
pub use save::{SaveTarget, known_manifest, save};
pub use tree::{ImageTree, LayerRow, image_tree};
pub use whole::{WholeFile, failed_output};

use tote_state::{Caller, Home};
