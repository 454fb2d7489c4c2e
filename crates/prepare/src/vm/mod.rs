//! Options that a virtual machine refuses, and reasons why it cannot be had.

mod error;
mod settle;

pub use error::VmFault;
pub use settle::{adapt, check_alone, check_here, is_in_vm, settle};
