//! The build cache elsewhere: in a layout's directory, at a registry, in an image's manifest.
//!
//! What is there is one manifest. Its configuration, or an annotation of an image, is a [`document::Document`]: what
//! instructions made, by key. Its layers are those that these images have and that are no base image's.

mod document;
mod export;
mod import;
mod option;

pub(crate) use export::{Exporter, Exports};
pub(crate) use import::{Asker, Imports};
pub use option::{CacheFrom, CachePlace, CacheTo, parse_cache_from, parse_cache_to};
