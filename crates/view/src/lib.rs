//! Lists and descriptions: rows with docker's fields, tables, JSON, and words for people.
//!
//! The functions take what the engine found and make a [`Listing`], a JSON value or a text of it. They neither print nor know a
//! command line, so that everything which shows containers to clients shares them.

mod containers;
mod contexts;
mod events;
mod graph;
mod history;
mod images;
mod inspect;
mod kept;
mod listing;
mod machine;
mod machine_text;
mod manifests;
mod mounts;
mod networks;
mod place;
mod pods;
mod pools;
mod ports;
mod secrets;
mod space;
mod stats;
mod text;
mod vm_templates;
mod volumes;

pub use containers::{ContainerColumns, containers, id_of, sort_containers, status};
pub use contexts::{context_details, contexts};
pub use events::{EVENT_TYPES, event_fields, event_message, event_text};
pub use graph::{closure_usage, graph_profiles, graph_roots, nodes, store_report};
pub use history::{history, ids_of_steps};
pub use images::{id_of_image, image_tree, images, sort_images};
pub use inspect::{
    UNSET_FIELDS, container_details, image_details, network_details, object_details, pod_details, secret,
    secret_details, volume_details, with_podmans_fields,
};
pub use listing::Listing;
pub use machine::{machine_details, version_details, version_text};
pub use machine_text::machine_text;
pub use manifests::{manifest_details, manifest_fields, manifest_text};
pub use mounts::mounts;
pub use networks::{id_of_network, networks};
pub use place::places;
pub use pods::{PodColumns, pod_report, pods};
pub use pools::{pool, pools};
pub use secrets::secrets;
pub use space::SpaceView;
pub use stats::{usage, usage_of_pods};
pub use text::{ago, cut, duration, joined, moment, one_line, removal, size, size_with, table};
pub use vm_templates::vm_templates;
pub use volumes::volumes;
