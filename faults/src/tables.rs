//! What is data: names of system calls, and the commands that are tried.

pub(crate) mod calls;
pub(crate) mod scenarios;
