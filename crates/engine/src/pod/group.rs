//! The cgroup of a pod: what its containers may use up together. Those of its members lie inside of it.
//!
//! Only a pod with limits has one, or with a place for it. `pods/ID/cgroup` says where it is, and did so before it was
//! made: whoever is killed on the way leaves nothing that cannot be found.

use super::Pod;
use crate::container::fault;
use crate::resources::resources;
use crate::{EngineError, Home, cgroup};
use std::io::ErrorKind;
use tote_bundle::{ContainerId, RunOptions};
use tote_cgroup::Cgroup;
use tote_runtime::RuntimeError;
use tote_sys::best_effort;

/// The record in a pod's directory.
const FILE: &str = "cgroup";

/// The option that says where the group is to be; all others are limits.
pub(super) const PARENT: &str = "cgroup-parent";

/// What is asked for, as options.
///
/// # Errors
/// A value that is none.
pub(super) fn options(limits: &[(String, String)]) -> Result<RunOptions, EngineError> {
    let mut options = RunOptions::default();
    for (option, value) in limits {
        options.set(option, value)?;
    }
    Ok(options)
}

/// Makes the group of a pod that is to have one.
///
/// # Errors
/// [`EngineError`]; what the machine cannot limit is a warning.
pub(super) fn make(home: &Home, pod: &Pod, warn: &mut dyn FnMut(String)) -> Result<(), EngineError> {
    if pod.limits.is_empty() {
        return Ok(());
    }
    let options = options(&pod.limits)?;
    let resources = resources(&options, &pod.limits, &[])?;
    let plan = cgroup::plan_pod(&pod.id, &options.cgroup_parent, &resources)?;
    note(home, &pod.id, &plan.record())?;
    let (group, warnings) = Cgroup::create(&plan).map_err(RuntimeError::Cgroup)?;
    fault::point("pod-grouped");
    note(home, &pod.id, &group.record())?;
    warnings.into_iter().for_each(|warning| warn(warning.to_string()));
    Ok(())
}

/// Makes it again where it is gone: with the machine, or by somebody's hand. Who calls it has the right to.
pub(super) fn ensure(home: &Home, pod: &Pod) -> Result<(), EngineError> {
    let is_whole = || {
        let record = read(home, &pod.id).ok()??;
        let group = Cgroup::open(&record).ok()?;
        Some(group.paths().count() == record.lines().count())
    };
    if pod.limits.is_empty() || is_whole() == Some(true) {
        return Ok(());
    }
    // What cannot be limited was told when the pod was made.
    make(home, pod, &mut |_| {})
}

/// The group of the pod of that id, where it has one.
///
/// # Errors
/// The record cannot be read: a container outside of the group would not be limited.
pub(crate) fn group_of(home: &Home, pod: &str) -> Result<Option<Cgroup>, EngineError> {
    let Ok(id) = pod.parse() else {
        return Ok(None);
    };
    let Some(record) = read(home, &id)? else {
        return Ok(None);
    };
    let group = Cgroup::open(&record).map_err(RuntimeError::Cgroup)?;
    Ok(Some(group).filter(|group| !group.is_empty()))
}

/// Ends what is in it, and takes it away.
///
/// # Errors
/// It is still there, and so is its record.
pub(super) fn remove(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    if let Some(record) = read(home, id)? {
        cgroup::clear(id, Some(&record))?;
    }
    for name in [FILE, "cgroup.new"] {
        best_effort(std::fs::remove_file(home.pod(id).join(name)));
    }
    Ok(())
}

/// The record of a pod's group; nothing where there is none, or where a power cut has taken it.
fn read(home: &Home, id: &ContainerId) -> Result<Option<String>, EngineError> {
    let path = home.pod(id).join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(record) => Ok(Some(record)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(None),
        Err(source) => Err(EngineError::file("read", path)(source)),
    }
}

fn note(home: &Home, id: &ContainerId, record: &str) -> Result<(), EngineError> {
    let path = home.pod(id).join(FILE);
    let fresh = path.with_extension("new");
    let written = tote_state::closed::write_new(&fresh, record).and_then(|()| std::fs::rename(&fresh, &path));
    written.map_err(EngineError::file("write", path))
}
