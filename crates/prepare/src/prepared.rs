//! Containers that are planned and not yet born.

use crate::container::{Claim, Container, Entry};
use crate::init::Notify;
use crate::pod::Guard;
use crate::rootfs::Source;
use crate::user::Ids;
use crate::volume::VolumeHold;
use crate::{EngineError, HostInit};
use tote_bundle::RunOptions;
use tote_sandbox::Plan;
use tote_spec::Spec;

/// A container that is planned and not yet born.
#[derive(Debug)]
pub struct Prepared {
    pub entry: Entry,
    pub options: RunOptions,
    pub spec: Spec,
    pub plan: Plan,
    pub cgroup: Option<tote_cgroup::Plan>,
    pub network: Option<tote_sys::ComingNetwork>,
    pub ids: Ids,
    pub claim: Option<Claim>,
    /// Held until other commands see the container as a member of its pod.
    pub member: Option<Guard>,
    pub init: HostInit,
    pub notify: Option<Notify>,
    pub _source: Source,
    /// Root of a virtual machine's sandbox.
    pub _beneath: Option<Source>,
    pub beside: tote_driver::Beside,
    /// Until it is written down that it has them.
    pub volumes: VolumeHold,
    /// Why it has not the network that it would have had; one of the plan's warnings.
    pub without_network: Option<String>,
}

impl Prepared {
    /// Returns the plan as another process would perform it; printing it is what `--plan` does.
    ///
    /// # Errors
    /// [`tote_sandbox::PlanError::Form`] if this process may open no more descriptors.
    pub fn plan(&self) -> Result<Plan, EngineError> {
        Ok(self.plan.handed_over().map_err(tote_sandbox::PlanError::from)?)
    }

    /// The plan of its cgroup, if it needs one.
    #[must_use]
    pub fn cgroup(&self) -> Option<&tote_cgroup::Plan> {
        self.cgroup.as_ref()
    }

    /// Whether it has records of its own.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.entry.kept
    }

    /// The request.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.entry.container
    }
}
