//! Pods: containers that share namespaces and are started, stopped and removed together; podman's.
//!
//! A pod is a directory, `pods/ID/`, and the records of its containers: each names the pod of which it is a member.
//! No separate list of members could differ from them, and a pod's status is derived from the states of its
//! members.
//!
//! One more member keeps the namespaces, the *infra* container: an ordinary container whose program only waits
//! (`pause`), and whose network, IPC, UTS and, on request, PID namespace the others join. If there is a user
//! namespace, they are in the infra container's as well.
//!
//! `pod.json` is written last and removed first of the pod's files. A directory without it and without a lock is a
//! leftover, and so is one with the mark of a removal: `sweep` clears them.

mod create;
mod enlist;
mod life;
mod member;
mod policy;
mod remove;

pub use create::{PodRequest, create};
pub use life::{kill, pause as pause_pod, restart, start, stop, unpause};
pub use remove::{prune, remove, remove_named};
pub use tote_records::pod::{Pod, PodEntry, PodError, PodStatus, find, list, name_of, names};

pub use enlist::enlist;
pub use member::ensure;
pub use policy::member_ended;
pub use remove::sweep;
pub use tote_prepare::pause::{PAUSE, program as pause};
pub use tote_records::pod::{Guard, group, group_of, id_of, is_there, let_go, lock, record};
