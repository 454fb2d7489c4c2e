//! A bundle becomes a plan: an OCI [`tote_spec::Spec`] and a description of its root turn into a [`Plan`], a printable
//! list of prepared operations that `runtime` gives to a new process.
//!
//! Invariants:
//! - Planning is pure. It makes no system call and reads no file; [`Facts`] carries the necessary knowledge of the
//!   host. The same input gives the same text, and that text is the oracle of the tests.
//! - Everything that the new process will touch is allocated here, before it exists.
//! - A plan is data: all of it but descriptors has a byte form, by which another process can perform it ([`Plan::to_bytes`]).
//! - No process that another one may see or trace waits, or is born, with rights that its program lacks ([`Plan::invariants`]).
//! - A feature that the host forbids and the container can live without becomes a warning; an impossible one is an
//!   error that names the property of the spec.
//!
//! The crate knows neither images nor networks, and does not apply docker's defaults: those are in the spec already.

mod capability;
mod cgroups;
mod check;
mod describe;
mod device;
mod enter;
mod error;
mod fill;
mod form;
mod held;
mod idmap;
mod invariants;
mod lifecycle;
mod mounts;
mod namespace_maps;
mod namespaces;
mod option;
mod own_dev;
mod parameter;
mod path;
mod plan;
mod privilege;
mod process;
mod root;
mod schedule;
mod storage;
mod sysctl;
mod tools;
mod tree;
mod wait;

pub use capability::{ALL as ALL_CAPABILITIES, by_name as capability_by_name};
pub use check::check;
pub use describe::{describe, mounting};
pub use enter::{Newcomer, enter};
pub use error::{FormError, PlanError};
pub use fill::Fill;
pub use form::PlanBytes;
pub use held::Substitute;
pub use invariants::Broken;
pub use lifecycle::Lifecycle;
pub use namespaces::network_may_come;
pub use path::whole_proc_and_sys;
pub use plan::{
    CgroupView, DeviceNodes, Errand, Facts, Idmap, Joins, Lifetime, MapOrigin, Plan, Request, SecurityModule,
    Stdin, Switch, Tree, clone_flag, plan,
};
pub use process::{INIT_NAME, program};
pub use root::Root;
pub use schedule::{affinity, schedule};
pub use tools::{Aside, Brought, DeviceOf, HostFile, OwnDev, RootLink, Tools, Whole, WrittenFile};
