//! Calls of tote to the kernel: the one crate where `unsafe` is allowed.
//!
//! Two things live here. First the *birth* of a container: [`Op`] is one prepared operation of becoming a container,
//! and [`birth`] clones a process that performs a list of them in order and reports the first that fails. Second the
//! few calls that rustix lacks, each in a file named after its man page. And what else needs `unsafe` has its place here, too:
//! beside musl the heap (`heap.rs`) and copies of short pieces of memory (`bytes.rs`).
//!
//! Invariants:
//! - Between clone3(2) and execve(2) the child allocates nothing, takes no lock, formats no text, and cannot panic: all
//!   memory that an [`Op`] touches was made before the clone. That is the whole argument for calling [`birth`] safe.
//! - Paths inside a container's root are resolved by openat2(2) with `RESOLVE_IN_ROOT`; writes to procfs go to a
//!   mount that no other process can reach.
//! - The crate decides nothing: no default, no policy, no knowledge of OCI. Errors are an errno and the call's place
//!   in the list; the caller that made the list knows the words.

mod absence;
mod accept;
mod aside;
mod attach;
mod attributes;
mod birth;
mod bpf;
mod brought;
mod btrfs;
#[cfg(all(target_arch = "x86_64", any(test, target_env = "musl")))]
mod bytes;
mod child;
mod clock;
mod clone3;
mod coming;
mod console;
mod copy;
mod cover;
mod deadline;
mod descend;
mod disk;
mod entropy;
mod entry;
mod environment;
mod errand;
mod event;
mod executable;
mod fanotify;
mod fill;
mod first_stage;
mod forebear;
mod fork;
mod freeze;
mod fresh;
mod gate;
mod guardian;
#[cfg(any(test, target_env = "musl"))]
mod heap;
mod hook;
mod identity;
mod idle;
mod inherited;
mod instance;
mod join;
mod kvm;
mod lasting;
mod link_state;
mod lock;
mod lookup;
mod loop_device;
mod machine_ticks;
mod mortal;
mod mount;
mod named_process;
mod namespace;
mod node;
mod notification;
mod op;
mod options;
mod outcome;
mod own_file;
mod pages;
mod parcel;
mod park;
mod parked;
mod peer;
mod pid1;
mod pidfd;
mod prctl;
mod privilege;
mod proc_file;
mod procfs;
mod program;
mod reason;
mod registers;
mod remap;
mod removal;
mod rights;
mod rlimit;
mod root;
mod schedule;
mod seal;
mod seccomp;
mod shown;
mod signal;
mod socket;
mod source;
mod start;
#[cfg(any(test, target_env = "musl"))]
mod strerror;
mod switch;
mod tap;
mod text;
mod timings;
mod title;
mod tsc;
mod view;
mod visit;
mod wait;

pub use absence::{Failure, alive, present, reachable, visible};
pub use accept::{ACCEPT_AGAIN, Accepted, accept};
pub use attributes::{Attributes, Propagation};
pub use birth::{Birth, Child, Way, birth};
pub use bpf::device_filter;
pub use btrfs::{
    Quotas, create_subvolume, forget_subvolume, has_subvolume, is_subvolume, limit_subvolume, quotas,
    remove_subvolume, snapshot, subvolume_id,
};
pub use clock::utc_offset;
pub use clone3::CloneFlags;
pub use coming::ComingNetwork;
pub use copy::{CopyMode, LinkedName, TreeCopy, copy_below, copy_linked};
pub use deadline::Deadline;
pub use disk::mount_to_read;
pub use entropy::{SEED, renew_entropy};
pub use entry::{arguments, enter, keep_arguments};
pub use errand::{
    ContentOverlay, MountRights, SocketKind, Tree, Unlocked, device_mount, network_namespace, open_in,
    overlay, root_of, socket_in, socket_of, take_away, tree, user_namespace,
};
pub use event::Event;
pub use fanotify::{OpenWatch, OpenedFile, OpenedFiles};
pub use fill::{FILLING, FillOp};
pub use first_stage::{FIRST_STAGE, FIRST_STAGE_DISK};
pub use forebear::Ancestry;
pub use fork::{Work, fork_apart, fork_orphan, fork_parent, fork_worker};
pub use freeze::{freeze, thaw};
pub use guardian::{ExitStatus, Guardian};
pub use hook::Hook;
pub use identity::renounce;
pub use idle::Footprint;
pub use inherited::close_inherited;
pub use join::{JoinProcess, Namespace, namespace_kind, set_namespaces};
pub use kvm::{KvmFault, try_kvm};
pub use lasting::{LastingMount, mount_number};
pub use link_state::has_carrier;
pub use lock::{
    LockKind, LockWait, MOMENT_LOCK, WORK_LOCK, flock, is_locked, lock_file, lock_within, tell_long_waits,
};
pub use lookup::openat2;
pub use loop_device::{LoopDevice, attach_loop, detach_loop};
pub use machine_ticks::machine_ticks;
pub use mortal::{OPEN_FOR_BOTH, spawn_mortal, spawn_reporting};
pub use mount::{Make, MountOp, Quirk, Target};
pub use named_process::NamedProcess;
pub use namespace::{NewUserNamespace, own_mounts, user_namespace_of};
pub use node::DeviceNode;
pub use notification::{CallListener, ReportedCall, read_memory};
pub use op::Op;
pub use options::{set_mark, set_transparent};
pub use outcome::best_effort;
pub use own_file::OwnFiles;
pub use pages::Pages;
pub use parcel::Parcel;
pub use park::{Letter, Park, Taker, Taking, Wish};
pub use parked::{DOOR, Given, Parked};
pub use peer::peer_pidfd;
pub use pid1::AsPid1;
pub use pidfd::send_signal;
pub use prctl::{bounding_capabilities, die_with_parent, set_dumpable};
pub use privilege::{Capabilities, Credentials, Filter, IdMaps, Privilege};
pub use proc_file::{read_proc, read_proc_text};
pub use program::{Exec, Program};
pub use reason::{chain, chain_with, reason};
pub use removal::{is_full, remove_dir, remove_file, remove_tree, unlink, with_room};
pub use rights::{receive_with, send_with};
pub use rlimit::{Limit, hard_limit, raise_descriptor_limit, resource_by_name};
pub use rustix::io::Errno;
pub use schedule::{MemoryPolicy, SchedulerAttributes};
pub use seal::{Sealing, is_sealed, may_change_executable, open_seal, seal, seal_in_place, settle_seal};
pub use seccomp::SockFilter;
pub use shown::{hide_root, is_mount_point, show_root};
pub use signal::{
    SignalFd, SignalSet, note as note_signals, noted as noted_signal, pending_signal,
    unblock as unblock_signals,
};
pub use source::{CloneSource, Parameter, Source, Value};
pub use start::{AwaitStart, Starting, start_gate, waits_for_start};
pub use tap::make_tap;
pub use title::set_title;
pub use tsc::tsc_khz;
pub use view::{file_mount, overlay_of};
pub use wait::{Endless, Wait, await_program, connect_at_once};
