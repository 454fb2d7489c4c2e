//! Use cases with the changes of containers: packed, made into images, traced.

mod bootstrap;
mod bootstrap_error;
mod commit;
mod export;
mod sources;
mod trace;

pub use bootstrap::{BootstrapOptions, bootstrap};
pub use bootstrap_error::BootstrapError;
pub use commit::{CommitOptions, Committed, commit};
pub use export::export;
pub use tote_life::changes::ContainerError;
pub use tote_life::changes::{Changed, changes};
pub(crate) use tote_life::changes::{GuestChanges, What, container, differences, layer, merged, written};
pub use trace::{Traced, WritablePath, trace};
