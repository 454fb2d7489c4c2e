//! Names and documents of images: names, digests, platforms, and the JSON documents of the OCI image specification
//! and of docker, as Rust types.
//!
//! - Names: [`Reference`] (normalised as docker does), [`Digest`], [`Platform`], [`ChainId`].
//! - Documents: [`Manifest`], [`Index`], [`ImageConfig`], each behind [`Document`] or [`Raw`]. These keep the
//!   received bytes, because the digest is theirs and not that of a document written today.
//! - Files of archives: [`docker_archive`] (`docker save`) and [`layout`] (OCI layouts).
//! - [`media_type`]: the media types of all of these, and the compression of a layer.
//!
//! Invariants:
//!
//! - Input may come from an attacker: sizes and depths are limited, and no input makes a parser panic.
//! - A document that could be read in two ways (a manifest that is also an index) is refused.
//!
//! This crate reads no file, opens no connection and hashes nothing: callers pass bytes and hashes in. It does not
//! decide where images are kept.

mod chain;
mod config;
mod descriptor;
mod digest;
pub mod docker_archive;
mod document;
mod index;
pub mod layout;
mod manifest;
pub mod media_type;
mod platform;
mod reference;
mod text;

pub use chain::ChainId;
pub use config::{ContainerConfig, Healthcheck, History, ImageConfig, RootFs};
pub use descriptor::Descriptor;
pub use digest::{Algorithm, Digest, DigestError};
pub use document::{Document, DocumentError, MAX_CONFIG_BYTES, MAX_MANIFEST_BYTES, Raw, Read};
pub use index::{ATTESTATION, Index, NoPlatform, REFERENCE_DIGEST, REFERENCE_TYPE};
pub use manifest::{MAX_LAYERS, Manifest};
pub use media_type::Compression;
pub use platform::{Platform, PlatformError};
pub use reference::{DEFAULT_REGISTRY, DEFAULT_TAG, Reference, ReferenceError};
