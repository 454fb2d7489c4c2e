//! Request for a session.

use super::DebugForwards;
use tote_bundle::{ExecOptions, Image};

/// Origin of the tools.
#[derive(Clone, Debug)]
pub enum DebugTools {
    /// An image.
    Image(Image),
    /// The files of another container, by its name as a target has it.
    Container(String),
}

/// Request for a session.
#[derive(Debug)]
pub struct DebugRequest {
    /// Origin of the tools.
    pub tools: DebugTools,
    /// Command and its surroundings; without a command a shell of the tools is started.
    pub exec: ExecOptions,
    /// Shell of [`crate::DEBUG_SHELLS`] that is started without a command.
    pub shell: Option<String>,
    /// Text that the shell carries out.
    pub script: Option<String>,
    /// True if the process stays in the caller's cgroup.
    pub no_cgroup: bool,
    /// True if the process has the container's environment.
    pub env_of_container: bool,
    /// True if the container's own tree is the root, with the tools in `/.tote`.
    pub target_view: bool,
    /// Ways between the session and this machine.
    pub forwards: DebugForwards,
    /// Packages that are installed among the tools before the command runs.
    pub packages: Vec<String>,
    /// User of this machine, by name or number, to whom the files belong that the session makes.
    pub effective_user: Option<String>,
    /// True if what the session writes among the tools is there in the next one.
    pub keep: bool,
}
