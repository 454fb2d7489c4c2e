//! Ends of networks in containers, as the containers' records have them.

mod driver;
pub mod endpoint;

pub use driver::NetworkDriver;
pub use endpoint::{Endpoint, Endpoint6, PortRecord, ports_of, way_out};
