//! Errors of what containers changed; a lookup fails with them, too.

mod error;

pub use error::ContainerError;
