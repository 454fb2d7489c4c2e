//! The life of containers and pods: creation, start, watch, further processes, health, end and removal, and the sweep after a
//! killed command.
//!
//! Invariants:
//! - A process that changes a container holds its claim; a process that watches one holds the claim as long as it watches.
//! - A step that is cut off by a kill is completed or undone by the next command that finds the claim free
//!   ([`container::sweep`]).
//! - No process of tote's outlives the last container, but for the one that takes a network down a second later.
//!
//! What a start does is decided below: this crate takes a plan of the crate `prepare` and lets `runtime` and `monitor` carry it
//! out. It knows neither builds nor views.

pub mod changes;
pub mod container;
mod creation;
mod end_report;
pub mod exec;
pub mod health;
pub mod pod;
pub mod prepare;
pub mod proc;
pub mod remains;
pub mod run;
pub mod slim;
pub mod vm;

use tote_images::open_store;
use tote_networks as network;
use tote_networks::etc;
use tote_prepare::{
    Finished, HostInit, RunRequest, device, facts, finished, given, init, making, peer, prepared, rootfs,
    secret, spec, standard, storage, tree, user, volume,
};
use tote_records::container::LifeError;
use tote_records::{Caller, EngineError, Home, RequestError, apart, cgroup, look, resources};

pub use creation::create;
pub use run::run;
