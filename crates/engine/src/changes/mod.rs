//! Changes of containers: listed, packed, and made into images.

mod bootstrap;
mod bootstrap_error;
mod commit;
mod container;
mod differences;
mod disk;
mod export;
mod layer;
mod linked;
mod merged;
mod passages;
mod sources;
mod trace;

pub use bootstrap::{BootstrapOptions, bootstrap};
pub use bootstrap_error::BootstrapError;
pub use commit::{CommitOptions, Committed, commit};
pub(crate) use differences::written;
pub use differences::{Changed, changes};
pub use export::export;
pub(crate) use layer::add_layer;
pub(crate) use linked::LinkedNames;
pub(crate) use passages::Passages;
pub use tote_records::ContainerError;
pub use trace::{Traced, WritablePath, trace};
