//! Facts that a process needs to join a container, and reasons why it cannot.

mod error;
mod inside;

pub use error::ExecError;
pub use inside::Inside;
