//! Pools: sandboxes that are made in advance, each up to the moment before its program.
//!
//! A parked sandbox is a container that has not begun: namespaces, mounts and cgroup exist, and its first process
//! waits in accept(2) on a socket named from its id ([`tote_sys::Park`]). Its parent, the keeper, sleeps beside it,
//! holds the claim and the image, and cleans up. The pool has no process of its own: a command that takes a sandbox
//! leaves behind a process that makes the next one, and ends.
//!
//! ```text
//! pools/NAME/            0700
//! ├── pool.json          what its sandboxes are made from, and how many; without it the pool is being removed
//! ├── lock queue         held by the process that fills it, and by the one that will check it next
//! ├── error              reason why the last filling failed, if it did
//! └── GENERATION/ID      the sockets of parked sandboxes, all made from what `pool.json` says
//! ```
//! - The kernel decides which command gets a sandbox: the first connection that its process accepts.
//! - The number of sandboxes is found by asking the sockets, not a file: sockets of dead processes have no listeners.
//! - A taken sandbox is a container as of `run --rm` in the foreground, with its keeper in the place of the command.

mod fill;
mod keeper;
mod remove;
mod take;

pub use fill::{FillRequest, Filled, fill};
pub use remove::remove;
pub use take::{PoolRun, run_from_pool};
pub use tote_records::pool::{Pool, PoolError, PoolRow, names, pools};

pub(crate) use tote_records::pool::{error, list, lock, record};
