//! What images are called and what they say: names, digests, platforms, and the JSON documents of the OCI image
//! specification and of docker, as Rust types.
//!
//! - Names: [`Reference`] (normalised as docker does), [`Digest`], [`Platform`], [`ChainId`].
//! - Documents: [`Manifest`], [`Index`], [`ImageConfig`], each behind [`Document`] or [`Raw`], which keep the bytes that
//!   were received, because the digest is of those and not of what would be written today.
//! - Files of archives: [`docker_archive`] (`docker save`) and [`layout`] (OCI layouts).
//! - [`media_type`]: the names of all of these, and what a layer is compressed with.
//!
//! What holds here:
//!
//! - Everything that is read was written by an enemy: sizes and depths are bounded, and no input makes a parser panic.
//! - A document that could be read in two ways (a manifest that is also an index) is refused.
//!
//! This crate reads no file, opens no connection and hashes nothing: who has bytes and a hash brings them. It decides
//! nothing about where images are kept.

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
