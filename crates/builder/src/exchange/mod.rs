//! Build cache in other places: in a layout's directory, at a registry, in an image's manifest.
//!
//! A cache is one manifest. Its configuration, or an annotation of an image, is a [`document::Document`]: results of
//! instructions, by key. Its layers are those of the results, except layers of base images.

mod document;
mod export;
mod import;
mod option;

pub(crate) use export::{Exporter, Exports};
pub(crate) use import::{Asker, Imports};
pub use option::{CacheFrom, CachePlace, CacheTo, parse_cache_from, parse_cache_to};
