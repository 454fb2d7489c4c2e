//! Images made of parts of others, and images beside what uses them: smaller images, closures of nodes, lists, removal.
//!
//! Invariants:
//! - An image gets its name only when it is known to do what it is for; a failure changes no name.
//! - An image that a container, a pool or a build needs is not removed, unless the caller forces it.
//! - A closure is an image of whole nodes, so every file of it is shared with each other closure that has the node.
//!
//! Which files belong together is computed by the pure crates `needs`, `graph` and `slim`; this crate finds the files, runs the
//! probes and writes the layers. It knows neither Dockerfiles nor registries.

mod contained;
mod graph;
mod image;
mod slim;

use tote_images::open_store;
use tote_life::prepare::prepare;
use tote_life::{changes, exec, run};
use tote_prepare::{Finished, HostInit, RunRequest, rootfs};
use tote_records::{EngineError, Home, ImageFault, MachineError, apart, container, prune};

pub use graph::{
    ClosureStart, ClosureUsage, GraphCollected, GraphFault, GraphImported, GraphNodeRow, GraphRoot,
    GraphSource, StoreReport, StoreReportRow, TotefileBuilt, build_totefile, closure_start, closure_usage,
    graph_collect, graph_diff, graph_forget, graph_import, graph_nodes, graph_profiles, graph_roots,
    graph_tree, graph_why, is_missing_closure, profile_remove, profile_set, profile_switch, store_report,
};
pub use image::{
    HistoryRow, ImageBranch, ImageDetails, ImageRow, ImageSelection, PlatformBranch, Pruned, Space, history,
    image_branches, image_names, images, inspect_image, prune_images, remove_images, space,
};
pub use slim::{
    Learned, SlimError, SlimProbe, SlimRequest, SlimStep, Slimmed, parse_http_probe, parse_pattern,
    parse_time, slim, slim_diff,
};
