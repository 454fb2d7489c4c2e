//! Pools: sandboxes that are made before anybody needs them, each up to the moment before its program.
//!
//! A parked sandbox is a container that has not begun: namespaces, mounts and cgroup are there, and its first process
//! waits in accept(2) on a socket named from its id ([`tote_sys::Park`]). Beside it sleeps its keeper, its parent, which
//! holds the claim and the image, and cleans up. There is no process of the pool: whoever takes a sandbox leaves behind
//! a process that makes the next, and ends.
//!
//! ```text
//! pools/NAME/            0700
//! ├── pool.json          what its sandboxes are made from, and how many; without it the pool is being removed
//! ├── lock queue         who fills it, and who will look next whether it is full
//! ├── error              why it could not be filled, where that is so
//! └── GENERATION/ID      the sockets of parked sandboxes, all made from what `pool.json` says
//! ```
//! - Who gets a sandbox the kernel decides: the first connection that its process accepts.
//! - How many there are is asked of the sockets, not of a file: nobody listens at those of processes that are gone.
//! - A taken sandbox is a container as of `run --rm` in the foreground, its keeper in the place of the command.

mod error;
mod fill;
mod keeper;
mod list;
mod lock;
mod record;
mod remove;
mod take;

pub use error::PoolError;
pub use fill::{FillRequest, Filled, fill};
pub use list::{PoolRow, names, pools};
pub use record::Pool;
pub use remove::remove;
pub use take::{PoolRun, run_from_pool};

pub(crate) use list::{image_users, volume_users};
