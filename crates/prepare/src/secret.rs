//! Secrets: bytes with a name, which containers get as files or variables.

mod error;
mod given;
mod list;
mod record;

pub use error::SecretFault;
pub use given::{copy, give};
pub use list::{SecretDetails, SecretRow, exists, inspect, secrets};
pub use record::{NewSecret, create, remove};
