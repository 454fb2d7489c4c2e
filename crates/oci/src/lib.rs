//! `tote oci`: an OCI runtime that docker, podman, containerd and Kubernetes can use unchanged. The commands are runc's,
//! and so are their options, their output and the words of the errors that callers look for.
//!
//! Each command is one function in a file of its own. What they share is a [`Store`] with one directory for each
//! container: a record (`state.json`) and, while the container waits for its start, the gate.
//!
//! Invariants:
//! - The record is written before anything that would have to be cleared: a command that was killed anywhere leaves
//!   something that `state` tells the truth about and that `delete --force` removes.
//! - What is true of a container is asked of the kernel each time: a process is one by its id *and* its start time, and
//!   whether it waits for its start is whether somebody listens at the gate.
//! - Commands that change a container hold the lock of its directory; commands that look do not.
//! - Nothing of this program stays behind a detached container, and the caller's standard streams are never touched.
//!
//! It prints nothing and keeps no log; [`line()`] formats for whoever does. It does not know images, networks or the
//! engine's own containers.

mod bundle;
mod cgroup;
mod create;
mod delete;
mod error;
mod events;
mod exec;
mod features;
mod home;
mod hooks;
mod id;
mod joined;
mod kill;
mod list;
mod log;
mod passed;
mod pause;
mod pidfile;
mod plan;
mod processes;
mod record;
mod seal;
mod seccomp;
mod specification;
mod start;
mod state;
mod status;
mod store;
mod subgroup;
mod update;

pub use create::{CreateOptions, Made, create, run};
pub use delete::delete;
pub use error::OciError;
pub use events::{EventsOptions, events};
pub use exec::{ExecOptions, exec};
pub use features::features;
pub use id::Id;
pub use kill::kill;
pub use list::{Listed, list, table};
pub use log::{Level, LogFormat, Say, line};
pub use pause::{pause, resume};
pub use processes::{ps, ps_table};
pub use seal::{has_runtime_dir, is_root, own_ids, seal};
pub use specification::specification;
pub use start::start;
pub use state::{State, state};
pub use status::Status;
pub use store::Store;
pub use tote_sys::best_effort;
pub use update::{UpdateOptions, update};
