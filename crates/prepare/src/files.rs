//! Files that the engine makes for a container.

/// Files: where they are, with what mode, and what is in them.
pub type Files = Vec<(&'static str, u32, Vec<u8>)>;
