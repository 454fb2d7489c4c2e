//! Options that a virtual machine refuses, and reasons why there is none.

mod error;
mod settle;

pub use error::VmFault;
pub use settle::{adapt, check_here, is_in_vm, settle};
