//! Tables.

pub(crate) mod rules;
