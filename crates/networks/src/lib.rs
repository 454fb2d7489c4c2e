//! Networks of containers: what is written down of them, which container is in which, and when they are up.
//!
//! Invariants:
//! - A network is up while a container has an address in it. The command that starts the first container brings it up, the one that
//!   ends the last one takes it down, and a file in `live/` says that it is up, so that the next command takes down what a killed
//!   one has left.
//! - All of it happens under one lock, which is held only for that time.
//!
//! This crate starts and removes no container: it knows their records. The kernel is asked for links and rules by the crate
//! `network`.

mod answers;
mod asker;
mod choose;
mod connect;
mod connecting;
mod create;
mod driver;
mod egress;
mod egress_check;
mod ends;
mod error;
pub mod etc;
mod holder;
mod idle;
mod inside;
mod interrupted;
mod join;
mod kept;
mod listener;
mod look;
mod names;
mod options;
mod ports;
mod present;
mod publish;
mod record;
mod refused;
mod remove;
mod rootless;
mod taps;
mod up;

use tote_records::network::endpoint;
use tote_records::{Caller, EngineError, Home, RequestError, container, pod, prune};

pub use answers::{Answers, FrontAnswers};
pub use choose::{choose, default_of, go_without, lacks};
pub use connect::{ConnectRequest, connect, disconnect};
pub use connecting::CONNECTING;
pub use create::{NetworkRequest, create};
pub use egress_check::check_step;
pub use error::{AddressFault, DriverFault, PublishFault, TrafficFault};
pub use error::{ConnectFault, NetworkFault, RootlessFault};
pub use idle::{linger, settle, sweep};
pub use interrupted::end_connection;
pub use join::{Joined, call, forget, join, leave, leave_recorded};
pub use kept::{reload, repair};
pub use look::{
    NetworkDetails, NetworkMember, NetworkRange, NetworkRow, NetworkSelection, exists, inspect, names,
    networks,
};
pub use names::{has_names, hide, names_of};
pub use ports::{add_ports, remove_ports};
pub use record::{UP, name_of};
pub use refused::refused;
pub use refused::{RefusedDestination, egress_log};
pub use remove::{PrunedNetworks, prune, remove};
pub use rootless::{apart, enter_for, enter_network, enter_user, unavailable};
pub use tote_network::TUN;
pub use tote_records::network::{Endpoint, Endpoint6, NetworkDriver, PortRecord, ports_of};
