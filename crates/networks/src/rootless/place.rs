//! Where the networks of the caller are, and whether this process is there.

use crate::{Caller, Home};

/// Whether the caller's networks are in another network namespace than this process.
pub(crate) fn is_outside(home: &Home) -> bool {
    home.caller == Caller::User && !rustix::process::geteuid().is_root()
}

/// Whether this process is in the namespaces of a user's networks.
pub(crate) fn is_inside(home: &Home) -> bool {
    home.caller == Caller::User && rustix::process::geteuid().is_root()
}
