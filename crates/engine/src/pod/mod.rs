//! Pods: containers that share namespaces and are started, stopped and removed together; podman's.
//!
//! A pod is a directory, `pods/ID/`, and what its containers say: each notes in its record which pod it is a member of.
//! There is no list of members that could differ from them, and a pod's state is what those of its members make together.
//!
//! The namespaces are kept by one member more, the *infra* container: an ordinary container whose program only waits
//! (`pause`), and whose network, IPC, UTS and, where that is asked for, PID namespace the others join. Where there is a
//! user namespace they are in the infra container's as well.
//!
//! `pod.json` is written last and removed last. A directory without it that nobody has locked is a leftover, and so is one
//! with the mark of a removal: `sweep` clears them.

mod create;
mod error;
mod find;
mod group;
mod life;
mod lock;
mod look;
mod member;
mod pause;
mod policy;
mod record;
mod remove;
mod watch;

pub use create::{PodRequest, create};
pub use error::PodError;
pub use find::{PodEntry, PodStatus, find, list, name_of, names};
pub use life::{kill, pause as pause_pod, restart, start, stop, unpause};
pub use look::{PodSelection, cgroup_of, inspect, select};
pub use record::Pod;
pub use remove::{prune, remove, remove_named};
pub use watch::{logs, top, usage};

pub(crate) use find::{id_of, is_there};
pub(crate) use group::group_of;
pub(crate) use lock::{Guard, let_go};
pub(crate) use member::{enlist, ensure};
pub(crate) use pause::program as pause;
pub(crate) use policy::member_ended;
pub(crate) use remove::sweep;

/// Where the program of an infra container is, in its root.
pub(crate) const PAUSE: &str = "pause";
