//! A client of registries: the OCI distribution protocol, as docker, podman and containerd speak it.
//!
//! [`Client`] fetches and stores manifests and blobs; [`Credentials`] are what `docker login` and `podman login` leave on
//! disk or hand to a credential program; [`Registries`] says which mirrors there are and who may be spoken to in plain.
//!
//! What holds here:
//!
//! - Everything that arrives is hashed on its way, and what does not hash to what was asked for is an error before its
//!   last byte is handed out. A [`Blob`] never yields more bytes than its descriptor says.
//! - A registry's password goes to that registry and to the token service it names, over TLS unless plain HTTP was
//!   allowed; never to a host that it redirects to, nor to a token service that such a host names.
//! - Plain HTTP is spoken only to this machine itself, or where an option or the configuration allows it.
//! - Answers are an enemy's: headers, documents and times of waiting are bounded, and so is how slowly they come.
//!
//! The client is blocking and `Sync`: who wants layers in parallel uses threads, of which four fill any line. It is not a
//! store, decides nothing about what is wanted, and reads no environment: whoever makes it says where its files are.

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
pub use error::{Error, Kind};
pub use hash::Hasher;
pub use manifest::{Fetched, Resolved};
pub use options::{ClientOptions, Progress};
pub use push::{Pushed, Source};
pub use registries::{Registries, RegistriesError, Registry};
pub use search::FoundRepository;
