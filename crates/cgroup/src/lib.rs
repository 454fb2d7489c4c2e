//! Control groups for a container runtime: v1, hybrid and v2 behind one interface, synchronous, without systemd.
//!
//! ```text
//! Layout::read ──► plan(&Layout, &Request) ──► Cgroup::create(&Plan) ──► attach, freeze, kill_all, stats ──► remove
//!  what is where    pure, printable             one directory per hierarchy
//! ```
//!
//! Invariants:
//! - Nothing is written but below a directory that this crate made, with two exceptions above it: on v2 controllers
//!   may have to be enabled in `cgroup.subtree_control`, and on v1 a cpuset without processors gets its parent's.
//! - Only hierarchies that a limit needs are touched, unless a request says `all`: each v1 controller costs a mkdir,
//!   a move and an rmdir.
//! - A group is named from the container's id and lies below the caller's own cgroup, so that the caller's limits
//!   hold for its containers too. On v2 a cgroup with processes cannot hand out controllers, and the caller's own
//!   almost always has some; there the parent is the nearest ancestor that can, and between it and the container's
//!   group is a group `tote` that hands out the controllers which systemd would take back. Without root this works if
//!   systemd has delegated a subtree and the caller is inside it; the caller itself is never moved, unless it asks to
//!   be ([`make_room`]).
//! - Limits that the host forbids become one [`Warning`] that names every lost limit, or an [`Error`], as [`Policy`]
//!   says.
//!
//! The crate is *not* a client of systemd (a `slice:prefix:name` path becomes the plain path that systemd would use),
//! does not load the device program that it makes ([`device_program`]; that takes bpf(2)), and keeps no state:
//! [`Cgroup::record`] has everything that must be known later.
//!
//! cgroups(7), and Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of the kernel.

mod apply;
mod beside;
mod bpf;
mod cgroup;
mod controllers;
mod convert;
mod create;
mod devices;
mod error;
mod file;
mod freeze;
mod kill;
mod layout;
mod path;
mod place;
mod plan;
mod record;
mod room;
mod stats;
mod tree;
mod v1;
mod v2;
mod write;

pub use beside::{beside, record_of};
pub use bpf::{BpfInsn, device_program};
pub use cgroup::Cgroup;
pub use controllers::Controllers;
pub use convert::{SwapMax, io_weight_from_blkio, swap_max, weight_from_shares};
pub use devices::{DeviceError, default_device_rules};
pub use error::{Error, Lost, Warning, Why};
pub use layout::{Hierarchy, Kind, Layout, LayoutError};
pub use path::{CgroupPath, PathError};
pub use place::GroupPlace;
pub use plan::{Plan, PlanError, Policy, Request, plan};
pub use record::remove_above;
pub use room::make_room;
pub use stats::{CpuStats, IoStats, MemoryStats, PidsStats, Stats};
