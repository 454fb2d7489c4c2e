//! What is shipped with the program.

pub(crate) mod shipped;
