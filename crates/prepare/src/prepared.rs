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
    /// Record and state.
    pub entry: Entry,
    /// Options of the request.
    pub options: RunOptions,
    /// Specification.
    pub spec: Spec,
    /// Plan of the birth.
    pub plan: Plan,
    /// Plan of the cgroup, if there is one.
    pub cgroup: Option<tote_cgroup::Plan>,
    /// Network namespace that is being made.
    pub network: Option<tote_sys::ComingNetwork>,
    /// Ids of the container.
    pub ids: Ids,
    /// Claim, if this process holds it.
    pub claim: Option<Claim>,
    /// Held until other commands see the container as a member of its pod.
    pub member: Option<Guard>,
    /// Descriptors and settings of the host's init.
    pub init: HostInit,
    /// Socket for notifications of readiness.
    pub notify: Option<Notify>,
    /// Root, held until the container ends.
    pub _source: Source,
    /// Root of a virtual machine's sandbox.
    pub _beneath: Option<Source>,
    /// Processes and devices beside the container, of its storage.
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
