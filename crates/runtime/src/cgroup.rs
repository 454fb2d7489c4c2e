//! Cgroup of the container, with its device program, the only part that is not a file.

use crate::{ErrandError, RuntimeError};
use tote_cgroup::{Cgroup, Plan};
use tote_sys::best_effort;

/// Makes a cgroup and sets its limits, on v2 including the device program.
///
/// # Errors
/// `ErrandError::Cgroup` and `ErrandError::DeviceFilter`; the cgroup has been removed again then.
pub fn create(plan: &Plan, warn: &mut dyn FnMut(String)) -> Result<Cgroup, RuntimeError> {
    let (cgroup, warnings) = Cgroup::create(plan).map_err(ErrandError::Cgroup)?;
    warnings.into_iter().for_each(|warning| warn(warning.to_string()));
    if let Some(program) = plan.device_program()
        && let Err(error) = filter_devices(&cgroup, program)
    {
        // The error to report is the first one.
        best_effort(cgroup.remove());
        return Err(error);
    }
    Ok(cgroup)
}

/// Gives a cgroup v2 a device program in place of its old one; a v1 cgroup has its rules in files.
///
/// # Errors
/// `ErrandError::DeviceFilter`.
pub fn filter_devices(cgroup: &Cgroup, program: &[tote_cgroup::BpfInsn]) -> Result<(), RuntimeError> {
    let Some(dir) = cgroup.v2_dir() else { return Ok(()) };
    let instructions: Vec<_> = program
        .iter()
        .map(|instruction| {
            (
                instruction.code,
                instruction.regs,
                instruction.off,
                instruction.imm,
            )
        })
        .collect();
    tote_sys::device_filter(dir, &instructions)
        .map_err(|error| RuntimeError::Errand(ErrandError::DeviceFilter(error)))
}
