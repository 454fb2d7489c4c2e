//! A plan becomes a process: the clone, the parent's part in it, and everything until the process has ended.
//!
//! Invariants:
//! - The parent is single-threaded and sleeps in one poll(2) until something happens; nothing here waits by time alone.
//! - If anything fails after the clone, the child is killed and reaped and its cgroup removed before the error is
//!   returned.
//! - The crate decides neither names nor places: the caller passes the plan, the cgroup and the descriptors.

mod allowance;
mod attend;
mod caller_signals;
mod cgroup;
mod cpu;
mod create;
mod errand;
mod error;
mod exec;
mod foreground;
mod hold;
mod hooks;
mod host;
mod idmap;
mod join;
mod keep;
mod keys;
mod listen;
mod newborn;
mod outcome;
mod patience;
mod relay;
mod removal;
mod root;
mod seal;
mod socket;
mod stdio;
mod step;
mod taken;
mod terminal;
mod timings;
mod wait;

pub use attend::{Attendance, attend, attend_or_leave};
pub use caller_signals::Insistence;
pub use cgroup::{create as create_cgroup, filter_devices};
pub use create::{Created, Creation, Witness, create, create_alone, start};
pub use errand::{ancestry, move_net_devices, open_tree, set_oom_score};
pub use error::{ErrandError, Refusal, RuntimeError};
pub use exec::{Entry, Reception, exec, exec_beside};
pub use foreground::{Foreground, may_be_left, run};
pub use hold::Holder;
pub use hooks::{HookError, HookSpec, Point, hooks_inside, run_hook, set_state};
pub use host::{groups_allowed, host_facts, security_module};
pub use idmap::{Maps, user_namespace};
pub use join::Namespaces;
pub use keep::{Kept, keep};
pub use keys::{DetachKeys, DetachKeysError};
pub use listen::{Listen, missing_descriptor};
pub use outcome::{Aside, Ended, Leave, Left, Observer, Outcome, Parting, Succession};
pub use removal::remove_tree;
pub use root::root_of;
pub use seal::{prepare as prepare_seal, seal, seal_in_place};
pub use socket::send_descriptor;
pub use stdio::{BrokenStream, Stdio, StdioMode};
pub use step::{Step, StepKind};
pub use taken::{Attended, Moment, attend_taken};
pub use terminal::{RawMode, size as terminal_size, wait_while_read};
pub use timings::Timings;
