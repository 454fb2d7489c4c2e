//! `tote oci`: an OCI runtime that docker, podman, containerd and Kubernetes can use unchanged. It has runc's
//! commands, options and output, and runc's words in errors that callers look for.
//!
//! Each command is a function in a file of its own. They share a [`Store`] with one directory for each container: a
//! record (`state.json`) and, while the container waits for its start, the gate.
//!
//! Invariants:
//! - The record is written before anything that would have to be cleared: whenever a command is killed, `state` tells
//!   the truth about the rest and `delete --force` removes it.
//! - The kernel is asked for the state of a container each time: a process is identified by its pid *and* its start
//!   time, and a container waits for its start if a process listens at the gate.
//! - Commands that change a container hold the lock of its directory; commands that look do not.
//! - Nothing of this program stays behind a detached container, and the caller's standard streams are never touched.
//!
//! The crate prints nothing and keeps no log; [`line()`] formats messages for a caller that does. It does not know
//! images, networks or the engine's own containers.

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
mod peer;
mod pidfile;
mod plan;
mod processes;
mod record;
mod seal;
mod seccomp;
mod specification;
mod start;
mod state;
mod states;
mod status;
mod store;
mod subgroup;
mod update;

pub use create::{CreateOptions, Elsewhere, Made, create, run};
pub use delete::delete;
pub use error::{ContainerError, GroupError, OciError};
pub use events::{EventsOptions, events};
pub use exec::{ElsewhereToo, ExecOptions, exec};
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
pub use states::Status;
pub use store::Store;
pub use tote_sys::best_effort;
pub use update::{UpdateOptions, update};
