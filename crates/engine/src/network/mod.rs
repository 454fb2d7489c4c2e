//! Networks: what is written down of them, which container is in which, and when they are up.
//!
//! A network is up while a container has an address in it. The command that starts the first container brings it up, the one that ends
//! the last one takes it down, and a file in `live/` says that it is up, so that the next command takes down what a killed
//! one has left. All of it happens under one lock, which is held only for that time.

mod answers;
mod asker;
mod choose;
mod connect;
mod connecting;
mod create;
mod driver;
mod egress;
mod endpoint;
mod error;
mod idle;
mod interrupted;
mod join;
mod listener;
mod look;
mod names;
mod options;
mod ports;
mod publish;
mod record;
mod refused;
mod remove;
mod rootless;

pub(crate) use answers::{Answers, FrontAnswers};
pub(crate) use choose::{choose, default_of, go_without, lacks};
pub use connect::{ConnectRequest, connect, disconnect};
pub(crate) use connecting::CONNECTING;
pub use create::{NetworkRequest, create};
pub(crate) use driver::NetworkDriver;
pub(crate) use egress::check_step;
#[cfg(test)]
pub(crate) use endpoint::Endpoint6;
pub(crate) use endpoint::ports_of;
pub use endpoint::{Endpoint, PortRecord};
pub(crate) use error::{AddressFault, DriverFault, PublishFault, TrafficFault};
pub use error::{ConnectFault, NetworkFault, RootlessFault};
pub(crate) use idle::{linger, settle, sweep};
pub(crate) use interrupted::end_connection;
pub(crate) use join::{Joined, call, forget, join, leave, leave_recorded};
pub use look::{
    NetworkDetails, NetworkMember, NetworkRange, NetworkRow, NetworkSelection, exists, inspect, names,
    networks,
};
pub(crate) use names::{has_names, hide, names_of};
pub use ports::{add_ports, remove_ports};
pub(crate) use record::{UP, name_of};
pub(crate) use refused::refused;
pub use refused::{RefusedDestination, egress_log};
pub use remove::{prune, remove};
pub(crate) use rootless::{apart, enter_for, enter_network, enter_user, unavailable};
