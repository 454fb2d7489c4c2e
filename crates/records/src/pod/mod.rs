//! Records of pods: which there are, what is written down of them, who changes one, and their cgroups.

mod error;
pub mod find;
pub mod group;
pub mod lock;
pub mod record;

pub use error::PodError;
pub use find::{Done, PodEntry, PodStatus, find, id_of, is_there, list, name_of, names};
pub use group::group_of;
pub use lock::{Guard, let_go};
pub use record::Pod;
