//! Preparation of a container: from a request and an image to a plan of everything that its birth takes ([`Prepared`]).
//!
//! Invariants:
//! - Nothing runs and nothing is mounted here: what a start does is in the plan, which the crate `runtime` carries out.
//! - What is made for a container lies in its directory or in a volume, and is found again from the container's id.
//! - Facts of the host are asked for in one place ([`facts`]); everything else decides by them.
//!
//! This crate does not know when a container starts or ends, and neither prints nor reads a command line.

pub mod covered;
pub mod device;
mod docker_links;
pub mod facts;
pub mod files;
pub mod finished;
pub mod flat;
pub mod given;
mod image_config;
pub mod init;
mod keep_id;
mod links;
pub mod making;
pub mod owner;
pub mod pause;
pub mod peer;
pub mod prepared;
pub mod processors;
mod progress;
mod request;
pub mod rootfs;
pub mod secret;
pub mod spec;
pub mod standard;
pub mod storage;
pub mod tree;
mod tree_size;
pub mod user;
pub mod vm;
pub mod volume;

use tote_images::open_store;
use tote_networks as network;
use tote_networks::etc;
use tote_records::container::StartError;
use tote_records::{
    Caller, EngineError, Home, ImageFault, MachineError, RequestError, apart, cgroup, container, look,
    mounted, pod, pool,
};

pub use finished::{Finished, over};
pub use image_config::image_config;
pub use init::HostInit;
pub use prepared::Prepared;
pub use request::RunRequest;
pub use secret::SecretFault;
pub use tree_size::tree_size;
pub use vm::VmFault;
pub use volume::{TreatmentFault, VolumeFault};
