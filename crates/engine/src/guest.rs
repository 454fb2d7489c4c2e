//! The first process of a virtual machine's guest, with what this engine does in there.

use std::process::ExitCode;

/// Is the first process of a virtual machine until the machine ends. Call it in no other process.
#[must_use]
pub fn guest_init() -> ExitCode {
    tote_guest::init(crate::copy::copy_in_guest)
}
