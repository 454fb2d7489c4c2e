//! A client of registries: the OCI distribution protocol, as docker, podman and containerd speak it.
//!
//! [`Client`] fetches and stores manifests and blobs; [`Credentials`] finds what `docker login` and `podman login`
//! leave on disk or hand to a credential program; [`Registries`] lists mirrors, and hosts that are allowed plain
//! HTTP.
//!
//! Invariants:
//!
//! - Received content is hashed on its way. If it does not hash to the digest that was asked for, the caller gets
//!   an error before the last byte. A [`Blob`] never yields more bytes than its descriptor says.
//! - A registry's password goes to that registry and to the token service it names, over TLS unless plain HTTP was
//!   allowed; never to a host that it redirects to, nor to a token service that such a host names.
//! - Plain HTTP is spoken only to this machine itself, or where an option or the configuration allows it.
//! - Answers may come from an attacker: headers, documents and waiting times are bounded, and too slow answers are
//!   aborted.
//!
//! The client is blocking and `Sync`: a caller that wants layers in parallel uses threads, and four of them fill
//! any line. The client is not a store and reads no environment: its creator chooses what to fetch and names the
//! files to use.

mod auth;
mod blob;
mod challenge;
mod client;
mod credential;
mod dns;
mod download;
mod endpoint;
mod error;
mod hash;
mod http;
mod login;
mod manifest;
mod options;
mod pace;
mod push;
mod registries;
mod resolve;
mod search;
mod tags;
mod tls;
mod uri;
mod wait;

pub use blob::Blob;
pub use client::Client;
pub use credential::{Credential, CredentialError, Credentials};
pub use download::Download;
pub use error::{Error, Kind, TrustError};
pub use hash::Hasher;
pub use manifest::{Fetched, Resolved};
pub use options::{ClientOptions, Progress};
pub use push::{Pushed, Source};
pub use registries::{Registries, RegistriesError, Registry};
pub use search::FoundRepository;
