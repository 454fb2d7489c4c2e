//! Transfer of a system call filter's listener to the agent that answers for it.

use crate::record::Record;
use crate::state::ForHooks;
use crate::{Id, OciError, Status};
use rustix::fd::{AsFd as _, OwnedFd};
use serde::Serialize;
use std::path::Path;
use tote_sandbox::Plan;
use tote_spec::Seccomp;
use tote_sys::Op;

/// The specification's container process state.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProcessState<'a> {
    oci_version: &'a str,
    /// Names of the descriptors that come along, in order.
    fds: [&'static str; 1],
    pid: u32,
    metadata: &'a str,
    state: ForHooks<'a>,
}

/// Sends the listener to the profile's agent. `pid` is that of the filtered process.
pub(crate) fn hand_over(
    listener: &OwnedFd,
    profile: Option<&Seccomp>,
    pid: u32,
    (id, record, status): (&Id, &Record, Status),
) -> Result<(), OciError> {
    let path = profile.and_then(|profile| profile.listener_path.as_deref());
    // Planning refuses a notifying filter without an agent.
    let path = Path::new(path.unwrap_or_default());
    let text = document(profile, pid, ForHooks::new(id, record, status))?;
    tote_runtime::send_descriptor(path, &text, listener.as_fd()).map_err(|source| OciError::Agent {
        path: path.to_owned(),
        source,
    })
}

fn document(profile: Option<&Seccomp>, pid: u32, state: ForHooks<'_>) -> Result<String, OciError> {
    let metadata = profile.and_then(|profile| profile.listener_metadata.as_deref());
    let state = ProcessState {
        oci_version: tote_spec::VERSION,
        fds: ["seccompFd"],
        pid,
        metadata: metadata.unwrap_or_default(),
        state,
    };
    serde_json::to_string(&state).map_err(|source| OciError::Json {
        what: "the state for the seccomp agent".to_owned(),
        source: source.into(),
    })
}

/// Returns the `SECCOMP_FILTER_FLAG_…` that a plan's filter is loaded with; `None` without a filter.
pub(crate) fn flags(plan: &Plan) -> Option<u32> {
    plan.ops.iter().find_map(|op| match op {
        Op::Privilege(privilege) => privilege.filter.as_ref().map(|(_, flags)| *flags),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_the_specifications() {
        let record = Record {
            oci_version: "1.2.0".to_owned(),
            bundle: "/b".to_owned(),
            pid: Some(5),
            ..Record::default()
        };
        let profile: Seccomp = serde_json::from_str(
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/a", "listenerMetadata": "bar"}"#,
        )
        .unwrap();
        let id: Id = "web".parse().unwrap();
        let text = document(Some(&profile), 7, ForHooks::new(&id, &record, Status::Running)).unwrap();
        let expected = format!(
            "{{\"ociVersion\":\"{}\",\"fds\":[\"seccompFd\"],\"pid\":7,\"metadata\":\"bar\",\"state\":\
             {{\"ociVersion\":\"1.2.0\",\"id\":\"web\",\"status\":\"running\",\"pid\":5,\"bundle\":\"/b\"}}}}",
            tote_spec::VERSION
        );
        assert_eq!(text, expected);
    }
}
