//! The engine as its clients see it: the names of all use cases, and the use cases that have no crate of their own, such as
//! `cp`, `commit`, pools and units.
//!
//! Invariants:
//! - A client names this crate for everything that it asks for, and none of the crates between it and `state`.
//! - Every object is named from the container's id, so that what a killed command left is found and cleared by the next
//!   one; clearing twice does no harm.
//! - It neither prints nor reads a command line; it gives back values, and errors with a remedy.
//!
//! It knows no system call of its own: what the kernel is asked for is in a plan, or in the crates that apply one.

mod changes;
mod copy;
mod guest;
mod look;
mod machine;
mod mounted;
mod network;
pub mod pod;
mod pool;
mod prune;
mod stats;
mod top;
mod unit;

use tote_life::{exec, prepare, proc, remains, vm};
use tote_prepare::{
    covered, facts, finished, given, making, peer, prepared, processors, rootfs, spec, standard, storage,
    user, volume,
};

pub use changes::{
    BootstrapError, BootstrapOptions, Changed, CommitOptions, Committed, ContainerError, Traced,
    WritablePath, bootstrap, changes, commit, export, trace,
};
pub use container::{LifeError, StartError};
pub use copy::{Copied, CopyError, CopyRequest, CopyStreams, PlaceError, TransferFault, copy};
pub use guest::guest_init;
pub use look::{
    CONDITIONS, Condition, ContainerDetails, ContainerFiles, ContainerSize, EventSelection, InspectedObject,
    LookError, ObjectKind, Selection, container_size, driver_of, events, inspect_object, moment, network_of,
    networks_of, port_keeper, ports, published, select, status_word, wait_until,
};
pub use machine::{
    MachineFacts, MachineMemory, MachineReport, bundle_in_machine, kernel_release, look as look_at_machine,
    process_in_machine, send_output,
};
pub use mounted::{MountRow, mount, mounts, unmount};
pub use network::{
    ConnectFault, ConnectRequest, Endpoint as NetworkEndpoint, NetworkDetails, NetworkFault, NetworkMember,
    NetworkRange, NetworkRequest, NetworkRow, NetworkSelection, PortRecord, PrunedNetworks,
    RefusedDestination, RootlessFault, add_ports, connect as connect_network, create as create_network,
    disconnect as disconnect_network, egress_log, exists as has_network, inspect as inspect_network,
    names as network_names, networks, prune as prune_networks, reload as reload_network,
    remove as remove_network, remove_ports, repair as repair_networks,
};
pub use pool::{
    FillRequest, Filled, Pool, PoolError, PoolRow, PoolRun, fill as fill_pool, names as pool_names, pools,
    remove as remove_pool, run_from_pool,
};
pub use prune::{PruneFault, PruneRequest, PrunedSystem, check_prune, prune_containers, prune_system};
pub use stats::{Usage, usage};
pub use top::{Processes, TopError, top};
pub use tote_archive::Status;
pub use tote_build::{EPOCH, Event as BuildEvent, Named as BuildNamed, Options as BuildOptions};
pub use tote_builder::{
    Attestations, BuildContext, BuildFault, BuildOptionError, BuildOutput, BuildRequest, BuildSpace,
    BuildsPruned, BuiltImage, BuiltManifest, CacheFault, CacheFrom, CachePlace, CacheTo, CheckedDockerfile,
    ContextError, GitFailure, NamedContext, ProvenanceMode, ProvenanceVersion, PruneBuilds, RepositoryFault,
    Room, SecretSource, Voice, build, build_platforms, build_space, check_build, guard_build, interrupted,
    layout_name, parse_agent, parse_annotation, parse_cache_from, parse_cache_to, parse_context,
    parse_secret, prune_builds,
};
pub use tote_bundle::{
    ContainerId, ExecOptions, Image, RunOptions, SdNotify, Signal, SignalError, SpecError, StopTimeout,
    disk_size_label,
};
pub use tote_closures::{
    ClosureStart, ClosureUsage, GraphCollected, GraphFault, GraphImported, GraphNodeRow, GraphRoot,
    GraphSource, StoreReport, StoreReportRow, TotefileBuilt, build_totefile, closure_start, closure_usage,
    graph_collect, graph_diff, graph_forget, graph_import, graph_nodes, graph_profiles, graph_roots,
    graph_tree, graph_why, is_missing_closure, profile_remove, profile_set, profile_switch, store_report,
};
pub use tote_closures::{
    HistoryRow, ImageBranch, ImageDetails, ImageRow, ImageSelection, PlatformBranch, Pruned, Space, history,
    image_branches, image_names, images, inspect_image, prune_images, remove_images, space,
};
pub use tote_closures::{
    Learned, SlimError, SlimProbe, SlimRequest, SlimStep, Slimmed, parse_http_probe, parse_pattern,
    parse_time, slim, slim_diff,
};
pub use tote_debug::{
    DEBUG_SHELLS, DebugError, DebugForwards, DebugRequest, DebugTools, KeepError, KeptTools, debug,
    forget_kept, kept_tools,
};
pub use tote_graph::{Changed as GraphChange, Graph, Profile as GraphProfile, Step as GraphStep};
pub use tote_image::{Digest, Platform, Reference};
pub use tote_images::{
    Access, ArchiveError, ChangeError, Health, ImageTree, ImagesError, ImportOptions, InspectedManifest,
    LayerRow, LayerStep, ListRequest, LoadSource, Loaded, Lost, MadeIndex, ManifestError, MemberOptions,
    PullEvent, PullRequest, Pulled, PushEvent, PushReport, PushRequest, PushStep, PushedImage, RemoteError,
    RemovedImage, SEARCH_LIMIT, SaveTarget, SearchRequest, ToolsRequest, VerboseManifest, VerboseManifests,
    Wanted, WhenToPull, WholeFile, add_to_manifest, annotate_manifest, ask_secret, create_at_registry,
    create_manifest, enter_ids, enter_one_id, has_ids, has_image, has_manifest, image_tree, import,
    import_url, inspect_manifest, list_tags, load, login, login_name, logout, logout_everywhere, open_store,
    parse_creds, pull, pull_all_tags, push, push_all_tags, remove_from_manifest, remove_manifest, save,
    search, tag, untag, verify_store, wanted,
};
pub use tote_life::container;
pub use tote_life::exec::{ExecError, Executed, exec};
pub use tote_life::health::check_now;
pub use tote_life::prepare::{prepare, prepare_again};
pub use tote_life::vm::{
    VmFault, VmKernel, VmSource, VmTemplate, VmTemplateRow, attend as attend_vm,
    create_template as create_vm_template, prune_templates as prune_vm_templates,
    remove_template as remove_vm_template, setup as setup_vm, templates as vm_templates, visit as visit_vm,
};
pub use tote_life::{create, run};
pub use tote_prepare::secret::{
    NewSecret, SecretDetails, SecretFault, SecretRow, create as create_secret, exists as has_secret,
    inspect as inspect_secret, remove as remove_secret, secrets,
};
pub use tote_prepare::standard::check_terminal;
pub use tote_prepare::volume::{
    PrunedVolumes, TreatmentFault, VolumeDetails, VolumeFault, VolumeRow, VolumeSelection,
    create as create_volume, exists as has_volume, export as export_volume, import as import_volume,
    inspect as inspect_volume, names as volume_names, prune as prune_volumes, remove as remove_volume,
    volumes,
};
pub use tote_prepare::{Finished, HostInit, Prepared, RunRequest};
pub use tote_records::MountFault;
pub use tote_records::{EngineError, ImageFault, MachineError, PartError, RequestError};
pub use tote_runtime::{Timings, prepare_seal, terminal_size, wait_while_read};
pub use tote_sandbox::ALL_CAPABILITIES;
pub use tote_slim::{FileFate, Part, ProbeReport, Report as SlimReport, RunReport};
pub use tote_spec::{Process, Spec, VERSION as OCI_VERSION};
pub use tote_state::record::Damaged;
pub use tote_state::records::Records;
pub use tote_state::{Caller, Home, StateError};
pub use tote_store::ImageUsage;
pub use tote_sys::{arguments, chain, entry, tell_long_waits};
pub use tote_unit::Wishes;
pub use unit::{
    GenerateOptions, GeneratedUnit, QuadletOptions, QuadletOutcome, ScriptInit, UnitError, generate_quadlets,
    generate_script, generate_units, restart_unit,
};
