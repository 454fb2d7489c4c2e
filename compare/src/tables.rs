//! Tables and texts that are shipped with the program.

pub(crate) mod shipped;
