//! Connections and datagrams led from the caller's network namespace into another one, where no link connects the two, or to
//! addresses of the same one.
//!
//! Invariants:
//! - One call waits, for all peers at once and for descriptors of the owner's.
//! - Nothing grows without a bound: neither connections nor the clients of a datagram port, and what passes is in the
//!   kernel's pipes.
//! - A connection ends on one side as it ended on the other one: in order, or by a reset.
//!
//! The crate decides neither which ports lead where, nor who may use them.

mod alert;
mod datagrams;
mod event;
mod flow;
mod forwarder;
mod onward;
mod place;
mod port;
mod pump;

pub use forwarder::{BESIDE, Forwarder, Woken, is_free};
pub use onward::{Answer, Begun, Ends};
pub use place::{ByLink, Place, Places};
pub use port::{Forward, Kind};
