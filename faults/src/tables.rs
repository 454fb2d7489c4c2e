//! Tables: the names of system calls, and the commands to try.

pub(crate) mod calls;
pub(crate) mod scenarios;
