//! `graph`: nodes, closures of them, and containers that have a closure and nothing else.
//!
//! A node is a layer of the store and a document beside it, so a closure is an image of these layers, and it runs as any
//! image does.

mod build;
mod closure;
mod debs;
mod error;
mod gc;
mod import;
mod look;
mod names;
mod parts;
mod place;
mod profile;
mod programs;
mod report;
mod usage;

pub use build::{TotefileBuilt, build_totefile};
pub use closure::{ClosureStart, closure_start};
pub use error::GraphFault;
pub use gc::{GraphCollected, graph_collect, graph_forget};
pub use import::{GraphImported, GraphSource, graph_import};
pub use look::{GraphNodeRow, graph_diff, graph_nodes, graph_roots, graph_tree, graph_why};
pub use place::GraphRoot;
pub use profile::{graph_profiles, profile_remove, profile_set, profile_switch};
pub use report::{StoreReport, StoreReportRow, store_report};
pub use usage::{ClosureUsage, closure_usage};

use crate::EngineError;
use tote_graph::GraphError;
use tote_needs::Settings;

/// Label of the image of a closure: the ids of its nodes.
pub(crate) const CLOSURE_LABEL: &str = "tote.graph.closure";

/// Settings of programs whose environment is the default one.
fn host_settings() -> Settings {
    Settings {
        path: tote_bundle::DEFAULT_PATH.as_bytes().to_vec(),
        shell_words: true,
        ..Settings::default()
    }
}

/// The engine's error for one of the graph.
fn graph_error(error: GraphError) -> EngineError {
    GraphFault::Graph(error).into()
}

/// True if the error says that nothing has the name of an import or a profile.
#[must_use]
pub fn is_missing_closure(error: &EngineError) -> bool {
    matches!(
        error.part(),
        Some(GraphFault::NoRoot(_) | GraphFault::NoProfile(_))
    )
}
