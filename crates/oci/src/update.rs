//! The command `update`.

use crate::states::Status;
use crate::status::status;
use crate::{ContainerError, GroupError, Id, OciError, Store};
use tote_cgroup::{Cgroup, Controllers, PlanError, Policy, device_program};
use tote_spec::{BlockIo, Cpu, DeviceRule, Memory, Pids, Resources};

/// New limits; absent ones stay unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpdateOptions {
    /// Text of `--resources`, as JSON; the other options are ignored if it is given.
    pub resources: Option<String>,
    /// Value of `--blkio-weight`.
    pub blkio_weight: Option<u16>,
    /// Values of `--cpu-…` and `--cpuset-…`.
    pub cpu: Cpu,
    /// Values of `--memory…` and `--kernel-memory…`.
    pub memory: Memory,
    /// Value of `--pids-limit`.
    pub pids_limit: Option<i64>,
}

impl UpdateOptions {
    fn resources(&self) -> Result<Resources, OciError> {
        if let Some(text) = &self.resources {
            return serde_json::from_str(text).map_err(OciError::json("the resources"));
        }
        let some = |used: bool| used.then_some(());
        Ok(Resources {
            memory: some(self.memory != Memory::default()).map(|()| self.memory.clone()),
            cpu: some(self.cpu != Cpu::default()).map(|()| self.cpu.clone()),
            pids: self.pids_limit.map(|limit| Pids { limit: Some(limit) }),
            block_io: self.blkio_weight.map(|weight| BlockIo {
                weight: Some(weight),
                ..BlockIo::default()
            }),
            ..Resources::default()
        })
    }
}

/// Changes the limits of an existing container.
///
/// # Errors
/// The container has ended, or a limit is refused.
pub fn update(
    store: &Store,
    id: &Id,
    options: &UpdateOptions,
    warn: &mut dyn FnMut(String),
) -> Result<(), OciError> {
    let mut resources = options.resources()?;
    if !resources.devices.is_empty() {
        crate::cgroup::device_rules(&mut resources, crate::seal::is_root_of_machine());
    }
    let mut place = store.open(id)?;
    place.lock()?;
    let (record, _) = place
        .read()?
        .ok_or(OciError::Container(ContainerError::NotFound))?;
    if status(&place, &record) == Status::Stopped {
        return Err(OciError::Container(ContainerError::NotRunning));
    }
    let cgroup = Cgroup::open(&record.cgroup)?;
    if cgroup.is_empty() {
        return Err(OciError::Group(GroupError::NoCgroup));
    }
    for warning in cgroup.update(&resources, Policy::Strict)? {
        warn(warning.to_string());
    }
    filter_devices(&cgroup, &resources.devices)
}

/// Sets device rules on v2, where they are a program that replaces the old one.
fn filter_devices(cgroup: &Cgroup, rules: &[DeviceRule]) -> Result<(), OciError> {
    let in_v1 = cgroup
        .paths()
        .any(|(controllers, _)| controllers.contains(Controllers::DEVICES));
    if in_v1 || rules.is_empty() || cgroup.v2_dir().is_none() {
        return Ok(());
    }
    let program = device_program(rules).map_err(PlanError::from)?;
    tote_runtime::filter_devices(cgroup, &program).map_err(OciError::Runtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given() {
        let mut options = UpdateOptions {
            pids_limit: Some(10),
            ..UpdateOptions::default()
        };
        options.memory.limit = Some(1 << 20);
        let resources = options.resources().unwrap();
        assert_eq!(resources.pids, Some(Pids { limit: Some(10) }));
        assert_eq!(resources.memory.unwrap().limit, Some(1 << 20));
        assert!(resources.cpu.is_none() && resources.block_io.is_none());
        options.resources = Some(r#"{"cpu":{"shares":5}}"#.to_owned());
        let resources = options.resources().unwrap();
        assert!(resources.memory.is_none() && resources.cpu.unwrap().shares == Some(5));
        options.resources = Some("[]x".to_owned());
        assert!(options.resources().is_err());
    }
}
