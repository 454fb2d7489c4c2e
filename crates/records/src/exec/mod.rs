//! What a process needs to know to join a container, and why it cannot.

mod error;
mod inside;

pub use error::ExecError;
pub use inside::Inside;
