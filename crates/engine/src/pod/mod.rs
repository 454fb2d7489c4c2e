//! Pods: their life, and what is seen of them.

mod look;
mod watch;

pub use look::{PodSelection, cgroup_of, select};
pub use tote_life::pod::{
    Pod, PodEntry, PodError, PodRequest, PodStatus, create, find, kill, list, name_of, names, pause_pod,
    prune, remove, remove_named, restart, start, stop, unpause,
};
pub(crate) use tote_life::pod::{group, id_of, sweep};
pub use watch::{logs, top, usage};
