//! End of a pod with its last container.

use super::{Pod, find};
use crate::Home;
use crate::container::is_held;
use crate::container::{Container, Entry, Status};
use rustix::process::{Signal, pidfd_send_signal};
use tote_state::events::append;
use tote_state::process;
use tote_sys::best_effort;

/// Stops the pod after the end of its last member, if that is its policy: its infra container is signalled. Called
/// after a member's end is recorded; the caller does not wait for the pod's end.
pub fn member_ended(home: &Home, member: &Container) {
    if member.is_infra() {
        return;
    }
    let id = member.pod.as_ref().and_then(|pod| pod.parse().ok());
    // absence: the pod goes on
    let pod = id.and_then(|id| Pod::read(home, &id).ok().flatten());
    let Some(pod) = pod.filter(|pod| pod.stops) else {
        return;
    };
    // If a record cannot be read, its container may be a running member, so the pod goes on.
    let Ok(members) = find::members_whole(home, &pod.id) else {
        return;
    };
    // If two members end at once, the one that releases its claim later sees the other's end.
    let lives = |entry: &Entry| {
        let lives = matches!(entry.state.status, Status::Running | Status::Restarting);
        lives || is_held(home, &entry.container.id)
    };
    let mut others = members.iter().filter(|entry| !entry.container.is_infra());
    if others.any(|entry| entry.container.id != member.id && lives(entry)) {
        return;
    }
    let infra = members.iter().find(|entry| entry.container.is_infra());
    let process = infra
        .filter(|infra| infra.state.runs())
        .and_then(|infra| infra.state.process);
    if let Some(infra) = process.and_then(|process| process::open(process.pid, process.start_time)) {
        best_effort(pidfd_send_signal(infra, Signal::TERM));
        append(home, &[pod.event("stop")]);
    }
}
