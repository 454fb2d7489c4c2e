//! Requests to run a container.

use crate::HostInit;
use tote_bundle::{Image, RunOptions};

/// A request to run a container.
#[derive(Debug)]
pub struct RunRequest {
    /// The image.
    pub image: Image,
    /// Everything else; the command is in it.
    pub options: RunOptions,
    /// The options as they were given, by their long names: what a later start is to know.
    pub given: Vec<(String, String)>,
    /// Whether it has records of its own, as everything has but `run --rm` in the foreground.
    pub kept: bool,
    /// Descriptors and settings of the host's init for it.
    pub init: HostInit,
}
